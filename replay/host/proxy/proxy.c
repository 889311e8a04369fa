/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/proxy/proxy.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "replay/host/proxy/worker.h"

#define SPINS         200

#define PROXY_NAME  "sreplay-proxy" /* as `ps` shows it */
#define START_SECONDS 30

static void wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static const struct sr_work_item *next_of(const struct sr_work_items *all)
{
	const uint64_t done = atomic_load(&all->done);

	if (atomic_load(&all->asked) == done || atomic_load(&all->failed))
		return NULL;
	return &all->work_item[done % SR_GROUP_WORK_ITEMS];
}

/* The member whose next item has the lowest stamp of those seen; NULL: there is none. */
static struct sr_work_items *lowest(struct sr_worker *c)
{
	struct sr_work_items *found = NULL;

	for (uint32_t i = 0; i < c->group->members; i++) {
		struct sr_work_items *all = &c->group->member[i].work_items;
		const struct sr_work_item *e = next_of(all);

		if (e && (!found || e->stamp < next_of(found)->stamp))
			found = all;
	}
	return found;
}

/*
 * An item with a lower stamp may have come while the members were read one after the other.
 * It is there when a second pass begins, so the first is certain once two passes agree.
 */
static struct sr_work_items *first_asked(struct sr_worker *c)
{
	struct sr_work_items *found = lowest(c), *before = NULL;

	while (found != before) {
		before = found;
		found = lowest(c);
	}
	return found;
}

static void wake_member(struct sr_work_items *all)
{
	atomic_fetch_add(&all->word, 1);
	wake(&all->word);
}

static void arrived(struct sr_worker *c, struct sr_group_channel *channel, uint64_t messages)
{
	struct sr_work_items *to = &c->group->member[channel->key.to].work_items;

	if (!messages)
		return;
	atomic_store(&channel->arrived, messages);
	if (atomic_load(&to->waits))
		wake_member(to);
}

static void done(struct sr_work_items *all)
{
	const uint64_t so_far = atomic_fetch_add(&all->done, 1) + 1;
	const uint64_t wanted = atomic_load(&all->wanted);

	if (wanted && so_far >= wanted)
		wake_member(all);
}

/* Does one item; false: there is none. */
static bool serve(struct sr_worker *c)
{
	struct sr_work_items *all = first_asked(c);
	const struct sr_work_item *e = all ? next_of(all) : NULL;

	if (!e)
		return false;
	if (!sr_worker_run(c, all, e)) {
		atomic_store(&all->failed, 1);
		wake_member(all);
		return true;
	}
	c->group->proxy.requests[sr_worker_kind(e->opcode)]++;
	c->group->proxy.bytes += e->length;
	arrived(c, &c->group->channel[e->channel], e->arrives);
	/* From here on the process may reuse the item. */
	done(all);
	return true;
}

static void __attribute__((noreturn)) serve_for_ever(struct sr_worker *c)
{
	struct sr_group_proxy *shown = &c->group->proxy;

	for (;;) {
		uint32_t word;
		bool any = false;

		for (int i = 0; i < SPINS && !any; i++)
			any = serve(c);
		if (any)
			continue;
		atomic_store(&shown->sleeping, 1);
		word = atomic_load(&shown->word);
		if (!serve(c))
			syscall(SYS_futex, &shown->word, FUTEX_WAIT, word, NULL, NULL, 0);
		atomic_store(&shown->sleeping, 0);
	}
}

static void become_ready(struct sr_group *g, enum sr_proxy_state state)
{
	atomic_store(&g->proxy.state, state);
	wake(&g->proxy.state);
}

static void __attribute__((noreturn)) be(struct sr_group *g, int fd, pid_t parent)
{
	struct sr_worker *c = calloc(1, sizeof(*c));

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, PROXY_NAME);
	setpgid(0, 0); /* Ctrl-C comes to the conductor, which ends all */
	if (getppid() != parent || !c)
		_exit(1);
	c->group = g;
	c->fd = fd;
	if (!sr_worker_begin(c)) {
		become_ready(g, SR_PROXY_FAILED);
		_exit(1);
	}
	become_ready(g, SR_PROXY_READY);
	serve_for_ever(c);
}

pid_t sr_proxy_start(struct sr_group *g, int fd)
{
	pid_t self = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		be(g, fd, self);
	if (pid < 0)
		snprintf(g->proxy.text, sizeof(g->proxy.text), "cannot fork: %s",
			 strerror(errno));
	else
		atomic_store(&g->proxy.process, pid);
	return pid;
}

bool sr_proxy_await(struct sr_group *g, pid_t pid)
{
	const struct timespec second = {.tv_sec = 1};

	for (int i = 0; i < START_SECONDS && atomic_load(&g->proxy.state) == SR_PROXY_NONE &&
			waitpid(pid, NULL, WNOHANG) != pid;
	     i++)
		syscall(SYS_futex, &g->proxy.state, FUTEX_WAIT, SR_PROXY_NONE, &second, NULL,
			0);
	if (atomic_load(&g->proxy.state) == SR_PROXY_READY)
		return true;
	if (!g->proxy.text[0])
		snprintf(g->proxy.text, sizeof(g->proxy.text),
			 "the process that looks for a device has died, or hangs");
	sr_proxy_end(pid);
	return false;
}

void sr_proxy_lost(struct sr_group *g)
{
	atomic_store(&g->proxy.state, SR_PROXY_FAILED);
}

void sr_proxy_end(pid_t proxy)
{
	kill(proxy, SIGKILL);
	while (waitpid(proxy, NULL, 0) < 0 && errno == EINTR)
		;
}
