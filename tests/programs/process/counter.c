/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counter.c: reads the time-stamp counter in every way that a program might.
 *
 *     counter WHAT...        # tests/e2e/local/counter.py says which
 *     counter can-trap       # 0 if this machine makes rdtsc fault when it is told to
 *
 * What it prints depends on the values, so a replay that got others prints something else.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 3000

static const char *self;
/* It prints what a recorder has done to it, in which a replay differs. */
static bool tells;

static uint64_t mix(uint64_t hash, uint64_t v)
{
	return (hash ^ v) * 0x9e3779b97f4a7c15ull + 1;
}

static void fail(const char *what)
{
	printf("FAILED: %s\n", what);
	fflush(stdout);
	_exit(1);
}

/* ------------------------------------------------------------- instructions */

#define SITE(name, body)                                                                           \
	extern const uint8_t site_##name[];                                                        \
	uint64_t read_##name(void);                                                                \
	__asm__(".text\n.p2align 4\n.globl read_" #name "\n.type read_" #name ", @function\n"      \
		"read_" #name ":\n.cfi_startproc\n" body "\nret\n.cfi_endproc\n"                   \
		".size read_" #name ", .-read_" #name "\n")

/* As compilers have it. */
SITE(plain, "site_plain: rdtsc\nshl $32, %rdx\nor %rdx, %rax");
SITE(second, "site_second: rdtsc\nshl $32, %rdx\nadd %rdx, %rax");
SITE(rdtscp, "site_rdtscp: rdtscp\nshl $32, %rdx\nor %rdx, %rax\nadd %rcx, %rax");
/* Between barriers, as benchmarks have it. */
SITE(fenced, "lfence\nsite_fenced: rdtsc\nlfence\nshl $32, %rdx\nor %rdx, %rax");
/* A loop begins directly behind it. */
SITE(target, "xor %esi, %esi\nmov $3, %ecx\nsite_target: rdtsc\n1: add %rax, %rsi\ndec %ecx\njnz 1b\n"
	     "mov %rsi, %rax");
/* A call, which a jump would have to copy. */
SITE(call, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\nsite_call: rdtsc\ncall plus_one\nadd $8, %rsp\n"
	   ".cfi_adjust_cfa_offset -8");
__asm__(".text\nplus_one: .cfi_startproc\nlea 1(%rax), %rax\nret\n.cfi_endproc\n");
/* The last byte of its page and the first of the next. */
__asm__(".text\n.p2align 12\n.fill 4095, 1, 0x90\n");
SITE(unaligned, ".byte 0xeb, 0x00\nsite_unaligned: rdtsc\nnop");
/* What is below the stack pointer, in the flags and in all registers stays. */
uint64_t read_careful(uint64_t flags, uint64_t *failures);
__asm__(".text\n.p2align 4\n.globl read_careful\n.type read_careful, @function\n"
	"read_careful:\n.cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n"
	"mov %rdi, %r11\n"
	"movq %rdi, %xmm15\nmovq %rsi, %xmm0\npshufd $0x44, %xmm15, %xmm7\n"
	"mov %rdi, -8(%rsp)\nmov %rsi, -16(%rsp)\nmov %rsi, -120(%rsp)\n"
	"lea 1(%rdi), %rcx\nlea 2(%rdi), %r8\nlea 3(%rdi), %r9\nlea 4(%rdi), %r10\n"
	"lea -136(%rsp), %rsp\n.cfi_adjust_cfa_offset 136\n"
	"push %rdi\npopfq\n"
	"lea 136(%rsp), %rsp\n.cfi_adjust_cfa_offset -136\n"
	"site_careful: rdtsc\n"
	"lea -136(%rsp), %rsp\n.cfi_adjust_cfa_offset 136\n"
	"pushfq\npop %rbx\n"
	"lea 136(%rsp), %rsp\n.cfi_adjust_cfa_offset -136\n"
	"cld\n"
	"cmp %rbx, %rdi\njne 1f\ncmp %rdi, -8(%rsp)\njne 1f\ncmp %rsi, -16(%rsp)\njne 1f\n"
	"cmp %rsi, -120(%rsp)\njne 1f\n"
	"cmp %rdi, %r11\njne 1f\n"
	"sub $1, %rcx\nsub $2, %r8\nsub $3, %r9\nsub $4, %r10\n"
	"cmp %rdi, %rcx\njne 1f\ncmp %rdi, %r8\njne 1f\ncmp %rdi, %r9\njne 1f\ncmp %rdi, %r10\njne 1f\n"
	"movq %xmm15, %rcx\ncmp %rcx, %rdi\njne 1f\nmovq %xmm0, %rcx\ncmp %rcx, %rsi\njne 1f\n"
	"movhlps %xmm7, %xmm7\nmovq %xmm7, %rcx\ncmp %rcx, %rdi\njne 1f\n"
	"jmp 2f\n1: incq (%rsi)\n"
	"2: shl $32, %rdx\nor %rdx, %rax\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\n"
	"ret\n.cfi_endproc\n.size read_careful, .-read_careful\n");

static bool is_jump(const uint8_t *site)
{
	return *(const volatile uint8_t *)site == 0xe9;
}

static uint64_t many(uint64_t (*get)(void), int rounds)
{
	uint64_t hash = 0;

	for (int i = 0; i < rounds; i++)
		hash = mix(hash, get());
	return hash;
}

static void instructions(void)
{
	static const struct {
		const char *name;
		uint64_t (*get)(void);
		const uint8_t *site;
	} all[] = {
	    {"plain", read_plain, site_plain},	 {"second", read_second, site_second},
	    {"rdtscp", read_rdtscp, site_rdtscp}, {"target", read_target, site_target},
	    {"call", read_call, site_call},	 {"unaligned", read_unaligned, site_unaligned},
	};
	uint64_t before = read_plain(), now;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		printf("%s %016llx\n", all[i].name,
		       (unsigned long long)many(all[i].get, i < 3 ? ROUNDS : 100));
	for (int i = 0; i < ROUNDS; i++, before = now) {
		now = read_plain();
		if (now < before)
			fail("the counter went back");
	}
}

static void registers(void)
{
	/* Carry, parity, adjust, zero, sign, direction, overflow; and the two that are always set. */
	static const uint64_t bits[] = {1, 4, 0x10, 0x40, 0x80, 0x400, 0x800};
	uint64_t failures = 0, hash = 0;

	for (int round = 0; round < 20; round++)
		for (unsigned int set = 0; set < 128; set++) {
			uint64_t flags = 0x202;

			for (int i = 0; i < 7; i++)
				flags |= set >> i & 1 ? bits[i] : 0;
			hash = mix(hash, read_careful(flags, &failures));
		}
	printf("registers %016llx, %llu failures\n", (unsigned long long)hash,
	       (unsigned long long)failures);
}

/* In a steady state nothing faults: the instruction is a jump, and the trap is off. */
static void steady(void)
{
	int mode = 0;

	many(read_plain, 200);
	many(read_rdtscp, 200);
	many(read_fenced, 200);
	if (prctl(PR_GET_TSC, &mode))
		fail("prctl");
	if (tells)
		printf("jumps %d %d %d, trap %s\n", is_jump(site_plain), is_jump(site_rdtscp), is_jump(site_fenced),
		       mode == PR_TSC_ENABLE ? "off" : "on");
}

/*
 * Another library has replaced a function by a jump to its own, as UCX does with sbrk. What is left of the function
 * cannot be decoded, and has the bytes of rdtsc across two instructions: in jne and xor.
 */
__asm__(".text\n"
	".p2align 12\n"
	".type replaced_function, @function\n"
	"replaced_function:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n	mov %rsp, %rbp\n	mov $1, %eax\n	mov $0x06060606, %ecx\n"
	"	test %rdi, %rdi\n"
	"	.byte 0x75, 0x0f\n	.byte 0x31, 0xff\n"
	"	.nops 13, 1\n"
	"	pop %rbp\n	ret\n"
	"	.cfi_endproc\n"
	".size replaced_function, . - replaced_function\n"
	".p2align 12\n");
int replaced_function(long argument);

static int replacement(long argument)
{
	return 7;
}

static void replace_function(void)
{
	uint8_t jump[] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3}; /* mov $..., %r11; jmp *%r11 */
	int (*to)(long) = replacement;

	memcpy(jump + 2, &to, sizeof(to));
	if (replaced_function(1) != 1 || mprotect((void *)replaced_function, 4096, PROT_READ | PROT_WRITE))
		fail("replaced_function");
	memcpy((void *)replaced_function, jump, sizeof(jump));
	if (mprotect((void *)replaced_function, 4096, PROT_READ | PROT_EXEC) || replaced_function(1) != 7)
		fail("replaced_function");
	steady();
}

