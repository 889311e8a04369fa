/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.c: dispositions, claims, and from a signal to who gets it.
 *
 * The calls by which a program sets them come from calls.def to signal_calls.c,
 * and from there to this file, in the terms of the kernel.
 */
#include "shim/signals.h"

#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#include "logd/rawsys.h"
#include "shim/lock.h"
#include "shim/real.h"
#include "shim/signal_threads.h"
#include "shim/thread.h"

#define SIGNALS    64
#define MAX_CLAIMS 4
#define BIT(signo) (1ull << ((signo)-1))

/* What is never blocked for a handler of the program's that is on its way. */
#define NEVER      (BIT(SIGKILL) | BIT(SIGSTOP))

/* ------------------------------------------------------------ dispositions */

/*
 * What the program set, as the kernel would have it.  Handlers read it at any
 * time, in the midst of a change by their own thread as well: of two places the
 * one in use is whole.
 */
static struct disposition {
	struct sr_kernel_action place[2];
	_Atomic uint32_t changes; /* the lowest bit says which */
} dispositions[SIGNALS + 1];

static bool known; /* they are the program's: from the first claim on */
static struct sr_lock changing;

static void *libc_restorer;

static sr_signal_handler claims[2][MAX_CLAIMS];
static uint64_t claimed;

static struct sr_kernel_action get_action(int signo)
{
	struct disposition *d = &dispositions[signo];
	struct sr_kernel_action a;
	uint32_t changes;

	do {
		changes = atomic_load_explicit(&d->changes, memory_order_acquire);
		a = d->place[changes & 1];
		atomic_thread_fence(memory_order_acquire);
	} while (changes != atomic_load_explicit(&d->changes, memory_order_relaxed));
	return a;
}

/* With the lock. */
static void put_action(int signo, const struct sr_kernel_action *a)
{
	struct disposition *d = &dispositions[signo];
	uint32_t changes = atomic_load_explicit(&d->changes, memory_order_relaxed);

	d->place[(changes + 1) & 1] = *a;
	atomic_store_explicit(&d->changes, changes + 1, memory_order_release);
}

static long kernel_action(int signo, const struct sr_kernel_action *act,
			  struct sr_kernel_action *old)
{
	return sr_syscall(SYS_rt_sigaction, signo, SR_ARG(act), SR_ARG(old), sizeof(uint64_t), 0,
			  0);
}

static long kernel_mask(int how, const uint64_t *set, uint64_t *old)
{
	return sr_syscall(SYS_rt_sigprocmask, how, SR_ARG(set), SR_ARG(old), sizeof(uint64_t), 0,
			  0);
}

static bool is_function(const struct sr_kernel_action *a)
{
	return a->handler != (void *)SIG_DFL && a->handler != (void *)SIG_IGN;
}

static void entry(int signo, siginfo_t *info, void *context);

/* What the kernel is to have for a signal of which the program says a. */
static struct sr_kernel_action for_kernel(int signo, const struct sr_kernel_action *a)
{
	struct sr_kernel_action k = *a;

	k.mask &= ~claimed;
	if (!(claimed & BIT(signo)) && !is_function(a))
		return k;
	k.handler = (void *)entry;
	k.restorer = (void *)sr_frame_restorer;
	k.flags |= SA_SIGINFO | SA_RESTORER;
	if (claimed & BIT(signo)) {
		k.flags = SA_SIGINFO | SA_RESTORER | SA_RESTART | SA_NODEFER;
		k.mask = 0;
	}
	if (signo == SIGSEGV && claimed & BIT(SIGSEGV))
		k.flags |= SA_ONSTACK;
	/* On the shim's stack nothing of the program's may begin. */
	if (k.flags & SA_ONSTACK)
		k.mask = ~claimed;
	k.flags &= ~(unsigned long)SA_RESETHAND;
	return k;
}

/* ------------------------------------------------- to a handler of the program's */

static bool is_sent(const siginfo_t *info)
{
	return info->si_code <= 0;
}

static long queue_to_self(int signo, siginfo_t *info)
{
	return sr_syscall(SYS_rt_tgsigqueueinfo, sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
			  sr_sys_gettid(), signo, SR_ARG(info), 0, 0);
}

