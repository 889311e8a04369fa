/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer_memory.c: the memory of another recorded process, which this one reads or writes by
 * process_vm_readv(2) and process_vm_writev(2).
 *
 * If that memory is exposed there, the kernel finds its user mapping protected, or a snapshot.  The
 * bytes that count are in the backing mapping, which lies at the same distance in every recorded
 * process.  Whether a page of a peer is exposed is not known here, so the backing mapping is tried
 * first.  While the peer moves a page from one to the other, it can be reached at neither.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/exposed/exposed.h"
#include "shim/kernel/readable.h"
#include "shim/process/ids.h"
#include "shim/verbs/announce.h"
#include "shim/verbs/regions.h"

/* So many pages of the peer are named in one system call. */
#define AT_ONCE 64

/* The pieces of a list that is copied. */
#define LIST 16

/* A place in a list of pieces. */
struct cursor {
	const struct iovec *iov;
	size_t left; /* pieces, the current one included */
	size_t done; /* of the current piece */
};

static void advance(struct cursor *c, size_t n)
{
	while (c->left && n >= c->iov->iov_len - c->done) {
		n -= c->iov->iov_len - c->done;
		c->iov++;
		c->left--;
		c->done = 0;
	}
	if (c->left)
		c->done += n;
}

/* The next pieces of this process's memory. */
static size_t next_pieces(struct cursor c, struct iovec *to)
{
	size_t n = 0;

	for (; c.left && n < AT_ONCE; c.iov++, c.left--, c.done = 0)
		to[n++] = (struct iovec){(char *)c.iov->iov_base + c.done, c.iov->iov_len - c.done};
	return n;
}

/* The next pages of the peer's: the kernel transfers whole pieces, so each page is one. */
static size_t next_pages(struct cursor c, struct iovec *to, bool backing)
{
	size_t n = 0;

	while (c.left && n < AT_ONCE) {
		char *at = (char *)c.iov->iov_base + c.done;
		size_t to_end = PAGE - (uintptr_t)at % PAGE, rest = c.iov->iov_len - c.done;
		size_t length = rest < to_end ? rest : to_end;

		if (length)
			to[n++] =
			    (struct iovec){backing ? sr_exposed_backing_place(at) : at, length};
		advance(&c, length);
	}
	return n;
}

struct transfer {
	long nr, pid, flags;
	bool announces; /* what is no exposed memory there */
	struct cursor here, there;
};

/* How many bytes were transferred, or -errno. */
static long transfer_some(struct transfer *t, bool backing)
{
	struct iovec here[AT_ONCE], there[AT_ONCE];
	size_t here_n = next_pieces(t->here, here), there_n = next_pages(t->there, there, backing);
	struct announced_slot *s = NULL;
	long n;

	if (!here_n || !there_n)
		return 0;
	if (t->announces && !backing)
		s = sr_announce((pid_t)t->pid, there, there_n);
	n = sr_syscall(t->nr, t->pid, SR_ARG(here), (long)here_n, SR_ARG(there), (long)there_n,
		       t->flags);
	sr_announce_ends(s, n);
	if (n > 0) {
		advance(&t->here, (size_t)n);
		advance(&t->there, (size_t)n);
	}
	return n;
}

/* 20 us, and twice as long each time: 80 ms in all, for a peer that lost its processor while it moved the page. */
#define WAITS 12

static void wait_for_peer(int n)
{
	const struct timespec pause = {0, 20000l << n};

	sr_syscall(SYS_nanosleep, SR_ARG(&pause), 0, 0, 0, 0, 0);
}

/* Goes on with the mapping that was right before. */
static long transfer_either(struct transfer *t, bool *backing)
{
	long n = transfer_some(t, *backing);

	if (n > 0)
		return n;
	*backing = !*backing;
	return transfer_some(t, *backing);
}

/* What is at neither place after the last wait is not there.  This process's own pages are not waited for. */
static long transfer(struct transfer *t)
{
	const int most = t->pid == sr_sys_getpid() ? 0 : WAITS;
	int waits = 0;
	bool backing = true;
	long total = 0, n = 0;

	while (t->here.left && t->there.left) {
		n = transfer_either(t, &backing);
		if (n > 0) {
			total += n;
			waits = 0;
		} else if (n == -EFAULT && waits < most) {
			wait_for_peer(waits++);
		} else {
			break;
		}
	}
	return total ? total : n;
}

static uint64_t invoke(const struct sr_call_desc *d, uint64_t *a)
{
	struct transfer t = {
	    .nr = d->nr,
	    .pid = (long)a[0],
	    .flags = (long)a[5],
	    .announces = d->nr == SYS_process_vm_writev && (pid_t)a[0] != sr_sys_getpid(),
	    .here = {(const struct iovec *)a[1], a[2], 0},
	    .there = {(const struct iovec *)a[3], a[4], 0},
	};
	long result;

	/* A process without exposed memory seldom has peers that have some. */
	if (!sr_regions_on)
		return sr_real(d, a);
	result = transfer(&t);
	if (result >= 0)
		return (uint64_t)result;
	errno = (int)-result;
	return (uint64_t)-1;
}

/*
 * The kernel reads a list once, before it transfers anything, and what comes may lie over the list (UCX finds out so
 * whether it may read a peer's memory).  So what comes is found by a copy.  Longer lists are left where they are.
 */
static void keep_list(uint64_t *list, uint64_t n, struct iovec *kept)
{
	const struct iovec *iov = (const struct iovec *)*list;

	if (n > LIST || !sr_is_readable(iov, n * sizeof(*iov)))
		return;
	memcpy(kept, iov, n * sizeof(*iov));
	*list = SR_ARG(kept);
}

uint64_t sr_invoke_peer_memory(const struct sr_call_desc *d, uint64_t *a)
{
	static __thread struct iovec here[LIST] SR_INITIAL_EXEC, there[LIST] SR_INITIAL_EXEC;

	keep_list(&a[1], a[2], here);
	keep_list(&a[3], a[4], there);
	return invoke(d, a);
}

/* What a program writes to itself in this way, a replay writes again. */
void sr_replayed_peer_memory(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	long self = sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	if ((int64_t)result > 0 && (int32_t)a[0] == sr_recorded_id((int32_t)self))
		sr_syscall(SYS_process_vm_writev, self, (long)a[1], (long)a[2], (long)a[3], (long)a[4], 0);
}
