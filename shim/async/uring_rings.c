/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_rings.c: makes rings, lets the program map them, and ends them with their descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/async/uring_ring.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"

#define OF_POLLING_THREAD (SR_URING_SETUP_SQPOLL | SR_URING_SETUP_SQ_AFF)

/* What an older kernel does not know, it refuses. */
#define SETUP_FLAGS                                                                                                    \
	(SR_URING_SETUP_IOPOLL | SR_URING_SETUP_CQSIZE | SR_URING_SETUP_CLAMP | SR_URING_SETUP_ATTACH_WQ | SR_URING_SETUP_R_DISABLED | \
	 SR_URING_SETUP_SUBMIT_ALL | SR_URING_SETUP_COOP_TASKRUN | SR_URING_SETUP_TASKRUN_FLAG | SR_URING_SETUP_SINGLE_ISSUER |    \
	 SR_URING_SETUP_DEFER_TASKRUN | OF_POLLING_THREAD)
#define FEATURES                                                                                                       \
	(SR_URING_FEAT_SINGLE_MMAP | SR_URING_FEAT_NODROP | SR_URING_FEAT_SUBMIT_STABLE | SR_URING_FEAT_RW_CUR_POS |               \
	 SR_URING_FEAT_CUR_PERSONALITY | SR_URING_FEAT_FAST_POLL | SR_URING_FEAT_POLL_32BITS | SR_URING_FEAT_EXT_ARG |             \
	 SR_URING_FEAT_SQPOLL_NONFIXED | SR_URING_FEAT_NATIVE_WORKERS | SR_URING_FEAT_RSRC_TAGS | SR_URING_FEAT_CQE_SKIP |             \
	 SR_URING_FEAT_LINKED_FILE)

uint32_t sr_urings;
static struct sr_map rings; /* by descriptor + 1 */
static struct sr_uring *first;
static struct sr_lock list;

struct sr_uring *sr_uring_of(int fd)
{
	return sr_urings && fd >= 0 ? sr_map_get(&rings, (uint64_t)fd + 1) : NULL;
}

void sr_uring_each(void (*f)(void *ring, void *argument), void *argument)
{
	sr_lock(&list);
	for (struct sr_uring *ring = first; ring; ring = ring->next)
		f(ring, argument);
	sr_unlock(&list);
}

/* ------------------------------------------------------------------- memory */

static void *map(size_t size, int flags, int fd, off_t offset)
{
	void *p = sr_sys_mmap(fd < 0 ? sr_heap_place_mapping(size) : NULL, size, PROT_READ | PROT_WRITE, flags, fd, offset);

	return sr_sys_is_error(p) ? NULL : p;
}

static bool map_side(struct sr_uring *ring, struct sr_uring_side *side, int flags, int fd)
{
	side->rings = map(ring->rings_bytes, flags, fd, SR_URING_OFF_SQ_RING);
	side->requests = side->rings ? map(ring->requests_bytes, flags, fd, SR_URING_OFF_SQES) : NULL;
	return side->requests;
}

