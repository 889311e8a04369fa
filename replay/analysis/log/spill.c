/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <ucontext.h>
#include <unistd.h>

#include "replay/analysis/log/grow.h"

#define CHUNK ((size_t)SR_SPILL_CHUNK)

/* Of all chunks in memory so many rest: one that is not touched meanwhile is the next to go. */
#define RESTING_SHARE 4

#define NO_SLOT (-1)

/* Of a page fault's error code: the access was a write. */
#define FAULT_IS_WRITE 2

enum state {
	EMPTY,   /* zeroes: nothing is in memory */
	IN_FILE,
	RESTING, /* in memory, without access */
	ACTIVE,
};

struct chunk {
	struct chunk *next, *before; /* of a queue */
	char *at;
	off_t slot; /* in the file, in chunks */
	enum state state;
	bool is_dirty; /* not as in the file; one that is active and not dirty cannot be written */
};

/* Those that came first are in front. */
struct queue {
	struct chunk *first, *last;
	size_t n;
};

struct segment {
	char *at;
	size_t n;
	struct chunk *chunks;
};

static struct {
	pthread_mutex_t lock;
	struct segment *segments;
	size_t n, room;
	size_t most; /* chunks in memory */
	struct queue active, resting;
	char *scratch; /* a chunk that nobody else touches */
	off_t *slots;  /* in the file, that are free */
	size_t slots_n, slots_room;
	off_t end;
	int fd; /* 0: there is none yet; -1: none can be made, or written */
	pid_t writer;
	struct sigaction before;
} spill = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = SIZE_MAX};

/* ----------------------------------------------------------------- queues */

static void put(struct queue *q, struct chunk *c)
{
	c->next = NULL;
	c->before = q->last;
	*(q->last ? &q->last->next : &q->first) = c;
	q->last = c;
	q->n++;
}

static void take_out(struct queue *q, struct chunk *c)
{
	*(c->before ? &c->before->next : &q->first) = c->next;
	*(c->next ? &c->next->before : &q->last) = c->before;
	q->n--;
}

static size_t in_memory(void)
{
	return spill.active.n + spill.resting.n;
}

/* -------------------------------------------------------------- the file */

/* A file in memory would save none. */
static int open_in(const char *directory)
{
	struct statfs s;
	int fd, higher;

	if (!directory || statfs(directory, &s) || s.f_type == TMPFS_MAGIC)
		return -1;
	fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd)
		return fd;
	/* 0 says that there is none. */
	higher = fcntl(fd, F_DUPFD_CLOEXEC, 1);
	close(fd);
	return higher;
}

