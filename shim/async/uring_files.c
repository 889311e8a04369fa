/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring_files.c: when requests write to files; recording only.
 *
 * A replay writes what a request has written when the program is given its completion.  The recorder copies files that
 * children change too (files/inputs.h), and holds them meanwhile.  So that a replay comes to the same content, a completion of
 * a request that writes to a file is carried to the program only by a thread that holds the file, and a copy waits for
 * requests that write to the file.  What a copy has already is not written again.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <time.h>

#include "logd/base/rawsys.h"
#include "shim/async/uring_ring.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/files/asynchronous.h"
#include "shim/files/fds.h"
#include "shim/files/write_order.h"

/* A request that is linked behind one that waits may take for ever. */
#define WAIT_MS 200
#define NAP_NS	50000

bool sr_uring_writes_file(const struct sr_uring_sqe *r)
{
	return r->opcode == SR_URING_OP_WRITE || r->opcode == SR_URING_OP_WRITEV || r->opcode == SR_URING_OP_WRITE_FIXED;
}

/* The kernel has written a completion that no thread has carried to the program. */
static bool has_landed(const struct sr_uring *ring, const struct sr_uring_flight *f)
{
	const uint32_t tail = ring->params.cq_off.tail, end = sr_uring_load(&ring->kernel, tail);
	const struct sr_uring_cqe *from = sr_uring_completions(ring, &ring->kernel);

	for (uint32_t i = sr_uring_load(&ring->program, tail); (int32_t)(end - i) > 0; i++)
		if (from[i & (ring->params.cq_entries - 1)].user_data == f->name)
			return true;
	return false;
}

/* ------------------------------------------------------------------- waiting */

/* inode: 0 for all files. */
struct awaited {
	dev_t device;
	ino_t inode;
	bool any, is_last; /* to be waited for no longer */
};

static bool is_to(const struct sr_uring_flight *f, const struct awaited *a)
{
	return f->writes && (!a->inode || (f->device == a->device && f->inode == a->inode));
}

/* Such a ring shows completions only to a thread that asks. */
static void ask(const struct sr_uring *ring)
{
	if (ring->params.flags & SR_URING_SETUP_DEFER_TASKRUN)
		sr_syscall(SYS_io_uring_enter, ring->fd, 0, 0, SR_URING_ENTER_GETEVENTS, 0, 0);
}

static void look(void *of, void *argument)
{
	struct sr_uring *ring = of;
	struct awaited *a = argument;
	bool any = false;

	sr_lock(&ring->lock);
	for (struct sr_uring_flight *f = ring->flights; f; f = f->next) {
		if (!is_to(f, a) || f->is_late)
			continue;
		f->landed = has_landed(ring, f);
		f->is_late = a->is_last && !f->landed;
		any |= !f->landed;
	}
	if (any)
		ask(ring);
	sr_unlock(&ring->lock);
	a->any |= any;
}

static void await_all(struct awaited *a)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	int64_t began = 0;

	for (;;) {
		a->any = false;
		sr_uring_each(look, a);
		if (!a->any || a->is_last)
			return;
		sr_sys_nanosleep(&nap);
		if (!began)
			began = sr_sys_now_ms();
		a->is_last = sr_sys_now_ms() >= began + WAIT_MS;
	}
}

static void await(dev_t device, ino_t inode)
{
	if (sr_urings)
		await_all(&(struct awaited){.device = device, .inode = inode});
}

/* -------------------------------------------------------------------- copies */

/* Written twice, it would be at two places. */
static bool has_no_place(const struct sr_uring_flight *f)
{
	return f->offset == -1 || f->output_flags & RWF_APPEND || sr_sys_fcntl(f->fd, F_GETFL, 0) & O_APPEND;
}

