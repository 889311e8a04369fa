/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/stack.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/core/call_stack.h"
#include "shim/exposed/exposed.h"
#include "shim/memory/heap.h"
#include "logd/base/lock.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

#define GUARD    4096ul
#define OWN_ROOM (64ul << 10)
#define SMALLEST 2048ul /* the kernel's MINSIGSTKSZ */
/* More than handlers that interrupt each other's calls are ever nested. */
#define OWN_STACKS SR_CALL_STACKS

/* Stacks of threads that have ended, linked through their lowest words. */
static char *spare;
static struct sr_lock spare_lock;

/* Some CPUs' register state takes 11 KiB. */
static size_t own_bytes(void)
{
	size_t frame = getauxval(AT_MINSIGSTKSZ);

	return OWN_ROOM + ((frame + GUARD - 1) & ~(GUARD - 1));
}

static size_t signals_bytes(void)
{
	return OWN_STACKS * (own_bytes() + GUARD);
}

static char *take_spare(void)
{
	char *own;

	sr_lock(&spare_lock);
	own = spare;
	if (own)
		spare = *(char **)own;
	sr_unlock(&spare_lock);
	return own;
}

static void give_spare(char *own)
{
	/* Nothing has used the page, usually: its fault is not for the holder of the lock. */
	*(char *volatile *)own = NULL;
	sr_lock(&spare_lock);
	*(char **)own = spare;
	spare = own;
	sr_unlock(&spare_lock);
}

