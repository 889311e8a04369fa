/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/announce.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/page/announced.h"
#include "shim/memory/heap.h"

/* The processes that were written to, as many as a node has cores and more; then the oldest ones are forgotten. */
#define PEERS 1024

static struct {
	struct sr_lock lock;
	uint32_t n; /* ever */
	struct peer {
		pid_t pid;
		uint64_t id;
		struct announced *at; /* never unmapped: another thread may still use it */
	} *list; /* PEERS */
} peers;

static bool read_head(pid_t pid, struct announced_head *head)
{
	struct iovec here = {head, sizeof(*head)}, there = {(void *)ANNOUNCED_BASE, sizeof(*head)};

	return sr_syscall(SYS_process_vm_readv, pid, SR_ARG(&here), 1, SR_ARG(&there), 1, 0) == (long)sizeof(*head) && head->id;
}

static struct announced *map_peer(pid_t pid, const struct announced_head *head)
{
	char path[64];
	struct announced *at;
	long fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)head->fd);
	fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDWR | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return NULL;
	at = sr_sys_mmap(NULL, ANNOUNCED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, (off_t)ZONES_BYTES);
	sr_sys_close((int)fd);
	if (sr_sys_is_error(at))
		return NULL;
	if (at->head.id == head->id)
		return at;
	sr_sys_munmap(at, ANNOUNCED_BYTES);
	return NULL;
}

static struct announced *find_peer(pid_t pid)
{
	struct announced_head head;
	uint32_t known = peers.n < PEERS ? peers.n : PEERS;
	struct peer *p;

	if (!peers.list)
		peers.list = sr_alloc_zeroed(PEERS * sizeof(*peers.list));
	if (!peers.list || !read_head(pid, &head))
		return NULL;
	for (p = peers.list; p < peers.list + known; p++)
		if (p->pid == pid && p->id == head.id)
			return p->at;
	p = &peers.list[peers.n++ % PEERS];
	*p = (struct peer){pid, head.id, map_peer(pid, &head)};
	return p->at;
}

static struct announced_slot *claim(struct announced *at)
{
	for (struct announced_slot *s = at->slots; s < at->slots + ANNOUNCED_SLOTS; s++) {
		uint32_t unused = ANNOUNCED_FREE;

		if (atomic_compare_exchange_strong(&s->state, &unused, ANNOUNCED_CLAIMED))
			return s;
	}
	return NULL;
}

static uint64_t nanoseconds(int clock)
{
	struct timespec now = {0};

	sr_syscall(SYS_clock_gettime, clock, SR_ARG(&now), 0, 0, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* As clock_getcpuclockid() makes it: all threads' time. */
static uint64_t cpu_time(pid_t pid)
{
	return nanoseconds((int)(~(unsigned int)pid << 3 | 2));
}

/* Could its first thread run now, if it had a processor?  PID (NAME) STATE ... */
static bool is_runnable(pid_t pid)
{
	char path[32], stat[128];
	const char *state;
	long fd, n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return false;
	n = sr_sys_read((int)fd, stat, sizeof(stat) - 1);
	sr_sys_close((int)fd);
	stat[n > 0 ? n : 0] = 0;
	state = strrchr(stat, ')');
	return state && state[1] && state[2] == 'R';
}

/* A process that sleeps, or computes for so long, comes to no recorded access or call soon. */
#define COMPUTES 4000000ull
#define PATIENCE 1000000000ull
#define LOOK	 100000

/* Until it has granted it, or is not to be waited for. */
static void await_grant(struct announced_slot *s, pid_t pid)
{
	const struct timespec look = {0, LOOK};
	const uint64_t began = nanoseconds(CLOCK_MONOTONIC), computed = cpu_time(pid);
	uint64_t last = computed, now;
	uint32_t asked = ANNOUNCED_ASKED;

	while (atomic_load(&s->state) == ANNOUNCED_ASKED) {
		sr_sys_futex((uint32_t *)&s->state, FUTEX_WAIT, ANNOUNCED_ASKED, &look);
		now = cpu_time(pid);
		if ((now == last && !is_runnable(pid)) || now - computed > COMPUTES || nanoseconds(CLOCK_MONOTONIC) - began > PATIENCE)
			break;
		last = now;
	}
	atomic_compare_exchange_strong(&s->state, &asked, ANNOUNCED_FORCED);
}

/* One behind the other they are one piece. */
static void put_pieces(struct announced_slot *s, const struct iovec *pieces, size_t n)
{
	s->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct iovec *last = s->n ? &s->pieces[s->n - 1] : NULL;

		if (last && (char *)last->iov_base + last->iov_len == pieces[i].iov_base)
			last->iov_len += pieces[i].iov_len;
		else if (s->n < ANNOUNCED_PIECES)
			s->pieces[s->n++] = pieces[i];
	}
}

struct announced_slot *sr_announce(pid_t pid, const struct iovec *pieces, size_t n)
{
	struct announced_slot *s;
	struct announced *at;

	sr_lock(&peers.lock);
	at = find_peer(pid);
	sr_unlock(&peers.lock);
	s = at ? claim(at) : NULL;
	if (!s)
		return NULL;
	s->writer = (int32_t)sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	put_pieces(s, pieces, n);
	atomic_store(&s->state, ANNOUNCED_ASKED);
	atomic_fetch_add(&at->pending, 1);
	await_grant(s, pid);
	return s;
}

void sr_announce_ends(struct announced_slot *s, long written)
{
	size_t left = written > 0 ? (size_t)written : 0;
	uint32_t state;

	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->pieces[i].iov_len > left)
			s->pieces[i].iov_len = left;
		left -= s->pieces[i].iov_len;
	}
	state = atomic_load(&s->state);
	while (state != ANNOUNCED_GIVEN_UP && !atomic_compare_exchange_weak(&s->state, &state, ANNOUNCED_WRITTEN))
		;
	if (state == ANNOUNCED_GIVEN_UP)
		atomic_store(&s->state, ANNOUNCED_FREE);
	sr_sys_futex((uint32_t *)&s->state, FUTEX_WAKE, 1, NULL);
}
