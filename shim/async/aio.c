/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/async/aio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "logd/base/iov.h"
#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/async/pieces.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"
#include "shim/files/write_order.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/* ---------------------------------------------------------------- requests */

size_t sr_aio_readable(struct iocb *const *list, long n)
{
	size_t count = 0;

	if (n <= 0 || !sr_is_readable(list, (size_t)n * sizeof(*list)))
		return 0;
	while (count < (size_t)n && sr_is_readable(list[count], sizeof(**list)))
		count++;
	return count;
}

static bool is_vector(const struct iocb *r)
{
	return r->aio_lio_opcode == IOCB_CMD_PREADV || r->aio_lio_opcode == IOCB_CMD_PWRITEV;
}

bool sr_aio_reads(const struct iocb *r)
{
	return r->aio_lio_opcode == IOCB_CMD_PREAD || r->aio_lio_opcode == IOCB_CMD_PREADV;
}

bool sr_aio_writes(const struct iocb *r)
{
	return r->aio_lio_opcode == IOCB_CMD_PWRITE || r->aio_lio_opcode == IOCB_CMD_PWRITEV;
}

const struct iovec *sr_aio_pieces(const struct iocb *r, struct iovec *one, size_t *n)
{
	const struct iovec *list = (const struct iovec *)(uintptr_t)r->aio_buf;

	*n = 0;
	if (!sr_aio_reads(r) && !sr_aio_writes(r))
		return NULL;
	if (!is_vector(r)) {
		*one = (struct iovec){(void *)list, r->aio_nbytes};
		*n = 1;
		return one;
	}
	return sr_pieces_list(list, r->aio_nbytes, n);
}

/* ---------------------------------------------------------------- contexts */

static struct sr_map contexts; /* by the program's number: the kernel's */

/* A number that the shim does not know is left to the kernel. */
static uint64_t real_context(uint64_t aio)
{
	void *real = aio ? sr_map_get(&contexts, aio) : NULL;

	return real ? (uintptr_t)real : aio;
}

/* The call with the kernel's number of the context. */
static uint64_t make(const struct sr_call_desc *d, const uint64_t *a)
{
	uint64_t words[SR_MAX_ARGS];

	memcpy(words, a, d->nargs * sizeof(words[0]));
	words[0] = real_context(a[0]);
	return sr_call_number(d) == SR_CALL_io_pgetevents ? sr_invoke_masked(d, words) : sr_real(d, words);
}

static uint64_t failed(int error)
{
	errno = error;
	return (uint64_t)-1;
}

uint64_t sr_invoke_io_setup(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t *place = (uint64_t *)a[1], real = 0;
	uint64_t words[2] = {a[0], (uintptr_t)&real};
	struct sr_aio_context *context;
	void *old;

	if (!sr_is_readable(place, sizeof(*place)))
		return failed(EFAULT);
	if (*place)
		return failed(EINVAL);
	/* In the arena of the verbs libraries, as all objects that the program finds by their address. */
	context = calloc(1, sizeof(*context));
	if (!context)
		return failed(ENOMEM);
	if (sr_real(d, words)) {
		free(context);
		return (uint64_t)-1;
	}
	sr_map_put(&contexts, (uintptr_t)context, (void *)real, &old);
	*place = (uintptr_t)context;
	return 0;
}

/* ---------------------------------------------------- requests that have not ended */

/* A read, or a write to a file.  The program may use the request again, and the list, as soon as another thread has its event. */
struct flight {
	struct flight *next;
	uint64_t context, request;
	bool writes;
	/* Recording, of a write: to this file. */
	dev_t device;
	ino_t inode;
	/* Replay, of a write. */
	int kept; /* a duplicate of its descriptor, or -1 */
	long offset, flags;
	/* In a recording only those of reads. */
	size_t n;
	struct iovec pieces[];
};

#define BUCKETS 256

static struct flight *flights[BUCKETS]; /* by their requests */
static struct sr_lock lock;

static struct flight **bucket_of(uint64_t request)
{
	return &flights[sr_map_hash(request) % BUCKETS];
}