static bool move_file(bool is_write, char *at, off_t slot)
{
	size_t done = 0;

	while (done < CHUNK) {
		const off_t place = slot * (off_t)CHUNK + (off_t)done;
		const ssize_t n = is_write ? pwrite(spill.fd, at + done, CHUNK - done, place) : pread(spill.fd, at + done, CHUNK - done, place);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static off_t take_slot(void)
{
	return spill.slots_n ? spill.slots[--spill.slots_n] : spill.end++;
}

static void give_slot(off_t slot)
{
	off_t *at = sr_grow((void **)&spill.slots, spill.slots_n, &spill.slots_room, sizeof(*at));

	/* Without memory for that its space is lost. */
	if (!at)
		return;
	*at = slot;
	spill.slots_n++;
}

/* ------------------------------------------------------- chunks come and go */

/* What was in memory, and is in no other place, is lost: there is nothing to go on with. */
static void fail(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(125);
	_exit(125);
}

static void protect(const struct chunk *c, int how)
{
	if (mprotect(c->at, CHUNK, how))
		fail("sreplay: no memory left\n");
}

static bool has_pages(const struct chunk *c)
{
	unsigned char pages[CHUNK / 4096];

	return mincore(c->at, CHUNK, pages) || memchr(pages, 1, sizeof(pages));
}

/* Another thread that touches it meanwhile waits for the lock.  false: there is nothing to be moved, or no memory. */
static bool move_to_scratch(const struct chunk *c)
{
	if (mremap(c->at, CHUNK, CHUNK, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, spill.scratch) == MAP_FAILED)
		return false;
	if (mprotect(spill.scratch, CHUNK, PROT_READ | PROT_WRITE) ||
	    mmap(c->at, CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		fail("sreplay: no memory left\n");
	madvise(c->at, CHUNK, MADV_HUGEPAGE);
	return true;
}

/* With its contents, whole. */
static void move_from_scratch(const struct chunk *c, int how)
{
	if (mprotect(spill.scratch, CHUNK, how) ||
	    mremap(spill.scratch, CHUNK, CHUNK, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, c->at) == MAP_FAILED ||
	    mprotect(spill.scratch, CHUNK, PROT_READ | PROT_WRITE))
		fail("sreplay: no memory left\n");
}

static void rest(void)
{
	struct chunk *c = spill.active.first;

	protect(c, PROT_NONE);
	take_out(&spill.active, c);
	put(&spill.resting, c);
	c->state = RESTING;
}

/* The one that has rested longest; what it had is in the scratch chunk.  false: it stays. */
static bool push_out(struct chunk *c)
{
	const bool is_empty = !has_pages(c);

	if (!is_empty && !move_to_scratch(c))
		return false;
	if (!is_empty && c->is_dirty) {
		c->slot = c->slot == NO_SLOT ? take_slot() : c->slot;
		if (!move_file(true, spill.scratch, c->slot)) {
			move_from_scratch(c, PROT_NONE);
			return false;
		}
	}
	take_out(&spill.resting, c);
	c->state = is_empty ? EMPTY : IN_FILE;
	c->is_dirty = is_empty;
	return true;
}

/* false: there was room. */
static bool make_room(void)
{
	const size_t n = in_memory();

	while (in_memory() >= spill.most && spill.fd > 0 && spill.writer == getpid()) {
		while (spill.active.n && spill.resting.n < spill.most / RESTING_SHARE)
			rest();
		/* The disk is full: from now on all stays. */
		if (!spill.resting.n || !push_out(spill.resting.first))
			spill.fd = -spill.fd;
	}
	return in_memory() < n;
}

static void read_back(struct chunk *c)
{
	const int fd = spill.fd;

	spill.fd = fd < 0 ? -fd : fd;
	if (!move_file(false, spill.scratch, c->slot))
		fail("sreplay: a part of memory that was put into a file cannot be read back\n");
	spill.fd = fd;
}

static void activate(struct chunk *c, bool is_write)
{
	c->is_dirty |= is_write;
	c->state = ACTIVE;
	put(&spill.active, c);
}

/* Memory that was in use is at hand; what the kernel gives a hypervisor may have to bring first, which takes ten times as long. */
static void clear(const struct chunk *c)
{
	if (!make_room()) {
		protect(c, PROT_READ | PROT_WRITE);
		return;
	}
	memset(spill.scratch, 0, CHUNK);
	move_from_scratch(c, PROT_READ | PROT_WRITE);
}

static void touch(struct chunk *c, bool is_write)
{
	const int how = c->is_dirty || is_write ? PROT_READ | PROT_WRITE : PROT_READ;

	switch (c->state) {
	case ACTIVE:
		/* Another thread may have been faster. */
		protect(c, how);
		c->is_dirty |= is_write;
		break;
	case RESTING:
		take_out(&spill.resting, c);
		activate(c, is_write);
		protect(c, how);
		break;
	case EMPTY:
		clear(c);
		activate(c, true);
		break;
	case IN_FILE:
		make_room();
		read_back(c);
		activate(c, is_write);
		move_from_scratch(c, how);
		break;
	}
}

/* -------------------------------------------------------------- the handler */

static struct chunk *chunk_at(const char *at)
{
	for (size_t i = 0; i < spill.n; i++)
		if (spill.segments[i].at <= at && at < spill.segments[i].at + spill.segments[i].n * CHUNK)
			return &spill.segments[i].chunks[(size_t)(at - spill.segments[i].at) / CHUNK];
	return NULL;
}

static void take_fault(int number, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	const int error = errno;
	struct chunk *c;

	pthread_mutex_lock(&spill.lock);
	c = chunk_at(info->si_addr);
	if (c)
		touch(c, u->uc_mcontext.gregs[REG_ERR] & FAULT_IS_WRITE);
	else
		sigaction(number, &spill.before, NULL); /* it comes again */
	pthread_mutex_unlock(&spill.lock);
	errno = error;
}

static bool take_faults(void)
{
	struct sigaction a = {.sa_flags = SA_SIGINFO | SA_RESTART};
	sigset_t own;

	a.sa_sigaction = take_fault;
	sigfillset(&a.sa_mask);
	sigemptyset(&own);
	sigaddset(&own, SIGSEGV);
	spill.scratch = mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (spill.scratch == MAP_FAILED || sigaction(SIGSEGV, &a, &spill.before))
		return false;
	spill.scratch = (char *)(((uintptr_t)spill.scratch + CHUNK - 1) & ~(CHUNK - 1));
	madvise(spill.scratch, CHUNK, MADV_HUGEPAGE);
	return !pthread_sigmask(SIG_UNBLOCK, &own, NULL);
}

static bool has_file(void)
{
	if (spill.fd)
		return spill.fd > 0;
	spill.fd = open_in(getenv("TMPDIR"));
	if (spill.fd < 0)
		spill.fd = open_in("/var/tmp");
	if (spill.fd >= 0 && !take_faults()) {
		close(spill.fd);
		spill.fd = -1;
	}
	spill.writer = getpid();
	return spill.fd > 0;
}

/* ------------------------------------------------------------------- segments */

void sr_spill_limit(size_t bytes)
{
	spill.most = bytes / CHUNK;
}

/* As long as there is room, no fault is taken. */
static bool add(struct segment *s)
{
	const bool fits = in_memory() + s->n <= spill.most || !has_file();

	s->chunks = calloc(s->n, sizeof(*s->chunks));
	if (!s->chunks || (fits && mprotect(s->at, s->n * CHUNK, PROT_READ | PROT_WRITE))) {
		free(s->chunks);
		return false;
	}
	for (size_t i = 0; i < s->n; i++) {
		s->chunks[i] = (struct chunk){.at = s->at + i * CHUNK, .slot = NO_SLOT, .is_dirty = true};
		if (fits)
			activate(&s->chunks[i], true);
	}
	return true;
}

bool sr_spill_add(void *at, size_t bytes)
{
	struct segment *s;
	bool fine;

	pthread_mutex_lock(&spill.lock);
	s = sr_grow((void **)&spill.segments, spill.n, &spill.room, sizeof(*s));
	if (s)
		*s = (struct segment){at, bytes / CHUNK, NULL};
	fine = s && add(s);
	spill.n += fine;
	pthread_mutex_unlock(&spill.lock);
	return fine;
}

static void forget(const struct segment *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct chunk *c = &s->chunks[i];

		if (c->state == ACTIVE || c->state == RESTING)
			take_out(c->state == ACTIVE ? &spill.active : &spill.resting, c);
		if (c->slot != NO_SLOT)
			give_slot(c->slot);
	}
	free(s->chunks);
}

static bool is_in(const struct segment *s, const void *at, size_t bytes)
{
	return s->at < (const char *)at + bytes && (const char *)at < s->at + s->n * CHUNK;
}

void sr_spill_remove(void *at, size_t bytes)
{
	size_t kept = 0;

	pthread_mutex_lock(&spill.lock);
	for (size_t i = 0; i < spill.n; i++)
		if (is_in(&spill.segments[i], at, bytes))
			forget(&spill.segments[i]);
		else
			spill.segments[kept++] = spill.segments[i];
	spill.n = kept;
	pthread_mutex_unlock(&spill.lock);
}

bool sr_spill_has(const void *at, size_t bytes)
{
	bool has = false;

	pthread_mutex_lock(&spill.lock);
	for (size_t i = 0; i < spill.n; i++)
		for (size_t k = 0; k < spill.segments[i].n && is_in(&spill.segments[i], at, bytes); k++)
			has |= spill.segments[i].chunks[k].state == IN_FILE;
	pthread_mutex_unlock(&spill.lock);
	return has;
}
