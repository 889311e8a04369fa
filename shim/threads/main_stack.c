/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/main_stack.h"

#include <alloca.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "logd/base/compiler.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"

/* Room for the frames between the entry point and main, and for a longer auxiliary vector. */
#define ROOM 4096

/*
 * The start never uses more stack than this, and the kernel keeps at least 128 MiB below a
 * stack free of other mappings.
 */
#define BELOW (8ul << 20)

typedef int main_function(int argc, char **argv, char **env);
typedef int start_function(main_function *program, int argc, char **argv, void (*init)(void),
			   void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

/* A variable of the dynamic linker: the stack pointer with which the kernel started the process. */
extern void *__libc_stack_end;

SR_EXPORT start_function __libc_start_main;

main_function *sr_program_main SR_HIDDEN;
static uintptr_t pinned;

uintptr_t sr_main_stack_start(void)
{
	return (uintptr_t)__libc_stack_end;
}

/* The kernel leaves at least twice as much below the stack's start, before it maps libraries there, */
#define STACK_LEAST (64ul << 20)
/* and no stack is larger than this. */
#define STACK_MOST (1ul << 30)

static uintptr_t may_grow_to = STACK_LEAST;

bool sr_is_on_main_stack(uintptr_t addr)
{
	return sr_main_stack_start() - addr < may_grow_to;
}

/* A small part of what it may grow to, so that a replay may have another limit. */
#define KNOWN (1ul << 20)

void sr_main_stack_know(void)
{
	struct rlimit limit;

	if (sr_syscall(SYS_getrlimit, RLIMIT_STACK, SR_ARG(&limit), 0, 0, 0, 0))
		return;
	if (limit.rlim_cur > STACK_LEAST)
		may_grow_to = limit.rlim_cur < STACK_MOST ? limit.rlim_cur : STACK_MOST;
	if (limit.rlim_cur < 4 * KNOWN)
		return;
	sr_self.stack_high = sr_main_stack_start();
	sr_self.stack_low = sr_self.stack_high - KNOWN;
}

uintptr_t sr_main_stack_choose(void)
{
	return ((uintptr_t)__libc_stack_end - ROOM) & ~63ul;
}

void sr_main_stack_pin(uintptr_t place)
{
	pinned = place;
}

/*
 * Runs main so far below this frame.  Nothing but zeros lies between, nor where the frames of forget_stack and what it
 * calls have been: places of signals are known by what is on the stack, up to here.
 */
int sr_main_below(size_t distance, int argc, char **argv, char **env) SR_HIDDEN;

__asm__(".pushsection .text\n"
	".type sr_main_below, @function\n"
	".hidden sr_main_below\n"
	"sr_main_below:\n"
	".cfi_startproc\n"
	"	push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset %rbp, -16\n"
	"	mov %rsp, %rbp\n"
	".cfi_def_cfa_register %rbp\n"
	"	sub %rdi, %rsp\n"
	"	and $-16, %rsp\n"
	"	mov %rcx, %r8\n"
	"	lea -1024(%rsp), %rdi\n"
	"	mov %rbp, %rcx\n"
	"	sub %rdi, %rcx\n"
	"	shr $3, %rcx\n"
	"	xor %eax, %eax\n"
	"	rep stosq\n"
	"	mov %esi, %edi\n"
	"	mov %rdx, %rsi\n"
	"	mov %r8, %rdx\n"
	"	call *sr_program_main(%rip)\n"
	"	leave\n"
	".cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size sr_main_below, . - sr_main_below\n"
	".popsection\n");

static __attribute__((noinline)) void clear_below(size_t n)
{
	void *room = alloca(n);

	memset(room, 0, n);
	__asm__ volatile("" : : "r"(room) : "memory");
}

/*
 * Clears the stack below main. The dynamic linker, constructors and the shim's own start
 * have left data there. A program may read it through variables that it never writes;
 * perftest's servers even send some. A replay's start leaves other data than a recording's.
 * So main finds zeros in both runs, as on pages that were never used.
 */
static __attribute__((noinline)) void forget_stack(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t page = sr_page_down(here - 2 * PAGE);

	clear_below(here - page);
	/* Most of this range was never mapped; the error that results does not matter. */
	sr_syscall(SYS_madvise, (long)(page - BELOW), BELOW, MADV_DONTNEED, 0, 0, 0);
}

static int run_main(int argc, char **argv, char **env)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	forget_stack();
	/*
	 * The stack is already too low (the auxiliary vector is longer than ROOM allows), or
	 * the recording used randomised addresses: start main where it is.
	 */
	if (here <= pinned || here - pinned > 2 * ROOM)
		return sr_program_main(argc, argv, env);
	return sr_main_below(here - pinned, argc, argv, env);
}

SR_EXPORT int __libc_start_main(main_function *program, int argc, char **argv, void (*init)(void),
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	SR_NEXT(next, "__libc_start_main");
	start_function *real = (start_function *)sr_next(&next);

	sr_program_main = program;
	return real(pinned ? run_main : program, argc, argv, init, fini, rtld_fini, stack_end);
}
