/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/drain.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "logd/ring/protocol.h"
#include "logd/writer/frame_writer.h"
#include "logd/writer/stream_file.h"

/* A program that goes on producing keeps the daemon from ending for so long at most. */
#define LAST_MS       3000
/* More than this would fall out of the caches while it waits. */
#define WATERMARK_MAX (256u << 10)
/* Fewer bytes wait in the ring for so long at most, for a frame that compresses well. */
#define FRAME_WAIT_MS 1000
#define FOR_EVER      (-1)

/* After this many threads, recordings to further file systems share them. */
#define WORKERS_MAX   256

struct worker {
	pthread_t thread;
	struct drain *drain;
	dev_t device; /* of the traces that it writes */
	struct frame_writer *writer;
	int doorbell_fd;
	struct sr_doorbell *doorbell;
	struct stream *streams; /* these two for this thread only */
	struct served *areas;
	pthread_mutex_t lock; /* for `added`; no other lock is taken under it */
	struct served *added;
	int64_t last_active;
};

struct drain {
	struct drain_options options;
	int event_fd;
	int n;    /* workers */
	int next; /* counts the recordings, which take the workers of their file system in turn */
	_Atomic bool stopping;
	struct worker *workers[WORKERS_MAX];
};

/* Programs that wait see this (sr_client_goes_on), and say what for. */
static void enter_file_system(struct worker *w)
{
	atomic_store_explicit(&w->doorbell->in_file_system, 1, memory_order_relaxed);
}

static void leave_file_system(struct worker *w)
{
	atomic_store_explicit(&w->doorbell->in_file_system, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->doorbell->progress, 1, memory_order_relaxed);
}

