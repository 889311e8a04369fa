/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * small_stacks.c: system calls on a stack that has no room for anything else, as goroutines make them, interrupted by
 * handlers on the alternate stack that make calls themselves, and return or jump away.
 *
 *	small_stacks
 *
 * Exit status: 3; 1: something was written below the stack's end.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define AREA	65536
#define STACK	2048
#define JUMPS	20 /* more than there are stacks for calls that handlers interrupt */
#define PATTERN 0x5a

static _Alignas(64) unsigned char area[AREA], alternate[65536];
static sigjmp_buf back;
static volatile sig_atomic_t jumps, ticks;

static long call_there(long nr, long a, long b, long c)
{
	long result;

	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "mov %5, %%rsp\n\t"
			 "syscall\n\t"
			 "mov %%rbx, %%rsp"
			 : "=a"(result)
			 : "D"(a), "S"(b), "d"(c), "0"(nr), "r"(area + AREA)
			 : "rbx", "rcx", "r11", "memory");
	return result;
}

static void tick(int signo)
{
	static const struct timespec a_while = {.tv_nsec = 1000000};

	ticks++;
	for (int i = 0; i < 20; i++)
		syscall(SYS_getppid);
	nanosleep(&a_while, NULL);
	if (jumps)
		siglongjmp(back, 1);
}

static void nap(void)
{
	const struct timespec a_while = {.tv_nsec = 20000000};
	struct itimerval once = {.it_value.tv_usec = 3000};

	setitimer(ITIMER_REAL, &once, NULL);
	printf("slept %ld\n", call_there(SYS_nanosleep, (long)&a_while, 0, 0));
}

int main(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction a = {.sa_handler = tick, .sa_flags = SA_ONSTACK};

	memset(area, PATTERN, sizeof(area));
	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &a, NULL);
	for (int i = 0; i < 10; i++)
		if (call_there(SYS_getpid, 0, 0, 0) != getpid())
			return 2;
	for (int i = 0; i < 5; i++)
		nap();
	for (jumps = 1; jumps <= JUMPS; jumps++)
		if (!sigsetjmp(back, 1))
			nap();
	call_there(SYS_write, 1, (long)"there\n", 6);
	printf("%d ticks\n", (int)ticks);
	for (int i = 0; i < AREA - STACK; i++)
		if (area[i] != PATTERN)
			return 1;
	return 3;
}