/* ------------------------------------------------------- threads and signals */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last;

static void *thread(void *argument)
{
	uint64_t hash = (uintptr_t)argument, now;

	for (int i = 0; i < ROUNDS; i++) {
		hash = mix(hash, i % 2 ? read_plain() : read_second());
		if (i % 100)
			continue;
		pthread_mutex_lock(&mutex);
		now = read_plain();
		if (now < last)
			fail("the counter went back from thread to thread");
		last = now;
		pthread_mutex_unlock(&mutex);
	}
	return (void *)(uintptr_t)hash;
}

/* All of them meet the instructions while these are being replaced. */
static void threads(void)
{
	pthread_t ids[4];
	void *hash;

	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&ids[i], NULL, thread, (void *)i))
			fail("pthread_create");
	for (int i = 0; i < 4; i++) {
		pthread_join(ids[i], &hash);
		printf("thread %d %016llx\n", i, (unsigned long long)(uintptr_t)hash);
	}
}

static volatile uint64_t in_handler, handled;

static void on_alarm(int signo)
{
	in_handler = mix(in_handler, read_plain());
	handled++;
}

static void signals(void)
{
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
	uint64_t hash = 0, n = 0;

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < 50 && n < 50000000) {
		hash = mix(hash, read_plain());
		n++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("signals %016llx %016llx after %llu\n", (unsigned long long)hash,
	       (unsigned long long)in_handler, (unsigned long long)n);
}