static void notify_main(const struct drain *d)
{
	uint64_t one = 1;

	if (write(d->event_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the main thread wakes up anyway */
}

/* ---- one round over the streams ---- */

static size_t watermark(const struct stream *s)
{
	/* Where frames become few bytes, longer ones gain more than that costs: each frame says anew what its records have in common. */
	size_t quarter = sr_ring_bytes(&s->ring) / 4, most = s->dense ? STREAM_FRAME_DENSE : WATERMARK_MAX;

	return quarter < most ? quarter : most;
}

static bool is_over(struct stream *s)
{
	bool over = atomic_load(&s->gone) || sr_ring_closed(&s->ring);

	/* In this order: what was committed before the ring was closed is seen. */
	return over && (atomic_load(&s->gone) || stream_waiting(s) == 0);
}

/* Is it time to write what waits? */
static bool is_due(struct worker *w, struct stream *s, size_t waiting, int64_t now)
{
	if (waiting && waiting != s->seen_waiting)
		w->last_active = now;
	s->seen_waiting = waiting;
	if (!waiting) {
		s->due_ms = 0;
		return false;
	}
	if (!s->due_ms)
		s->due_ms = now + FRAME_WAIT_MS;
	return waiting >= watermark(s) || now >= s->due_ms || stream_is_asked(s) ||
	       sr_ring_closed(&s->ring) || atomic_load(&w->drain->stopping);
}

static bool wants_more(struct worker *w, struct stream *s)
{
	size_t waiting = stream_waiting(s);

	return waiting >= watermark(s) || stream_is_asked(s) ||
	       (atomic_load(&w->drain->stopping) && waiting);
}

/* Streams whose next frame is ready to be written. */
struct batch {
	struct frame_job jobs[FRAME_JOBS];
	struct stream *streams[FRAME_JOBS];
	unsigned int n;
	bool more; /* some have more to write at once */
};

static void write_batch(struct worker *w, struct batch *b)
{
	enter_file_system(w);
	frame_write(w->writer, b->jobs, b->n);
	leave_file_system(w);
	for (unsigned int i = 0; i < b->n; i++) {
		stream_complete(b->streams[i], w->writer, &b->jobs[i]);
		b->more |= wants_more(w, b->streams[i]);
	}
	b->n = 0;
}

static void serve(struct worker *w, struct stream *s, struct batch *b, int64_t now)
{
	stream_mark_again(s, w->writer, now);
	if (is_due(w, s, stream_waiting(s), now)) {
		s->due_ms = 0;
		enter_file_system(w);
		if (stream_prepare(s, w->writer, &b->jobs[b->n]))
			b->streams[b->n++] = s;
		leave_file_system(w);
	}
	if (b->n == FRAME_JOBS)
		write_batch(w, b);
}

/* True: there is more to do at once. */
static bool serve_all(struct worker *w)
{
	int64_t now = sr_sys_now_ms();
	struct batch b = {0};

	for (struct stream **at = &w->streams; *at;) {
		struct stream *s = *at;

		if (is_over(s)) {
			*at = s->next;
			enter_file_system(w);
			stream_end(s, w->writer);
			leave_file_system(w);
			served_end_stream(s);
			continue;
		}
		serve(w, s, &b, now);
		at = &s->next;
	}
	if (b.n)
		write_batch(w, &b);
	return b.more;
}

static void take_added(struct worker *w)
{
	struct served *added;

	pthread_mutex_lock(&w->lock);
	added = w->added;
	w->added = NULL;
	pthread_mutex_unlock(&w->lock);
	while (added) {
		struct served *next = added->next;

		added->next = w->areas;
		w->areas = added;
		added = next;
	}
}

/* The threads that have begun since the last time. */
static void take_new_streams(struct worker *w)
{
	struct stream *s, *new = NULL;

	take_added(w);
	for (struct served *a = w->areas; a; a = a->next)
		served_look(a, &new);
	while ((s = new)) {
		new = s->next;
		enter_file_system(w);
		stream_begin(s); /* an error stops the ring; the stream still ends as others do */
		leave_file_system(w);
		s->next = w->streams;
		w->streams = s;
	}
}

static void drop_areas(struct worker *w)
{
	for (struct served **at = &w->areas; *at;) {
		struct served *a = *at;

		if (!served_is_over(a)) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		atomic_store(&a->ended, true); /* it is the main thread's again */
		notify_main(w->drain);
	}
}

/* ---- sleeping ---- */

/*
 * What a ring has to hold for a wake-up: a watermark.  Where nobody looks at it again in a tick, an
 * empty one needs it at its first record, from which on a frame is due at some time.
 */
static size_t wake_level(const struct stream *s, bool idle)
{
	return idle && !s->due_ms ? 1 : watermark(s);
}

/*
 * Asks all rings for a wake-up.  False: one holds that much already, or there is something else to
 * do.
 */
static bool arm_all(struct worker *w, bool idle, bool *fenced)
{
	for (struct stream *s = w->streams; s; s = s->next)
		sr_ring_arm(&s->ring, wake_level(s, idle));
	*fenced = true;
	/*
	 * Only a sleep of more than a tick needs the barrier (see sr_ring_publish): else a missed
	 * watermark costs one tick, and the producer of a full ring looks again behind a barrier of its own.
	 */
	for (struct stream *s = w->streams; idle && s; s = s->next) {
		if (s->ring.shared->expedited) {
			*fenced &= sr_ring_fence_producers(&s->ring);
			break;
		}
	}
	for (struct stream *s = w->streams; s; s = s->next) {
		if (idle && !s->ring.shared->expedited)
			*fenced = false;
		if (stream_waiting(s) >= wake_level(s, idle) || is_over(s))
			return false;
	}
	return true;
}

/* Of two times, where 0 is never. */
static int64_t earlier(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/*
 * How long there is nothing to do unless the doorbell rings, in ms.  A program that overwrites the
 * doorbell wakes nobody; when its ring is full it connects anew, and that kicks this thread.
 */
static int64_t time_to_sleep(const struct worker *w, bool idle, bool fenced)
{
	int64_t next = 0, left;

	if (!idle || !fenced)
		return DRAIN_TICK_MS;
	for (const struct stream *s = w->streams; s; s = s->next) {
		next = earlier(next, s->mark_again_ms);
		next = earlier(next, s->due_ms);
	}
	left = next - sr_sys_now_ms();
	return !next ? FOR_EVER : left > 0 ? left : 0;
}

/*
 * After a tick in which nothing came into any ring, the thread sleeps until the doorbell rings or a
 * frame is due.
 */
static void sleep_until_needed(struct worker *w, uint32_t seen)
{
	bool idle = sr_sys_now_ms() - w->last_active >= DRAIN_TICK_MS, fenced;
	bool quiet = arm_all(w, idle, &fenced);
	int64_t ms = time_to_sleep(w, idle, fenced);
	struct timespec timeout = sr_sys_ms(ms);

	if (quiet && !atomic_load(&w->drain->stopping))
		sr_sys_futex((uint32_t *)&w->doorbell->bell, FUTEX_WAIT, seen,
			     ms == FOR_EVER ? NULL : &timeout);
	for (struct stream *s = w->streams; s; s = s->next)
		sr_ring_disarm(&s->ring);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct drain *d = w->drain;
	int64_t until;
	bool more;

	while (!atomic_load(&d->stopping)) {
		/* Read before the rings are: the doorbell in between ends the sleep at once. */
		uint32_t seen = atomic_load(&w->doorbell->bell);

		take_new_streams(w);
		more = serve_all(w);
		drop_areas(w);
		if (!more)
			sleep_until_needed(w, seen);
	}
	take_new_streams(w);
	/* The next daemon takes over what is left in a ring. */
	until = sr_sys_now_ms() + LAST_MS;
	while (serve_all(w) && sr_sys_now_ms() < until)
		;
	return NULL;
}

/* ---- from the main thread ---- */

static int open_doorbell(struct worker *w)
{
	void *page;

	w->doorbell_fd = memfd_create("sreplay-doorbell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (w->doorbell_fd < 0 || ftruncate(w->doorbell_fd, PAGE) ||
	    fcntl(w->doorbell_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w->doorbell_fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	w->doorbell = page;
	return 0;
}

static void free_worker(struct worker *w)
{
	frame_writer_free(w->writer);
	if (w->doorbell)
		munmap(w->doorbell, PAGE);
	if (w->doorbell_fd >= 0)
		close(w->doorbell_fd);
	free(w);
}

/* The new worker's number, or -errno. */
static int start_worker(struct drain *d, dev_t device)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->drain = d;
	w->device = device;
	pthread_mutex_init(&w->lock, NULL);
	err = open_doorbell(w);
	if (!err && !(w->writer = frame_writer_new(d->options.level, d->options.plain)))
		err = -ENOMEM;
	if (!err)
		err = -pthread_create(&w->thread, NULL, work, w);
	if (err) {
		free_worker(w);
		return err;
	}
	d->workers[d->n] = w;
	return d->n++;
}

int drain_start(struct drain **drain, const struct drain_options *o, int event_fd)
{
	struct drain *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->options = *o;
	d->event_fd = event_fd;
	*drain = d;
	return 0;
}

bool drain_stop(struct drain *d)
{
	struct timespec end;
	bool all = true;

	atomic_store(&d->stopping, true);
	for (int i = 0; i < d->n; i++)
		drain_kick(d, i);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LAST_MS / 1000 + 1;
	for (int i = 0; i < d->n; i++) {
		if (pthread_timedjoin_np(d->workers[i]->thread, NULL, &end))
			all = false; /* its file system does not answer */
		else
			free_worker(d->workers[i]);
	}
	if (all)
		free(d);
	return all;
}

int drain_assign(struct drain *d, dev_t device)
{
	int mine[WORKERS_MAX], n = 0, number;

	for (int i = 0; i < d->n; i++)
		if (d->workers[i]->device == device)
			mine[n++] = i;
	if (n < d->options.threads && d->n < WORKERS_MAX) {
		number = start_worker(d, device);
		if (number >= 0 || (!n && !d->n))
			return number;
	}
	d->next++;
	return n ? mine[d->next % n] : d->next % d->n;
}

int drain_doorbell_fd(const struct drain *d, int number)
{
	return d->workers[number]->doorbell_fd;
}

uint32_t drain_progress(const struct drain *d, int number)
{
	return atomic_load(&d->workers[number]->doorbell->progress);
}

void drain_add(struct drain *d, int number, struct served *s)
{
	struct worker *w = d->workers[number];

	pthread_mutex_lock(&w->lock);
	s->next = w->added;
	w->added = s;
	pthread_mutex_unlock(&w->lock);
	drain_kick(d, number);
}

void drain_kick(struct drain *d, int number)
{
	_Atomic uint32_t *bell = &d->workers[number]->doorbell->bell;

	atomic_fetch_add(bell, 1);
	sr_sys_futex((uint32_t *)bell, FUTEX_WAKE, INT_MAX, NULL);
}
