/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/main_stack.h"

#include <alloca.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"

/* For the frames between the entry point and main, and for auxiliary vectors longer than this one.
 */
#define ROOM 4096

/* No start goes deeper; and below a stack the kernel leaves at least 128 MiB to nobody else. */
#define BELOW (8ul << 20)

typedef int main_function(int argc, char **argv, char **env);
typedef int start_function(main_function *program, int argc, char **argv, void (*init)(void),
			   void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

/* The dynamic linker's: the stack pointer with which the kernel started the process. */
extern void *__libc_stack_end;

SR_EXPORT start_function __libc_start_main;

static main_function *program_main;
static uintptr_t pinned;

uintptr_t sr_main_stack_start(void)
{
	return (uintptr_t)__libc_stack_end;
}

uintptr_t sr_main_stack_choose(void)
{
	return ((uintptr_t)__libc_stack_end - ROOM) & ~63ul;
}

void sr_main_stack_pin(uintptr_t place)
{
	pinned = place;
}

static __attribute__((noinline)) int main_below(size_t distance, int argc, char **argv, char **env)
{
	void *room = alloca(distance);
	int status;

	/* Used before the call and after it: else the compiler would do without the room. */
	__asm__ volatile("" : : "r"(room) : "memory");
	status = program_main(argc, argv, env);
	__asm__ volatile("" : : "r"(room) : "memory");
	return status;
}

static __attribute__((noinline)) void clear_below(size_t n)
{
	void *room = alloca(n);

	memset(room, 0, n);
	__asm__ volatile("" : : "r"(room) : "memory");
}

/*
 * What the dynamic linker, constructors and the shim's own start have left below: variables that
 * main never writes are there, and perftest's servers send some.  The start of a replay leaves other
 * things than that of a recording; so main finds zeros in both, as in pages that were never used.
 */
static __attribute__((noinline)) void forget_stack(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t page = sr_page_down(here - 2 * PAGE);

	clear_below(here - page);
	/* Most of it was never there: that is an error of no consequence. */
	sr_syscall(SYS_madvise, (long)(page - BELOW), BELOW, MADV_DONTNEED, 0, 0, 0);
}

static int run_main(int argc, char **argv, char **env)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	forget_stack();
	/* Too far down already (a vector longer by ROOM), or a recording with randomised addresses.
	 */
	if (here <= pinned || here - pinned > 2 * ROOM)
		return program_main(argc, argv, env);
	return main_below(here - pinned, argc, argv, env);
}

SR_EXPORT int __libc_start_main(main_function *program, int argc, char **argv, void (*init)(void),
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	SR_NEXT(next, "__libc_start_main");
	start_function *real = (start_function *)sr_next(&next);

	program_main = program;
	return real(pinned ? run_main : program, argc, argv, init, fini, rtld_fini, stack_end);
}
