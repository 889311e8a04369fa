/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/cancellation.h"

#include <pthread.h>

#include "logd/base/lock.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"
#include "shim/signals/dispositions.h"
#include "shim/signals/kernel.h"

/* Guards the list, and so the threads in it. */
static struct sr_lock lock;
static struct sr_thread *listed;

static bool prepared;
static struct sr_kernel_action of_libc;

/* ------------------------------------------------------- in the thread itself */

static void unlist(struct sr_thread *t)
{
	struct sr_thread **place = &listed;

	while (*place && *place != t)
		place = &(*place)->signals.cancellation.next;
	if (*place)
		*place = t->signals.cancellation.next;
}

static void list(struct sr_thread *t)
{
	struct sr_cancellation *c = &t->signals.cancellation;

	c->id = (uintptr_t)pthread_self();
	c->tid = (int32_t)sr_sys_gettid();
	c->next = listed;
	listed = t;
}

/* In a section, so that no handler of the program runs meanwhile. */
void sr_cancellation_set(struct sr_thread *t, bool anywhere)
{
	enum sr_heap before = sr_enter(t);

	sr_lock(&lock);
	if (t->signals.cancellation.anywhere)
		unlist(t);
	t->signals.cancellation.anywhere = anywhere;
	if (anywhere)
		list(t);
	sr_unlock(&lock);
	sr_leave(t, before);
}

void sr_cancellation_ends(struct sr_thread *t)
{
	if (t->signals.cancellation.anywhere)
		sr_cancellation_set(t, false);
}

void sr_cancellation_in_child(void)
{
	struct sr_thread *t = &sr_self;

	lock = (struct sr_lock){0};
	listed = NULL;
	if (t->signals.cancellation.anywhere)
		list(t);
}

void sr_cancellation_forget(void)
{
	SR_NEXT(next, "pthread_setcanceltype");

	if (prepared)
		sr_kernel_action(SR_SIGNAL_CANCELS, &of_libc, NULL);
	if (sr_self.signals.cancellation.anywhere)
		((int (*)(int, int *))sr_next(&next))(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	listed = NULL;
	prepared = sr_self.signals.cancellation.anywhere = false;
}

static bool is_enabled(void)
{
	SR_NEXT(next, "pthread_setcancelstate");
	int (*real)(int, int *) = (int (*)(int, int *))sr_next(&next), state = PTHREAD_CANCEL_DISABLE;

	real(PTHREAD_CANCEL_DISABLE, &state);
	real(state, NULL);
	return state == PTHREAD_CANCEL_ENABLE;
}

/* The handler.  To the thread it is the program's: where it cannot be cancelled now, libc keeps in mind that it is to be. */
static void cancel_here(int signo, siginfo_t *info, void *context)
{
	SR_NEXT(next, "pthread_cancel");

	if (sr_self.signals.cancellation.anywhere && is_enabled()) {
		sr_cancellation_ends(&sr_self);
		pthread_exit(PTHREAD_CANCELED);
	}
	((int (*)(pthread_t))sr_next(&next))(pthread_self());
}

/* --------------------------------------------------------------- by another one */

void sr_cancellation_prepare(void)
{
	/* Not deferred, or it would be blocked for good, as the thread ends in its handler: another one's setuid would wait for it. */
	const struct sr_kernel_action action = {.handler = (void *)cancel_here, .flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};

	if (prepared)
		return;
	prepared = true;
	sr_disposition_take(SR_SIGNAL_CANCELS, &action, &of_libc);
}

bool sr_cancellation_is_libcs(int signo, siginfo_t *info, ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;
	const uint8_t before = t->selector;

	if (signo != SR_SIGNAL_CANCELS || info->si_code == SI_QUEUE)
		return false;
	/* The calls that it makes are none of the program's. */
	t->selector = SR_TRAP_ALLOW;
	if (sr_action_is_function(&of_libc))
		((void (*)(int, siginfo_t *, void *))of_libc.handler)(signo, info, uc);
	t->selector = before;
	return true;
}

bool sr_cancellation_send(pthread_t id)
{
	siginfo_t info = {.si_signo = SR_SIGNAL_CANCELS, .si_code = SI_QUEUE};
	const struct sr_thread *t;

	sr_lock(&lock);
	for (t = listed; t && !pthread_equal((pthread_t)t->signals.cancellation.id, id);)
		t = t->signals.cancellation.next;
	if (t) {
		sr_cancellation_prepare();
		info.si_pid = (pid_t)sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
		sr_syscall(SYS_rt_tgsigqueueinfo, info.si_pid, t->signals.cancellation.tid, SR_SIGNAL_CANCELS, SR_ARG(&info), 0, 0);
	}
	sr_unlock(&lock);
	return t != NULL;
}
