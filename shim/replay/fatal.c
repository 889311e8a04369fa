/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fatal.c: a signal by which the program ends itself; see own.h.
 *
 * A replay sends no signals.  But a handler that reports a crash resets the signal and raises it again, or a program kills
 * itself.  Where the recording ends by that, the replay ends in the same way: a debugger stops there, and the status is the
 * recorded one.
 */
#include <signal.h>
#include <stdatomic.h>

#include "logd/base/rawsys.h"
#include "shim/process/ids.h"
#include "shim/replay/own.h"
#include "shim/signals/dispositions.h"

/*
 * What the program sent itself last of those whose default action ends it; signo 0: none.  In a handler it may be blocked until that
 * returns: sn is the last call of the handler then.
 */
static struct {
	_Atomic(int32_t) signo;
	_Atomic(uint32_t) thread, handlers;
	_Atomic(uint64_t) sn;
} sent;

static bool ends_processes(int signo)
{
	const uint64_t others = SR_SIGNAL_BIT(SIGCHLD) | SR_SIGNAL_BIT(SIGCONT) | SR_SIGNAL_BIT(SIGURG) | SR_SIGNAL_BIT(SIGWINCH) |
				SR_SIGNAL_BIT(SIGSTOP) | SR_SIGNAL_BIT(SIGTSTP) | SR_SIGNAL_BIT(SIGTTIN) | SR_SIGNAL_BIT(SIGTTOU);

	return signo >= 1 && signo <= SR_SIGNALS && !(SR_SIGNAL_BIT(signo) & others);
}

/* The signal that the call sends to this process or to a thread of it; 0: it sends none. */
static int32_t signal_of(enum sr_call_number n, const uint64_t *a)
{
	switch (n) {
	case SR_CALL_raise:
		return (int32_t)a[0];
	case SR_CALL_pthread_kill:
	case SR_CALL_pthread_sigqueue:
		return (int32_t)a[1];
	case SR_CALL_kill:
	case SR_CALL_sigqueue:
		return sr_real_id((int32_t)a[0]) == sr_sys_getpid() ? (int32_t)a[1] : 0;
	case SR_CALL_tgkill:
		return sr_real_id((int32_t)a[0]) == sr_sys_getpid() ? (int32_t)a[2] : 0;
	default:
		return 0;
	}
}

static bool is_in_same_handler(const struct sr_thread *t)
{
	const uint32_t handlers = atomic_load(&sent.handlers);

	return atomic_load(&sent.signo) && atomic_load(&sent.thread) == t->number && handlers && t->signals.handlers >= handlers;
}

void sr_replay_note_sent(const struct sr_thread *t, enum sr_call_number n, const uint64_t *a)
{
	const int32_t signo = signal_of(n, a);

	if (is_in_same_handler(t))
		atomic_store(&sent.sn, t->sn);
	if (!ends_processes(signo) || sr_disposition_get(signo).handler != (void *)SIG_DFL)
		return;
	atomic_store(&sent.thread, t->number);
	atomic_store(&sent.handlers, t->signals.handlers);
	atomic_store(&sent.sn, t->sn);
	atomic_store(&sent.signo, signo);
}

/* A sender that makes further calls has blocked the signal, which another thread waits for perhaps. */
static bool has_gone_on(void)
{
	return atomic_load(&sr_replay_page->thread[atomic_load(&sent.thread)].calls) > atomic_load(&sent.sn);
}

void sr_replay_die_by_sent(void)
{
	const struct sr_kernel_action none = {.handler = (void *)SIG_DFL};
	const int32_t signo = atomic_load(&sent.signo);
	uint64_t bit;

	if (!signo || has_gone_on())
		return;
	bit = SR_SIGNAL_BIT(signo);
	sr_kernel_action(signo, &none, NULL);
	sr_kernel_mask(SIG_UNBLOCK, &bit, NULL);
	sr_syscall(SYS_tgkill, sr_sys_getpid(), sr_sys_gettid(), signo, 0, 0, 0);
}