static void unmap_side(struct sr_uring *ring, struct sr_uring_side *side)
{
	if (side->rings)
		sr_sys_munmap(side->rings, ring->rings_bytes);
	if (side->requests)
		sr_sys_munmap(side->requests, ring->requests_bytes);
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static void end_ring(struct sr_uring *ring)
{
	while (ring->flights) {
		ring->flights->copy = NULL; /* never free: the kernel may fill it still */
		sr_uring_forget(ring, ring->flights);
	}
	unmap_side(ring, &ring->program);
	unmap_side(ring, &ring->kernel);
	if (ring->names)
		sr_sys_munmap(ring->names, sizeof(*ring->names));
	sr_free(ring->results);
	sr_free(ring->files);
	sr_uring_free_groups(ring);
	sr_free(ring);
}

/* What the kernel has written into a new ring: how many entries it has, for those who do not look at the parameters. */
static void fill(struct sr_uring *ring)
{
	const struct sr_uring_params *p = &ring->params;
	const struct sr_uring_side *to = &ring->program;

	sr_uring_store(to, p->sq_off.ring_mask, p->sq_entries - 1);
	sr_uring_store(to, p->sq_off.ring_entries, p->sq_entries);
	sr_uring_store(to, p->cq_off.ring_mask, p->cq_entries - 1);
	sr_uring_store(to, p->cq_off.ring_entries, p->cq_entries);
	if (ring->polls)
		sr_uring_store(to, p->sq_off.flags, SR_URING_SQ_NEED_WAKEUP);
}

/* fd: the kernel's ring, and -1 in a replay. */
static struct sr_uring *new_ring(const struct sr_uring_params *p, int fd)
{
	struct sr_uring *ring = sr_alloc_zeroed(sizeof(*ring));

	if (!ring)
		return NULL;
	ring->params = *p;
	ring->polls = p->flags & SR_URING_SETUP_SQPOLL;
	ring->rings_bytes = sr_page_up(larger(p->sq_off.array + p->sq_entries * sizeof(uint32_t),
					      p->cq_off.cqes + p->cq_entries * sizeof(struct sr_uring_cqe)));
	ring->requests_bytes = sr_page_up(p->sq_entries * sizeof(struct sr_uring_sqe));
	ring->results = sr_alloc(p->sq_entries * sizeof(*ring->results));
	ring->names = map(sizeof(*ring->names), MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ring->results && ring->names && map_side(ring, &ring->program, MAP_SHARED | MAP_ANONYMOUS, -1) &&
	    (fd < 0 || map_side(ring, &ring->kernel, MAP_SHARED | MAP_POPULATE, fd))) {
		fill(ring);
		return ring;
	}
	end_ring(ring);
	return NULL;
}

static void join(struct sr_uring *ring)
{
	sr_lock(&list);
	ring->next = first;
	first = ring;
	sr_urings++;
	sr_unlock(&list);
}

static void leave(struct sr_uring *ring)
{
	struct sr_uring **at = &first;
	bool is_used;

	sr_lock(&list);
	while (*at != ring)
		at = &(*at)->next;
	*at = ring->next;
	sr_urings--;
	is_used = ring->users;
	ring->has_ended = true;
	sr_unlock(&list);
	if (!is_used)
		end_ring(ring);
}

/* In a section: a tick must not come while the list is locked (uring_spin.c). */
struct sr_uring *sr_uring_hold(int fd)
{
	const enum sr_heap before = sr_enter(&sr_self);
	struct sr_uring *ring;

	sr_lock(&list);
	ring = sr_uring_of(fd);
	if (ring)
		ring->users++;
	sr_unlock(&list);
	sr_leave(&sr_self, before);
	return ring;
}

void sr_uring_drop(struct sr_uring *ring)
{
	enum sr_heap before;
	bool is_last;

	if (!ring)
		return;
	before = sr_enter(&sr_self);
	sr_lock(&list);
	is_last = !--ring->users && ring->has_ended;
	sr_unlock(&list);
	if (is_last)
		end_ring(ring);
	sr_leave(&sr_self, before);
}

/* Listener of descriptors that end. */
static void released(int fd)
{
	struct sr_uring *ring = sr_uring_of(fd);

	if (!ring)
		return;
	sr_map_take(&rings, (uint64_t)fd + 1);
	for (uint32_t i = 0; i < ring->n_fds; i++)
		if (ring->fds[i] == fd)
			ring->fds[i--] = ring->fds[--ring->n_fds];
	ring->fd = ring->fds[0];
	if (ring->n_fds)
		return;
	leave(ring);
}

/* False: no memory, or too many. */
static bool add_descriptor(struct sr_uring *ring, int fd)
{
	void *old;

	if (ring->n_fds == SR_URING_FDS || sr_map_put(&rings, (uint64_t)fd + 1, ring, &old))
		return false;
	ring->fds[ring->n_fds++] = fd;
	return true;
}

static void shared(int from, int to)
{
	struct sr_uring *ring = sr_uring_of(from);

	if (ring)
		add_descriptor(ring, to);
}

/* False: no memory. */
static bool add(struct sr_uring *ring, int fd)
{
	sr_fd_listen(released, shared);
	sr_uring_watch_spins();
	sr_uring_listen_to_copies();
	ring->fd = fd;
	if (!add_descriptor(ring, fd))
		return false;
	ring->number = (uint32_t)fd;
	join(ring);
	return true;
}

/* What answers to io_uring_enter that it is none. */
static void replace(void *of, void *argument)
{
	const struct sr_uring *ring = of;
	long other = sr_syscall(SYS_eventfd2, 0, O_CLOEXEC, 0, 0, 0, 0);

	for (uint32_t i = 0; i < ring->n_fds; i++) {
		long kept = sr_syscall(SYS_fcntl, ring->fds[i], F_GETFD, 0, 0, 0, 0);

		sr_syscall(SYS_dup3, other, ring->fds[i], kept & FD_CLOEXEC ? O_CLOEXEC : 0, 0, 0, 0);
	}
	sr_sys_close((int)other);
}

static void share(void *of, void *argument)
{
	((struct sr_uring *)of)->is_shared = true;
}

void sr_uring_forks(void)
{
	sr_uring_each(share, NULL);
}

/* Completions are its parent's affair until it enters the ring, and what its parent's requests write always is. */
static void continue_ring(void *of, void *argument)
{
	struct sr_uring *ring = of;

	ring->lock = (struct sr_lock){0};
	ring->owner = 0;
	ring->is_shared = false;
	ring->writing = 0;
	for (struct sr_uring_flight *f = ring->flights; f; f = f->next)
		f->writes = false;
}

void sr_uring_continue_in_child(void)
{
	list = (struct sr_lock){0};
	sr_map_continue_in_child(&rings);
	sr_uring_names_continue_in_child();
	sr_uring_each(continue_ring, NULL);
}

void sr_uring_forget_in_child(void)
{
	if (!sr_urings)
		return;
	sr_uring_continue_in_child();
	sr_uring_each(replace, NULL);
	sr_urings = 0;
}

/* -------------------------------------------------------------------- setup */

static uint64_t failed(int error)
{
	errno = error;
	return (uint64_t)-1;
}

/* As the kernel sees it. */
static bool may_poll(uint32_t flags)
{
	const uint32_t others = SR_URING_SETUP_COOP_TASKRUN | SR_URING_SETUP_TASKRUN_FLAG | SR_URING_SETUP_DEFER_TASKRUN;

	return flags & SR_URING_SETUP_SQPOLL ? !(flags & others) : !(flags & SR_URING_SETUP_SQ_AFF);
}

static int setup(const struct sr_call_desc *d, uint64_t entries, struct sr_uring_params *p)
{
	uint64_t a[] = {entries, (uintptr_t)p};
	const uint32_t flags = p->flags;
	int fd;

	if (flags & ~SETUP_FLAGS || !may_poll(flags))
		return (int)failed(EINVAL);
	/* The polling thread would be the one issuer. */
	if (flags & SR_URING_SETUP_SQPOLL)
		p->flags &= ~(uint32_t)(OF_POLLING_THREAD | SR_URING_SETUP_SINGLE_ISSUER);
	fd = (int)sr_real(d, a);
	p->flags = flags;
	if (fd >= 0 && !(p->features & SR_URING_FEAT_SINGLE_MMAP)) {
		sr_sys_close(fd);
		return (int)failed(ENOSYS);
	}
	p->features &= FEATURES;
	return fd;
}

uint64_t sr_invoke_io_uring_setup(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_uring_params *p = (struct sr_uring_params *)a[1];
	struct sr_uring *ring;
	int fd;

	if (!sr_is_readable(p, sizeof(*p)))
		return failed(EFAULT);
	fd = setup(d, a[0], p);
	if (fd < 0)
		return (uint64_t)fd;
	ring = new_ring(p, fd);
	if (ring && add(ring, fd))
		return (uint64_t)fd;
	if (ring)
		end_ring(ring);
	sr_sys_close(fd);
	return failed(ENOMEM);
}

void sr_replayed_io_uring_setup(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct sr_uring *ring = (int)result >= 0 ? new_ring((const struct sr_uring_params *)a[1], -1) : NULL;

	if (ring && !add(ring, (int)result))
		end_ring(ring);
}

/* ---------------------------------------------------------- the program's mappings */

struct sr_uring *sr_uring_maps(uint64_t a[6], uint64_t *offset)
{
	struct sr_uring *ring = a[3] & MAP_ANONYMOUS ? NULL : sr_uring_of((int)a[4]);

	if (!ring)
		return NULL;
	*offset = a[5];
	a[3] = (a[3] & MAP_FIXED) | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	a[4] = (uint64_t)-1;
	a[5] = 0;
	return ring;
}

/* An old size of 0 makes a second mapping of shared memory. */
long sr_uring_mapped(struct sr_uring *ring, uint64_t offset, long result, size_t size)
{
	bool requests = offset == SR_URING_OFF_SQES;
	void *from = requests ? (void *)ring->program.requests : (void *)ring->program.rings;
	size_t most = requests ? ring->requests_bytes : ring->rings_bytes;
	long made = -EINVAL;

	if (sr_sys_is_error((void *)result))
		return result;
	if (size <= most && (requests || offset == SR_URING_OFF_SQ_RING || offset == SR_URING_OFF_CQ_RING))
		made = sr_syscall(SYS_mremap, SR_ARG(from), 0, (long)sr_page_up(size), MREMAP_MAYMOVE | MREMAP_FIXED, result, 0);
	if (sr_sys_is_error((void *)made))
		sr_sys_munmap((void *)result, size);
	return made;
}
