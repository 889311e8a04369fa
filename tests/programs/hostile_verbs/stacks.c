/* SPDX-License-Identifier: BSD-2-Clause */
/* stacks.c: what lies below a call, what a handler finds that interrupts one, and calls on stacks of the program's own. */
#include "hostile_verbs/shared.h"

#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

/* Sends what earlier functions have left on the stack: a replay compares it. */
__attribute__((noinline)) static void send_what_was_never_written(void)
{
	char bytes[3 * PAGE];

	__asm__ volatile("" : "=m"(bytes));
	memcpy(memory + PAGE, bytes, sizeof(bytes));
	receive(qp, 1, piece(4 * PAGE, sizeof(bytes)));
	send_it(qp, 2, piece(PAGE, sizeof(bytes)), IBV_SEND_SIGNALED);
}

static void never_written_below_calls(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < 20; i++) {
		send_what_was_never_written();
		while (ibv_poll_cq(cq, 1, &wc) <= 0)
			;
		send_what_was_never_written();
		show_completions();
		ibv_req_notify_cq(cq, 0);
		send_what_was_never_written();
		show_completions();
	}
}

/* The kernel takes the processor from the thread meanwhile: what it counts as registers in use changes then. */
static void compute(void)
{
	for (volatile int i = 0; i < 20000000; i++)
		;
}

/* Calls that ld.so looks up, as each is the first of its function: it keeps the vector registers on the stack. */
static void never_written_below_lookups(void)
{
	const char *volatile text = "some words";
	volatile size_t sum = 0;

#define LOOKED_UP(call) (compute(), sum += (size_t)(call), send_what_was_never_written(), show_completions())
	LOOKED_UP(strspn(text, "emos"));
	LOOKED_UP(strcspn(text, "w"));
	LOOKED_UP(strpbrk(text, "w") - text);
	LOOKED_UP(strverscmp(text, "some"));
	LOOKED_UP(a64l(text));
	LOOKED_UP(ffsll((long long)strlen(text)));
	LOOKED_UP(ldiv((long)sum, 3).rem);
	LOOKED_UP(memfrob((char[8]){0}, 8) != NULL);
#undef LOOKED_UP
	printf("%zu\n", sum);
}

static sigjmp_buf back;
static char *missing;
static int faults;

static void jump_away(int signal)
{
	faults++;
	siglongjmp(back, 1);
}

/* More often than there are stacks for calls that handlers interrupt.  Each leaves its queue pair locked. */
static void jumps_out_of_bad_calls(void)
{
	struct ibv_send_wr *none = (struct ibv_send_wr *)map(PAGE), *bad;

	munmap(none, PAGE);
	signal(SIGSEGV, jump_away);
	for (volatile int i = 0; i < 20; i++) {
		struct ibv_qp *other = new_qp();

		if (!sigsetjmp(back, 1))
			ibv_post_send(other, none, &bad);
		receive(qp, 3, piece(0, 64));
		send_it(qp, 4, piece(PAGE, 64), IBV_SEND_SIGNALED);
		show_completions();
	}
	printf("%d faults\n", faults);
	signal(SIGSEGV, SIG_DFL);
}

/* Makes calls itself, and lets the interrupted one go on. */
static void bring_it(int signal)
{
	struct ibv_cq *other = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_wc wc;

	faults++;
	printf("meanwhile %d", ibv_poll_cq(other, 1, &wc));
	printf(" %d\n", ibv_destroy_cq(other));
	mprotect(missing, PAGE, PROT_READ | PROT_WRITE);
}

static void calls_within_a_call(void)
{
	struct ibv_send_wr *bad;

	missing = map(PAGE);
	signal(SIGSEGV, bring_it);
	for (int i = 0; i < 20; i++) {
		struct ibv_sge sge = piece(0, 64);
		struct ibv_send_wr *wr = (struct ibv_send_wr *)missing;

		*wr = (struct ibv_send_wr){.wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		receive(qp, 5, piece(PAGE, 64));
		mprotect(missing, PAGE, PROT_NONE);
		printf("post %d\n", ibv_post_send(qp, wr, &bad));
		show_completions();
	}
	printf("%d faults\n", faults);
	signal(SIGSEGV, SIG_DFL);
}

/* A profiler's handler: it unwinds whatever it interrupts. */
#define FRAMES 64

static volatile int samples, lost;

static void unwind(int signal)
{
	void *frames[FRAMES];
	extern char __executable_start, etext;
	int n = backtrace(frames, FRAMES), ours = 0;

	for (int i = 1; i < n; i++)
		ours += (char *)frames[i] >= &__executable_start && (char *)frames[i] < &etext;
	samples++;
	lost += ours < 3; /* this one, the case and main */
}

static void unwinding_of_calls(void)
{
	struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
	struct ibv_wc wc;
	void *frame;

	backtrace(&frame, 1); /* loads the unwinder */
	signal(SIGALRM, unwind);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; samples < 100; i++) {
		receive(qp, 1, piece(0, 64));
		send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%d without their callers\n", lost);
}

/* Two coroutines that make calls in turn. */
static ucontext_t scheduler, coroutines[2];

static void coroutine(int number)
{
	for (int i = 0; i < 10; i++) {
		receive(qp, 10 * (uint64_t)number + 1, piece(0, 64));
		send_it(qp, 10 * (uint64_t)number + 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
		swapcontext(&coroutines[number], &scheduler);
		show_completions();
	}
}

static void calls_of_coroutines(void)
{
	for (int i = 0; i < 2; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack = (stack_t){.ss_sp = malloc(4 * PAGE), .ss_size = 4 * PAGE};
		coroutines[i].uc_link = &scheduler;
		makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
	}
	for (int i = 0; i < 20; i++)
		swapcontext(&scheduler, &coroutines[i % 2]);
	show_completions();
}

const struct hostile_case stacks_cases[] = {
    {"never-written-below-calls", never_written_below_calls},
    {"never-written-below-lookups", never_written_below_lookups},
    {"jumps-out-of-bad-calls", jumps_out_of_bad_calls},
    {"calls-within-a-call", calls_within_a_call},
    {"unwinding-of-calls", unwinding_of_calls},
    {"calls-of-coroutines", calls_of_coroutines},
    {0},
};