/* NULL: no memory, or it is of no memory. */
static struct flight *new_flight(uint64_t context, const struct iocb *request)
{
	struct iovec one;
	size_t n;
	const struct iovec *pieces = sr_aio_pieces(request, &one, &n);
	struct flight *f = n ? sr_alloc(sizeof(*f) + n * sizeof(one)) : NULL;

	if (!f)
		return NULL;
	*f = (struct flight){.context = context, .request = (uintptr_t)request, .kept = -1, .n = n};
	memcpy(f->pieces, pieces, n * sizeof(one));
	return f;
}

static void join(struct flight *f)
{
	struct flight **bucket = bucket_of(f->request);

	sr_lock(&lock);
	f->next = *bucket;
	*bucket = f;
	sr_unlock(&lock);
}

static void begin_read(uint64_t context, const struct iocb *request)
{
	struct flight *f = new_flight(context, request);

	if (!f)
		return;
	sr_pieces_expect(f->pieces, f->n);
	join(f);
}

static void begin_write(uint64_t context, const struct iocb *request)
{
	struct flight *f;
	struct stat st;

	if (sr_sys_fstat((int)request->aio_fildes, &st) || !S_ISREG(st.st_mode) || !(f = new_flight(context, request)))
		return;
	f->writes = true;
	f->device = st.st_dev;
	f->inode = st.st_ino;
	f->n = 0;
	join(f);
}

static void begin_flight(uint64_t context, const struct iocb *request)
{
	if (sr_aio_reads(request))
		begin_read(context, request);
	else if (sr_aio_writes(request))
		begin_write(context, request);
}

/* NULL if it is neither a read nor a write to a file. */
static struct flight *end_flight(uint64_t context, uint64_t request)
{
	struct flight *f, **at = bucket_of(request);

	sr_lock(&lock);
	while (*at && ((*at)->context != context || (*at)->request != request))
		at = &(*at)->next;
	f = *at;
	if (f)
		*at = f->next;
	sr_unlock(&lock);
	return f;
}

/*
 * A replay writes when the program is given the event.  Where the recorder copies the file meanwhile, since a child has changed
 * it, that must come behind the copy, which may lack the bytes: so the event is given by a thread that holds the file.
 */
static void end_recorded(struct flight *f, int64_t result)
{
	if (f->writes) {
		sr_files_hold_many(&sr_self);
		sr_file_hold(&sr_self, f->device, f->inode);
	}
	if (result > 0)
		sr_pieces_have_landed(f->pieces, f->n, (uint64_t)result);
	sr_free(f);
}

static void take_events(uint64_t context, const struct io_event *events, long n)
{
	for (long i = 0; i < n; i++) {
		struct flight *f = end_flight(context, events[i].obj);

		if (f)
			end_recorded(f, events[i].res);
	}
}

#define ANY UINT64_MAX

static struct flight *next_of(uint64_t context)
{
	struct flight *f = NULL, **at;

	sr_lock(&lock);
	for (size_t i = 0; i < BUCKETS && !f; i++) {
		for (at = &flights[i]; *at && context != ANY && (*at)->context != context; at = &(*at)->next)
			;
		f = *at;
		if (f)
			*at = f->next;
	}
	sr_unlock(&lock);
	return f;
}

/* ------------------------------------------------------------------- calls */

/* The kernel reads the requests and what is written, and begins to write what is read. */
static void pin_requests(struct iocb *const *list, size_t n, struct sr_pinned *p)
{
	const struct iovec *pieces;
	struct iovec one;
	size_t count;

	sr_regions_pin_more(p, list, n * sizeof(*list));
	for (size_t i = 0; i < n; i++) {
		sr_regions_pin_more(p, list[i], sizeof(**list));
		pieces = sr_aio_pieces(list[i], &one, &count);
		if (is_vector(list[i]))
			sr_regions_pin_more(p, pieces, count * sizeof(one));
		for (size_t k = 0; k < count; k++)
			sr_regions_pin_more(p, pieces[k].iov_base, pieces[k].iov_len);
	}
}

