/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interrupted.c: signals come in loops that do little but accesses to exposed memory, so that the thread is in the stubs of
 * probes most of the time.
 *
 *     interrupted       prints the names of its cases
 *     interrupted CASE
 *
 * Prints where each of the handlers found the thread, and with which registers.
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

#include "check.h"

#define BYTES	 65536
#define SIGNALS	 5
#define ACCESS	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define NOINLINE __attribute__((noinline))

static uint64_t *memory;
static volatile sig_atomic_t found_n;
static struct {
	uint64_t pc, registers;
} found[SIGNALS];

static void note(int signo, siginfo_t *info, void *context)
{
	const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	static const int numbers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_RBX, REG_RSP};
	uint64_t sum = 0;

	if (found_n == SIGNALS)
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sum = (sum ^ (uint64_t)g[numbers[i]]) * 0x9e3779b97f4a7c15ull + 1;
	found[found_n].pc = (uint64_t)g[REG_RIP];
	found[found_n].registers = sum;
	found_n++;
}

static NOINLINE void store(uint64_t k)
{
	volatile uint16_t *half = (volatile uint16_t *)memory;

	for (size_t i = 0; i < BYTES / sizeof(*half); i++)
		half[i] = (uint16_t)k;
}

static NOINLINE void add(uint64_t k)
{
	volatile uint64_t *word = memory;

	for (size_t i = 0; i < BYTES / sizeof(*word); i++)
		word[i] += k;
}

static NOINLINE void copy(uint64_t k)
{
	volatile uint64_t *word = memory;
	const size_t half = BYTES / sizeof(*word) / 2;

	for (size_t i = 0; i < half; i++)
		word[half + i] = word[i] ^ k;
}

/* Nothing changes there, so a register alone tells one turn from the next. */
static NOINLINE void poll(uint64_t k)
{
	const volatile uint32_t *flag = (const volatile uint32_t *)memory;

	for (size_t i = 0; i < 4096; i++)
		if (*flag == UINT32_MAX)
			abort();
}

static const struct {
	const char *name;
	void (*run)(uint64_t k);
} cases[] = {{"store", store}, {"add", add}, {"copy", copy}, {"poll", poll}};

static void run(void (*loop)(uint64_t k))
{
	const struct itimerval often = {{0, 7000}, {0, 7000}}, never = {{0, 0}, {0, 0}};
	struct sigaction sa = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};

	CHECK(!sigaction(SIGPROF, &sa, NULL) && !setitimer(ITIMER_PROF, &often, NULL));
	for (uint64_t k = 0; found_n < SIGNALS; k++)
		loop(k);
	CHECK(!setitimer(ITIMER_PROF, &never, NULL));
	for (int i = 0; i < SIGNALS; i++)
		printf("%llx %llx\n", (unsigned long long)found[i].pc, (unsigned long long)found[i].registers);
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;

	if (argc < 2) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			puts(cases[i].name);
		return 0;
	}
	CHECK(devices && devices[0]);
	context = ibv_open_device(devices[0]);
	memory = aligned_alloc(4096, BYTES);
	CHECK(context && memory);
	memset(memory, 0, BYTES);
	CHECK(ibv_reg_mr(ibv_alloc_pd(context), memory, BYTES, ACCESS));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name))
			run(cases[i].run);
	return 0;
}