static char *map_own(void)
{
	size_t size = signals_bytes() + SR_CALL_STACKS * SR_CALL_STACK_BYTES;
	char *p = sr_sys_mmap(sr_heap_place_mapping(size), size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sr_sys_is_error(p) ? NULL : p + GUARD;
}

static void forbid(uintptr_t page)
{
	sr_syscall(SYS_mprotect, (long)page, GUARD, PROT_NONE, 0, 0, 0);
}

/* The kernel is to have this one of the stacks, and the next operation the one beside it.  Few threads need more than one. */
static void use(struct sr_signal_stack *s, uint32_t number)
{
	s->current = number;
	for (; s->guarded <= number; s->guarded++) {
		forbid((uintptr_t)s->own - GUARD + s->guarded * (own_bytes() + GUARD));
		forbid(s->calls + s->guarded * SR_CALL_STACK_BYTES);
	}
	sr_self.call_stack = sr_caller_on(s, number);
}

static void use_none(struct sr_signal_stack *s)
{
	s->own = NULL;
	sr_self.call_stack = NULL;
}

static long kernel_altstack(const stack_t *set, stack_t *old)
{
	return sr_syscall(SYS_sigaltstack, SR_ARG(set), SR_ARG(old), 0, 0, 0, 0);
}

static stack_t own_stack(const struct sr_signal_stack *s)
{
	return (stack_t){.ss_sp = s->own + s->current * (own_bytes() + GUARD), .ss_size = own_bytes(), .ss_flags = (int)SS_AUTODISARM};
}

void sr_signal_stack_begin(struct sr_signal_stack *s)
{
	stack_t own;

	if (s->own)
		return;
	s->own = take_spare();
	if (!s->own)
		s->own = map_own();
	if (!s->own)
		return;
	s->calls = (uintptr_t)s->own - GUARD + signals_bytes();
	s->guarded = 0;
	use(s, 0);
	own = own_stack(s);
	/* This fails in a handler on the program's alternate stack: then that stack stays. */
	if (kernel_altstack(&own, &s->program)) {
		give_spare(s->own);
		use_none(s);
		return;
	}
	/* An exec takes the stack of the image before, but leaves its flag: that of this stack. */
	if (!s->program.ss_size)
		s->program.ss_flags = SS_DISABLE;
}

stack_t sr_signal_stack_for(const struct sr_signal_stack *s, uintptr_t sp)
{
	return sr_signal_stack_is_own(s, sp) ? (stack_t){.ss_flags = SS_DISABLE} : own_stack(s);
}

uintptr_t sr_signal_stack_own_top(const struct sr_signal_stack *s)
{
	stack_t own = own_stack(s);

	return (uintptr_t)own.ss_sp + own.ss_size;
}

void sr_signal_stack_next(struct sr_signal_stack *s)
{
	use(s, (s->current + 1) % OWN_STACKS);
}

void sr_signal_stack_back(struct sr_signal_stack *s, uint32_t number, uintptr_t end)
{
	s->end = end;
	if (s->own)
		use(s, number);
}

void sr_signal_stack_disarm(struct sr_signal_stack *s)
{
	if (s->own && s->program.ss_flags & (int)SS_AUTODISARM)
		s->program = (stack_t){.ss_flags = SS_DISABLE};
}

void sr_signal_stack_end(struct sr_signal_stack *s)
{
	if (!s->own || kernel_altstack(&s->program, NULL))
		return;
	give_spare(s->own);
	use_none(s);
}

void sr_signal_stack_abandon(struct sr_signal_stack *s)
{
	if (!s->own)
		return;
	kernel_altstack(&s->program, NULL);
	use_none(s);
}

bool sr_signal_stack_is_own(const struct sr_signal_stack *s, uintptr_t sp)
{
	return s->own && sp - (uintptr_t)s->own < signals_bytes();
}

void sr_signal_stack_entered(struct sr_signal_stack *s, uintptr_t sp)
{
	if (!sr_signal_stack_is_own(s, sp))
		s->end = sr_end_of_callers_stack(s, sp);
}

uintptr_t sr_signal_stack_of_program(const struct sr_signal_stack *s, uintptr_t sp)
{
	return sr_signal_stack_is_own(s, sp) ? s->end : sr_end_of_callers_stack(s, sp);
}

/* Like the kernel's on_sig_stack. */
static bool is_on(const stack_t *stack, uintptr_t sp)
{
	if (stack->ss_flags & (int)SS_AUTODISARM)
		return false;
	return sp > (uintptr_t)stack->ss_sp && sp - (uintptr_t)stack->ss_sp <= stack->ss_size;
}

uintptr_t sr_signal_stack_top(const struct sr_signal_stack *s, uintptr_t sp)
{
	const stack_t *p = &s->program;

	if (!s->own || p->ss_flags & SS_DISABLE || !p->ss_size || is_on(p, sp))
		return 0;
	return (uintptr_t)p->ss_sp + p->ss_size;
}

/* Like the kernel's do_sigaltstack. */
static long set_program(stack_t *program, const stack_t *set, uintptr_t sp)
{
	int mode = set->ss_flags & ~(int)SS_AUTODISARM;

	if (is_on(program, sp) && !(program->ss_flags & SS_DISABLE))
		return -EPERM;
	if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
		return -EINVAL;
	if (mode == SS_DISABLE) {
		*program = (stack_t){.ss_flags = set->ss_flags};
		return 0;
	}
	if (set->ss_size < SMALLEST)
		return -ENOMEM;
	*program = (stack_t){set->ss_sp, set->ss_flags & ~SS_ONSTACK, set->ss_size};
	return 0;
}

long sr_signal_stack_set(struct sr_signal_stack *s, const stack_t *set, stack_t *old, uintptr_t sp)
{
	stack_t before = s->program;
	long err = 0;

	if (!s->own)
		return kernel_altstack(set, old);
	if (!(before.ss_flags & SS_DISABLE) && is_on(&before, sp))
		before.ss_flags |= SS_ONSTACK;
	/* set and old may point to the same memory. */
	if (set) {
		stack_t wanted = *set;

		err = set_program(&s->program, &wanted, sp);
		/* The kernel or the shim stores a handler's frame there, on which it then runs. */
		if (!err && wanted.ss_flags != SS_DISABLE && sr_exposed_touches(wanted.ss_sp, wanted.ss_size))
			sr_exposed_give_up(wanted.ss_sp, wanted.ss_size);
	}
	if (!err && old)
		*old = before;
	return err;
}