static uint64_t submit(const struct sr_call_desc *d, uint64_t *a, size_t n)
{
	struct sr_pinned pinned;
	uint64_t result;

	if (!sr_regions_on)
		return make(d, a);
	sr_regions_pin_none(&pinned);
	pin_requests((struct iocb *const *)a[2], n, &pinned);
	result = make(d, a);
	sr_regions_unpin(&pinned);
	return result;
}

uint64_t sr_invoke_io_submit(const struct sr_call_desc *d, uint64_t *a)
{
	struct iocb *const *list = (struct iocb *const *)a[2];
	size_t n = sr_aio_readable(list, (long)a[1]), accepted;
	uint64_t result;
	int error;

	/* Before the call, since another thread may have their events before it returns. */
	for (size_t i = 0; i < n; i++)
		begin_flight(a[0], list[i]);
	result = submit(d, a, n);
	error = errno;
	accepted = (int64_t)result > 0 ? result : 0;
	for (size_t i = accepted; i < n; i++)
		sr_free(end_flight(a[0], (uintptr_t)list[i]));
	errno = error;
	return result;
}

uint64_t sr_invoke_io_getevents(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result;
	int error;

	sr_received_none(&sr_self.received);
	result = make(d, a);
	error = errno;
	take_events(a[0], (const struct io_event *)a[3], (int64_t)result > 0 ? (long)result : 0);
	errno = error;
	return result;
}

uint64_t sr_invoke_io_cancel(const struct sr_call_desc *d, uint64_t *a)
{
	return make(d, a);
}

/* The kernel waits for all requests first, so their reads have brought what they could. */
uint64_t sr_invoke_io_destroy(const struct sr_call_desc *d, uint64_t *a)
{
	struct flight *f;

	sr_received_none(&sr_self.received);
	if (make(d, a))
		return (uint64_t)-1;
	while ((f = next_of(a[0])))
		end_recorded(f, INT64_MAX);
	if (sr_map_take(&contexts, a[0]))
		free((void *)a[0]);
	return 0;
}

/* ------------------------------------------------------------------ replay */

/* The program may close the descriptor before the write has ended. */
static void note_write(uint64_t context, const struct iocb *r)
{
	const int fd = (int)r->aio_fildes;
	struct flight *f = sr_fd_captured(fd) ? NULL : new_flight(context, r);

	if (!f)
		return;
	f->writes = true;
	f->kept = sr_fd_keep(fd);
	f->offset = r->aio_offset;
	f->flags = r->aio_rw_flags & RWF_APPEND;
	join(f);
}

static void expect_read(const struct iocb *r)
{
	struct iovec one;
	size_t n;
	const struct iovec *pieces = sr_aio_pieces(r, &one, &n);

	sr_pieces_expect(pieces, n);
}

static void write_again(struct flight *f, size_t bytes)
{
	sr_pieces_write_again(f->kept, f->pieces, f->n, bytes, f->offset, f->flags);
	if (f->kept >= 0)
		sr_sys_close(f->kept);
	sr_free(f);
}

void sr_replayed_io_submit(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct iocb *const *list = (struct iocb *const *)a[2];

	for (int64_t i = 0; i < (int64_t)result; i++) {
		if (sr_aio_writes(list[i]))
			note_write(a[0], list[i]);
		else
			expect_read(list[i]);
		list[i]->aio_key = 0; /* as the kernel does */
	}
}

void sr_replayed_io_getevents(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	const struct io_event *events = (const struct io_event *)a[3];

	for (int64_t i = 0; i < (int64_t)result; i++) {
		struct flight *f = end_flight(a[0], events[i].obj);

		if (f)
			write_again(f, events[i].res > 0 ? (size_t)events[i].res : 0);
	}
}

static void write_all_again(uint64_t context)
{
	struct flight *f;

	while ((f = next_of(context)))
		write_again(f, sr_iov_bytes(f->pieces, f->n));
}

void sr_replayed_io_destroy(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (!result)
		write_all_again(a[0]);
}

/* The kernel waits for them when the process ends. */
void sr_aio_ends(void)
{
	if (sr_engine_is_active() && sr_engine->replays && !sr_self.depth)
		write_all_again(ANY);
}