/*
 * The default action of both claimed signals is to end the process, with a core.
 * It is to be of the interrupted code, so it happens after the handler's return.
 */
static void die(int signo, siginfo_t *info, ucontext_t *uc)
{
	const struct sr_kernel_action none = {.handler = (void *)SIG_DFL};
	uint64_t bit = BIT(signo);

	kernel_mask(SIG_BLOCK, &bit, NULL);
	kernel_action(signo, &none, NULL);
	queue_to_self(signo, info);
	sr_frame_set_mask(uc, sr_frame_mask(uc) & ~bit);
}

/* It is blocked, as the program sees it, and stays pending. */
static void hold(struct sr_signal_state *s, int signo, const siginfo_t *info)
{
	if (s->held & BIT(signo))
		return;
	s->held_info[signo == SIGSYS] = *info;
	s->held |= BIT(signo);
}

static void release_held(struct sr_signal_state *s)
{
	for (int i = 0; i < 2; i++) {
		int signo = i ? SIGSYS : SIGSEGV;

		if (!(s->held & ~s->hidden & BIT(signo)))
			continue;
		s->held &= ~BIT(signo);
		queue_to_self(signo, &s->held_info[i]);
	}
}

/* The context as the program's handler finds it, and back to what the kernel takes. */
static void show(struct sr_signal_state *s, ucontext_t *uc)
{
	sr_frame_set_mask(uc, sr_frame_mask(uc) | s->hidden);
	if (s->stack.own)
		uc->uc_stack = s->stack.program;
}

static void unshow(struct sr_signal_state *s, ucontext_t *uc)
{
	uint64_t mask = sr_frame_mask(uc);

	s->hidden = mask & claimed;
	sr_frame_set_mask(uc, mask & ~claimed);
	if (s->stack.own) {
		s->stack.program = uc->uc_stack;
		uc->uc_stack = sr_signal_stack_own(&s->stack);
	}
	release_held(s);
}

static void after_handler(ucontext_t *uc)
{
	unshow(&sr_self.signals, uc);
}

/* All signals wait while dispositions change: a handler takes the lock as well. */
static void lock_actions(uint64_t *mask)
{
	const uint64_t all = ~claimed;

	kernel_mask(SIG_SETMASK, &all, mask);
	sr_lock(&changing);
}

static void unlock_actions(const uint64_t *mask)
{
	sr_unlock(&changing);
	kernel_mask(SIG_SETMASK, mask, NULL);
}

static void reset(int signo, const struct sr_kernel_action *a)
{
	struct sr_kernel_action none = *a;
	uint64_t mask;

	none.handler = (void *)SIG_DFL;
	lock_actions(&mask);
	put_action(signo, &none);
	none = for_kernel(signo, &none);
	kernel_action(signo, &none, NULL);
	unlock_actions(&mask);
}

static void move_to(int signo, const siginfo_t *info, ucontext_t *uc,
		    const struct sr_kernel_action *a, uintptr_t top, uint64_t mask)
{
	stack_t own = sr_signal_stack_own(&sr_self.signals.stack);
	const struct sr_frame_plan plan = {
	    .top = top,
	    .mask = mask,
	    .handler = a->handler,
	    .signo = signo,
	    .after = after_handler,
	    .after_top = (uintptr_t)own.ss_sp + own.ss_size,
	    .after_mask = ~claimed,
	};

	sr_frame_move(uc, info, &plan);
}

/* To the program's handler; here is a frame of the shim's. */
static void deliver(int signo, siginfo_t *info, ucontext_t *uc, const struct sr_kernel_action *a,
		    uintptr_t here)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t added = a->flags & SA_NODEFER ? a->mask : a->mask | BIT(signo);
	uint64_t mask = (sr_frame_mask(uc) | added) & ~claimed;
	uintptr_t top = 0;

	if (a->flags & SA_RESETHAND)
		reset(signo, a);
	if (a->flags & SA_ONSTACK)
		top = sr_signal_stack_top(&s->stack, sr_frame_stack_pointer(uc));
	if (!top && sr_signal_stack_is_own(&s->stack, here))
		top = sr_frame_free_stack(uc);
	show(s, uc);
	sr_signal_stack_disarm(&s->stack);
	s->hidden |= added & claimed;
	if (top) {
		move_to(signo, info, uc, a, top, mask);
		return;
	}
	/* This is the stack, and what lies on it the frame. */
	kernel_mask(SIG_SETMASK, &mask, NULL);
	((void (*)(int, siginfo_t *, void *))a->handler)(signo, info, uc);
	unshow(s, uc);
}