/* ------------------------------------------------------------------ new code */

static int module_jumps;

/* Something lies behind the library, and nothing in between; it may be the kernel's vdso, which stays. */
static void map_behind(const uint8_t *site)
{
	void *at = (void *)(((uintptr_t)site & ~4095ul) + 9 * 4096);

	if (mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at && errno != EEXIST)
		fail("mmap");
}

static uint64_t by_module(const char *path)
{
	void *module = dlopen(path, RTLD_NOW);
	uint64_t (*get)(void) = module ? (uint64_t(*)(void))dlsym(module, "module_counter") : NULL;
	uint64_t hash;

	if (!get)
		fail("dlopen");
	map_behind(dlsym(module, "module_site"));
	hash = many(get, ROUNDS);
	module_jumps += is_jump(dlsym(module, "module_site"));
	dlclose(module);
	return hash;
}

static void library(void)
{
	char path[4096];

	many(read_plain, 200);
	snprintf(path, sizeof(path), "%.*s/counter_module.so", (int)(strrchr(self, '/') - self), self);
	for (int i = 0; i < 3; i++)
		printf("module %016llx\n", (unsigned long long)by_module(path));
	printf("then %016llx\n", (unsigned long long)many(read_plain, 200));
	if (tells)
		printf("jumps in the module: %d\n", module_jumps);
}

static void tell_trap(const char *when)
{
	int mode = 0;

	if (prctl(PR_GET_TSC, &mode))
		fail("prctl");
	if (tells)
		printf("%s: trap %s\n", when, mode == PR_TSC_ENABLE ? "off" : "on");
}

/* A library that has a table, and code, of which the recorder knows nothing. */
static void unclear(void)
{
	uint64_t (*get)(void);
	char path[4096];
	void *module;
	int status;

	snprintf(path, sizeof(path), "%.*s/counter_unclear.so", (int)(strrchr(self, '/') - self), self);
	module = dlopen(path, RTLD_NOW);
	get = module ? (uint64_t(*)(void))dlsym(module, "unclear_read") : NULL;
	if (!get)
		fail("dlopen");
	printf("plain %016llx\n", (unsigned long long)many(read_plain, 200));
	tell_trap("before it is executed");
	fflush(stdout);
	if (!fork())
		_exit(!get());
	wait(&status);
	printf("child %d\n", status);
	printf("unclear %016llx\n", (unsigned long long)many(get, ROUNDS));
	tell_trap("behind that");
	printf("plain %016llx\n", (unsigned long long)many(read_plain, 200));
}

