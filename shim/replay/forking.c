/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forking.c: the replay of a child replays its parent up to the fork, forks really, and goes on as
 * the child; see own.h.  The parent ends there, so that only one of them reads the streams.
 */
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/calls/trap/trap.h"
#include "shim/core/order.h"
#include "shim/process/ids.h"
#include "shim/replay/group/group.h"
#include "shim/replay/own.h"
#include "shim/replay/tickets.h"
#include "shim/signals/signals.h"

static struct sr_replay_fork *next_fork(void)
{
	return &sr_replay_page->fork[atomic_load(&sr_replay_page->forks)];
}

uint32_t sr_replay_forks(struct sr_thread *t)
{
	const struct sr_replay_fork *f = next_fork();

	if (!f->number)
		return 0;
	if (!t->started)
		sr_replay_start_thread(t);
	if (t->silent || t->number != f->thread || t->sn + 1 != f->sn)
		return 0;
	sr_replay_handlers_between(t);
	sr_replay_take_run_tokens_at_call(t);
	return f->number;
}

/* The command becomes the parent as soon as the one that forked has ended. */
static void end_with_command(int32_t forked_by)
{
	const struct timespec a_moment = {.tv_nsec = 100000};

	while (sr_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0) == forked_by)
		sr_sys_nanosleep(&a_moment);
	sr_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
}

void sr_replay_continues(struct sr_thread *t, uint32_t child)
{
	struct sr_replay_control *c = sr_replay_page;
	const struct sr_replay_fork *f = next_fork();
	int32_t self = (int32_t)sr_sys_getpid(), parent = atomic_load(&c->process);

	if (self != parent)
		end_with_command(parent);
	/* Only what the child calls counts from here on. */
	for (uint32_t i = 0; i < SR_REPLAY_THREADS; i++)
		if (i != t->number)
			atomic_store(&c->thread[i].calls, 0);
	atomic_store(&c->children, 0);
	t->sn++;
	c->sns_before = t->sn;
	atomic_store(&c->thread[t->number].calls, t->sn);
	atomic_store(&c->thread[t->number].tid, (int32_t)sr_sys_gettid());
	atomic_store(&c->process, self);
	sr_ids_recorded(t->number, f->pid);
	sr_ids_real(t->number, self);
	sr_tickets_continue_in_child();
	sr_signals_continue_in_child();
	atomic_fetch_add(&c->forks, 1);
	if (!next_fork()->number)
		sr_group_join();
	if (c->trap)
		sr_trap_dispatch(t);
}

/*
 * The sandbox lets a process send signals to itself alone, by the number that it began with: a child could run no handlers.
 * Nothing but its threads tells a process from its child here, so one that has no others goes on as the child.
 */
bool sr_replay_becomes_child(void)
{
	return !sr_threaded && sr_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

void sr_replay_leaves_to(struct sr_thread *t, int32_t child)
{
	bool made = child > 0;

	if (!made)
		sr_say("the replay cannot fork");
	atomic_store(&sr_replay_page->continued_as, made ? child : 0);
	for (;;)
		sr_syscall(SYS_exit_group, made ? 0 : SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
}
