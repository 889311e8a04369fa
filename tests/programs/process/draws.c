/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * draws.c: random numbers drawn by instructions.
 *
 *	draws MODULE
 *
 * In all their forms, in threads, a child, and a library that is loaded late.  What differs from run to run is printed.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* What no draw may change is in the bits that it leaves. */
#define FORM(name, instruction, type)                                                                                    \
	static uint64_t name(void)                                                                                       \
	{                                                                                                                \
		register uint64_t value __asm__("r12") = 0x1122334455667788;                                             \
		register uint64_t low __asm__("rax") = 0x1122334455667788;                                               \
		uint8_t carry, zero;                                                                                     \
		do                                                                                                       \
			__asm__ volatile("xor %%ecx, %%ecx\n" instruction "\nsetc %2\nsetz %3"                           \
					 : "+r"(value), "+r"(low), "=&d"(carry), "=&b"(zero)::"rcx", "cc");              \
		while (!carry);                                                                                          \
		if (zero)                                                                                                \
			puts(#name " FAILED: flags");                                                                    \
		return value ^ low;                                                                                      \
	}

FORM(draw64, "rdrand %0", uint64_t)
FORM(draw32, "rdrand %%eax", uint32_t)
FORM(draw32_high, "rdrand %%r12d", uint32_t)
FORM(draw16, "rdrand %%ax", uint16_t)
FORM(draw16_high, "rdrand %%r12w", uint16_t)
FORM(seed64, "rdseed %0", uint64_t)
FORM(seed32, "rdseed %%eax", uint32_t)

static uint64_t (*const forms[])(void) = {draw64, draw32, draw32_high, draw16, draw16_high, seed64, seed32};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

static void print(const char *by, uint64_t kept, uint64_t value)
{
	printf("%s %016llx%s\n", by, (unsigned long long)value, value & kept ? " FAILED: bits" : "");
}

static void print_all(const char *by)
{
	/* The two registers differ where the instruction has written. */
	static const uint64_t kept[FORMS] = {[3] = ~0xffffull, [4] = ~0xffffull};

	for (unsigned int i = 0; i < FORMS; i++)
		print(by, kept[i], forms[i]());
}

static void *thread(void *argument)
{
	uint64_t sum = 0;

	for (int i = 0; i < 500; i++)
		sum = sum * 31 + forms[i % FORMS]();
	*(uint64_t *)argument = sum;
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t sums[3], (*late)(void);
	pthread_t threads[3];
	void *module;
	int status;

	print_all("main");
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, thread, &sums[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++)
		print("thread", 0, sums[i]);
	fflush(stdout);
	/* Not recorded, and draws as without the recorder. */
	if (!fork())
		_exit(thread(sums) != NULL);
	wait(&status);
	print("child", ~0ull, (uint64_t)status);
	module = dlopen(argv[argc - 1], RTLD_NOW);
	late = module ? (uint64_t(*)(void))dlsym(module, "module_draw") : NULL;
	if (!late)
		return 1;
	print("module", 0, late());
	return 0;
}