static void *jit_thread(void *function)
{
	return (void *)(uintptr_t)many((uint64_t(*)(void))function, 100);
}

/* Code that no file has; it cannot be known which of its bytes are instructions. */
static void jit(void)
{
	static const uint8_t code[] = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};
	uint8_t *p;
	pthread_t id;
	void *hash;

	many(read_plain, 200);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof(code));
	if (mprotect(p, 4096, PROT_READ | PROT_EXEC))
		fail("mprotect");
	printf("jit %016llx\n", (unsigned long long)many((uint64_t(*)(void))p, 200));
	if (pthread_create(&id, NULL, jit_thread, p) || pthread_join(id, &hash))
		fail("pthread_create");
	printf("jit in a thread %016llx\n", (unsigned long long)(uintptr_t)hash);
	munmap(p, 4096);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof(code));
	printf("writable %016llx\n", (unsigned long long)many((uint64_t(*)(void))p, 200));
	munmap(p, 4096);
	printf("then %016llx\n", (unsigned long long)many(read_plain, 200));
}

/* ------------------------------------------------------------------ children */

static void children(void)
{
	uint64_t before;
	int status;

	many(read_plain, 200);
	many(read_call, 200);
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (!pid) {
			before = read_plain();
			for (int k = 0; k < 100; k++)
				if (read_plain() < before || is_jump(site_plain) || *site_call != 0x0f)
					_exit(1);
			if (i)
				execl(self, self, "quiet", NULL);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
		fflush(stdout);
	}
	printf("parent %016llx\n", (unsigned long long)many(read_plain, 200));
}

/* ------------------------------------------------------------------- clocks */

/* Only clocks: these are asked of the vDSO, which reads the counter. */
static void clocks(void)
{
	struct timespec ts;
	struct timeval tv;
	uint64_t hash = 0;
	int mode = 0;

	for (int i = 0; i < ROUNDS; i++) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		hash = mix(hash, (uint64_t)ts.tv_nsec);
		gettimeofday(&tv, NULL);
		hash = mix(hash, (uint64_t)tv.tv_usec);
	}
	prctl(PR_GET_TSC, &mode);
	printf("clocks %016llx\n", (unsigned long long)hash);
	if (tells)
		printf("trap %s\n", mode == PR_TSC_ENABLE ? "off" : "on");
}

/* Of the program that a child executes. */
static void quiet(void)
{
	int mode = 0;

	many(read_plain, 200);
	prctl(PR_GET_TSC, &mode);
	if (mode != PR_TSC_ENABLE || is_jump(site_plain))
		_exit(1);
}

static void on_fault(int signo)
{
	_exit(0);
}

static int can_trap(void)
{
	signal(SIGSEGV, on_fault);
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	read_plain();
	return 1;
}

static void *sleep_forever(void *argument)
{
	pause();
	return argument;
}

static int64_t own_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* What a read takes at best, beside a thread that sleeps. */
static void quickly(void)
{
	int64_t least = INT64_MAX;
	pthread_t other;

	pthread_create(&other, NULL, sleep_forever, NULL);
	many(read_plain, 200);
	for (int i = 0; i < 20; i++) {
		int64_t before = own_ns(), took;

		for (int k = 0; k < 5000; k++)
			read_plain();
		took = own_ns() - before;
		least = took < least ? took : least;
	}
	if (tells)
		printf("ps %lld\n", (long long)least / 5);
}

static const struct {
	const char *name;
	void (*run)(void);
} all[] = {
    {"instructions", instructions}, {"registers", registers}, {"steady", steady},
    {"threads", threads},	    {"signals", signals},     {"library", library},
    {"jit", jit},		    {"children", children},   {"clocks", clocks},
    {"quiet", quiet},		    {"replaced", replace_function}, {"quickly", quickly}, {"unclear", unclear},
};

int main(int argc, char **argv)
{
	self = argv[0];
	tells = !strcmp(argv[argc - 1], "tell");
	if (argc == 2 && !strcmp(argv[1], "can-trap"))
		return can_trap();
	for (int i = 1; i < argc; i++)
		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			if (!strcmp(argv[i], all[k].name))
				all[k].run();
	return 0;
}