static void mark(void *of, void *argument)
{
	struct sr_uring *ring = of;

	sr_lock(&ring->lock);
	for (struct sr_uring_flight *f = ring->flights; f; f = f->next) {
		if (!is_to(f, argument))
			continue;
		if (f->landed)
			f->effect = SR_URING_COPIED;
		else if (has_no_place(f) && has_landed(ring, f))
			f->effect = SR_URING_PERHAPS_COPIED;
	}
	sr_unlock(&ring->lock);
}

static void copied(dev_t device, ino_t inode)
{
	if (sr_urings)
		sr_uring_each(mark, &(struct awaited){.device = device, .inode = inode});
}

void sr_uring_listen_to_copies(void)
{
	static const struct sr_async_listener listener = {.await = await, .copied = copied};

	sr_async_listen(&listener);
}

void sr_uring_find_file(struct sr_uring *ring, struct sr_uring_flight *f, const struct sr_uring_sqe *r)
{
	struct stat st;

	f->offset = (long)r->off;
	f->output_flags = r->rw_flags & RWF_APPEND;
	f->writes = !sr_fd_captured(f->fd) && !sr_sys_fstat(f->fd, &st) && S_ISREG(st.st_mode);
	if (!f->writes)
		return;
	ring->writing++;
	f->device = st.st_dev;
	f->inode = st.st_ino;
}

/* --------------------------------------------------------------- completions */

#define MOST 16

/* Files of requests that have ended. */
struct ended {
	dev_t device[MOST];
	ino_t inode[MOST];
	unsigned int n;
};

static void find(void *of, void *argument)
{
	struct sr_uring *ring = of;
	struct ended *e = argument;

	if (!sr_uring_is_own(ring))
		return;
	sr_lock(&ring->lock);
	for (const struct sr_uring_flight *f = ring->flights; f && e->n < MOST; f = f->next) {
		if (!f->writes || !has_landed(ring, f))
			continue;
		e->device[e->n] = f->device;
		e->inode[e->n++] = f->inode;
	}
	sr_unlock(&ring->lock);
}

void sr_uring_hold_files(void)
{
	struct ended e = {.n = 0};

	if (!sr_threaded)
		return;
	sr_uring_each(find, &e);
	if (e.n > 1)
		sr_files_hold_many(&sr_self);
	for (unsigned int i = 0; i < e.n; i++)
		sr_file_hold(&sr_self, e.device[i], e.inode[i]);
}

bool sr_uring_may_take(const struct sr_uring_flight *f)
{
	return !f->writes || sr_file_try_hold(&sr_self, f->device, f->inode);
}

/* ------------------------------------------------------------------- the end */

/* What a request has written is in the file, whether or not the program ever looks. */
static __thread struct {
	bool all;
	int fd; /* else the ring of this descriptor */
} ends = {.fd = -1};

bool sr_uring_ends_here(const struct sr_uring *ring)
{
	return ring->writing && (ends.all || ring->fd == ends.fd);
}

void sr_uring_await_end(void)
{
	if (ends.all || ends.fd >= 0)
		await_all(&(struct awaited){.inode = 0});
}

static void look_if_ends(void *of, void *any)
{
	*(bool *)any |= sr_uring_ends_here(of);
}

static bool has_written(void)
{
	const enum sr_heap before = sr_enter(&sr_self);
	bool any = false;

	sr_uring_each(look_if_ends, &any);
	sr_leave(&sr_self, before);
	return any;
}

/* In a recording the call waits for the requests. */
static void bring_written(void *site)
{
	if (!sr_engine->replays && has_written())
		sr_uring_carry(site);
	else
		sr_uring_call_ends(site);
}

void sr_uring_closes(int fd, void *site)
{
	const struct sr_uring *ring = sr_uring_of(fd);

	if (!ring || ring->n_fds > 1)
		return;
	ends.fd = ring->fd;
	bring_written(site);
	ends.fd = -1;
}

void sr_uring_ends(void)
{
	if (!sr_urings || !sr_engine_is_active() || sr_self.depth)
		return;
	ends.all = true;
	bring_written(NULL);
	ends.all = false;
}