static bool is_claims(int signo, siginfo_t *info, ucontext_t *uc)
{
	const sr_signal_handler *handlers = claims[signo == SIGSYS];

	if (!(claimed & BIT(signo)))
		return false;
	for (int i = 0; i < MAX_CLAIMS && handlers[i]; i++)
		if (handlers[i](info, uc))
			return true;
	return false;
}

static void pass(int signo, siginfo_t *info, ucontext_t *uc, uintptr_t here)
{
	struct sr_signal_state *s = &sr_self.signals;
	struct sr_kernel_action a = get_action(signo);
	bool sent = is_sent(info), blocked = s->hidden & BIT(signo);

	/* What a fault meets that cannot be handled, the kernel does not ignore either. */
	if (blocked && sent)
		hold(s, signo, info);
	else if (blocked || a.handler == (void *)SIG_DFL || (a.handler == (void *)SIG_IGN && !sent))
		die(signo, info, uc);
	else if (a.handler != (void *)SIG_IGN)
		deliver(signo, info, uc, &a, here);
}

static void entry(int signo, siginfo_t *info, void *context)
{
	int saved = errno;

	if (!is_claims(signo, info, context))
		pass(signo, info, context, (uintptr_t)__builtin_frame_address(0));
	errno = saved;
}

/* ------------------------------------------------------- as the program sets it */

bool sr_signals_are_shadowed(void)
{
	return known;
}

void *sr_signals_libc_restorer(void)
{
	return libc_restorer;
}

long sr_signals_action(int signo, const struct sr_kernel_action *act, struct sr_kernel_action *old)
{
	struct sr_kernel_action before, k;
	uint64_t mask;
	long err = 0;

	/* Real-time signals below SIGRTMIN are glibc's own. */
	if (!known || signo < 1 || signo > SIGNALS || (signo >= 32 && signo < SIGRTMIN))
		return kernel_action(signo, act, old);
	lock_actions(&mask);
	before = get_action(signo);
	if (act) {
		k = for_kernel(signo, act);
		err = kernel_action(signo, &k, NULL);
		if (!err) {
			k = *act;
			k.mask &= ~NEVER;
			put_action(signo, &k);
		}
	}
	unlock_actions(&mask);
	if (!err && old)
		*old = before;
	return err;
}

static int change_mask(int how, uint64_t set, uint64_t *mask)
{
	switch (how) {
	case SIG_BLOCK:
		*mask |= set;
		return 0;
	case SIG_UNBLOCK:
		*mask &= ~set;
		return 0;
	case SIG_SETMASK:
		*mask = set;
		return 0;
	default:
		return -EINVAL;
	}
}

long sr_signals_mask(int how, const uint64_t *set, uint64_t *old, uint64_t *kernel)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t before = *kernel | s->hidden, mask = before;

	if (set && change_mask(how, *set & ~NEVER, &mask))
		return -EINVAL;
	*kernel = mask & ~claimed;
	s->hidden = mask & claimed;
	if (old)
		*old = before;
	release_held(s);
	return 0;
}

const sigset_t *sr_signals_filter(const sigset_t *set, sigset_t *copy)
{
	uint64_t mask;

	if (!set || !claimed)
		return set;
	memcpy(&mask, set, sizeof(mask));
	if (!(mask & claimed))
		return set;
	mask &= ~claimed;
	*copy = *set;
	memcpy(copy, &mask, sizeof(mask));
	return copy;
}

/* ------------------------------------------------------------------- claims */

/* A program would find it in a disposition that libc has set: of a signal that nobody waits for. */
static void learn_restorer(void)
{
	SR_NEXT(next, "sigaction");
	int (*set)(int, const struct sigaction *, struct sigaction *) =
	    (int (*)(int, const struct sigaction *, struct sigaction *))sr_next(&next);
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sr_kernel_action a, before;

	libc_restorer = (void *)sr_frame_restorer;
	if (!set || kernel_action(SIGURG, NULL, &before))
		return;
	if (!set(SIGURG, &ignore, NULL) && !kernel_action(SIGURG, NULL, &a) && a.restorer)
		libc_restorer = a.restorer;
	kernel_action(SIGURG, &before, NULL);
}

static void learn(void)
{
	learn_restorer();
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = {0};

		if (!kernel_action(signo, NULL, &a))
			put_action(signo, &a);
	}
	known = true;
}

/* Handlers that the program had set before. */
static void install_all(void)
{
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = get_action(signo), k = for_kernel(signo, &a);

		if (claimed & BIT(signo) || is_function(&a))
			kernel_action(signo, &k, NULL);
	}
}

static int add_claim(int signo, sr_signal_handler handler)
{
	sr_signal_handler *handlers = claims[signo == SIGSYS];

	for (int i = 0; i < MAX_CLAIMS; i++) {
		if (!handlers[i]) {
			handlers[i] = handler;
			return 0;
		}
	}
	return -EINVAL;
}

static void unblock_here(uint64_t bits)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t mask;

	kernel_mask(SIG_UNBLOCK, &bits, &mask);
	s->hidden |= mask & bits;
}

int sr_signals_claim(int signo, sr_signal_handler handler)
{
	uint64_t bit = BIT(signo), mask;
	int err;

	if (signo != SIGSEGV && signo != SIGSYS)
		return -EINVAL;
	if (!sr_frame_supported())
		return -ENOSYS;
	if (!(claimed & bit) && !__libc_single_threaded && sr_signal_blocked_elsewhere(bit))
		return -EBUSY;
	lock_actions(&mask);
	err = add_claim(signo, handler);
	if (!err && !(claimed & bit)) {
		if (!known)
			learn();
		claimed |= bit;
		install_all();
	}
	unlock_actions(&mask);
	if (!err) {
		sr_signal_stack_begin(&sr_self.signals.stack);
		unblock_here(bit);
	}
	return err;
}

/* -------------------------------------------------------- threads and children */

uint64_t sr_signals_hidden(void)
{
	return sr_self.signals.hidden;
}

void sr_signals_thread_begins(uint64_t hidden)
{
	struct sr_signal_state *s = &sr_self.signals;

	if (!claimed)
		return;
	sr_signal_stack_begin(&s->stack);
	s->hidden = hidden;
	/* It was created with a mask of its own, or by a thread that had no part in the claim. */
	unblock_here(claimed);
}

void sr_signals_thread_ends(void)
{
	sr_signal_stack_end(&sr_self.signals.stack);
}

void sr_signals_forget_in_child(void)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t hidden = s->hidden;

	if (!known)
		return;
	claimed = 0;
	memset(claims, 0, sizeof(claims));
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = get_action(signo);

		if (signo != SIGKILL && signo != SIGSTOP)
			kernel_action(signo, &a, NULL);
	}
	known = false;
	sr_signal_stack_end(&s->stack);
	s->hidden = s->held = 0;
	kernel_mask(SIG_BLOCK, &hidden, NULL);
}

/* ---------------------------------------------------------------------- jumps */

/*
 * The kernel's mask comes from the buffer, where sigsetjmp put it, without what is
 * hidden.  That a program had one of these two blocked when it did is not
 * remembered.
 */
static void jump(const struct __jmp_buf_tag *env)
{
	if (env->__mask_was_saved) {
		sr_self.signals.hidden = 0;
		release_held(&sr_self.signals);
	}
}

#define EXPORT __attribute__((visibility("default")))

typedef void (*jump_function)(struct __jmp_buf_tag *env, int value) __attribute__((noreturn));

EXPORT void siglongjmp(sigjmp_buf env, int value)
{
	SR_NEXT(next, "siglongjmp");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}

EXPORT void longjmp(jmp_buf env, int value)
{
	SR_NEXT(next, "longjmp");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}

EXPORT void _longjmp(jmp_buf env, int value)
{
	SR_NEXT(next, "_longjmp");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}

void __longjmp_chk(struct __jmp_buf_tag *env, int value) __attribute__((noreturn));

EXPORT void __longjmp_chk(struct __jmp_buf_tag *env, int value)
{
	SR_NEXT(next, "__longjmp_chk");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}
