/* SPDX-License-Identifier: BSD-2-Clause */
/* custom.c: plain data, sockets, lists of addresses, and signals. */
#include "logd/base/iov.h"
#include "shim/core/sums.h"
#include "shim/calls/codec/custom.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/files/private.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/un.h>

#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/threads/unrecorded.h"
#include "shim/verbs/regions.h"

#define FIRST_CAPACITY 4096

bool sr_buf_grow(struct sr_buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : FIRST_CAPACITY;
	uint8_t *p;

	while (cap - b->len < n)
		cap *= 2;
	p = sr_alloc(cap);
	if (!p)
		return false;
	if (b->len)
		memcpy(p, b->p, b->len);
	sr_free(b->p);
	b->p = p;
	b->cap = cap;
	return true;
}

/* ------------------------------------------------------------- plain data */

void sr_put_checksum(struct sr_buf *b, const void *p, size_t n)
{
	sr_put_u64(b, p && n ? sr_regions_checksum(p, n, 0) : 0);
}

void sr_put_readable_checksum(struct sr_buf *b, const void *p, size_t n)
{
	/* With unreadable memory, the kernel refuses the call or uses the readable part. */
	sr_put_checksum(b, sr_is_readable(p, n) ? p : NULL, n);
}

static void put_summed(struct sr_buf *b, uint64_t checksum)
{
	size_t at = b->len;

	sr_put_u64(b, checksum);
	if (!sr_sums_take())
		return;
	sr_sums_keep(b, at);
	sr_sums_sent(checksum);
	b->len = at;
	sr_put_u64(b, 0);
}

void sr_put_buf_list_checksum(struct sr_buf *b, const struct ibv_data_buf *list, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum = sr_regions_checksum(list[i].addr, list[i].length, sum);
	put_summed(b, sum);
}

void sr_put_inline_checksum(struct sr_buf *b, const void *p, size_t n)
{
	put_summed(b, p && n ? sr_regions_checksum(p, n, 0) : 0);
}

void sr_put_data(struct sr_buf *b, const void *p, size_t n)
{
	sr_put_bytes(b, p, n);
}

void sr_deliver_data(struct sr_cursor *c, void *p, size_t n)
{
	struct sr_bytes v = sr_get_bytes(c);

	if (v.n > n) {
		c->bad = true;
		return;
	}
	if (p)
		memcpy(p, v.p, v.n);
}

void sr_put_iov_room(struct sr_buf *b, const struct iovec *iov, size_t count)
{
	sr_put_u64(b, sr_iov_bytes(iov, count));
}

void sr_put_iov_checksum(struct sr_buf *b, const struct iovec *iov, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (sr_is_readable(iov[i].iov_base, iov[i].iov_len))
			sum = sr_regions_checksum(iov[i].iov_base, iov[i].iov_len, sum);
	sr_put_u64(b, sum);
}

void sr_put_iov_data(struct sr_buf *b, const struct iovec *iov, size_t count, size_t n)
{
	size_t room = sr_iov_bytes(iov, count), piece;

	if (n > room)
		n = room;
	sr_put_u32(b, (uint32_t)n);
	for (; n; n -= piece, iov++) {
		piece = iov->iov_len < n ? iov->iov_len : n;
		sr_put_raw(b, iov->iov_base, piece);
	}
}

void sr_scatter(struct sr_cursor *c, struct sr_bytes v, const struct iovec *iov, size_t count)
{
	const char *from = v.p;
	size_t left = v.n, piece;

	if (left > sr_iov_bytes(iov, count)) {
		c->bad = true;
		return;
	}
	for (; left; left -= piece, from += piece, iov++) {
		piece = iov->iov_len < left ? iov->iov_len : left;
		memcpy(iov->iov_base, from, piece);
	}
}

void sr_deliver_iov_data(struct sr_cursor *c, const struct iovec *iov, size_t count, size_t n)
{
	sr_scatter(c, sr_get_bytes(c), iov, count);
}

/* A text in exposed memory is loaded as in the recording, so only what has been put is looked at once more. */
void sr_put_text(struct sr_buf *b, const char *s)
{
	const size_t n = s ? strlen(s) : 0;

	sr_put_bytes(b, s, n);
	if (sr_ids_differ)
		sr_put_recorded_ids(b, n);
}

void sr_put_opened_file(struct sr_buf *b, const struct sr_opened_file *f)
{
	const struct sr_wire_opened_file v = {
	    .class = f->class,
	    .key = f->key,
	    .note = f->note,
	    .own = f->own,
	    .shared = f->shared,
	    .size = f->size,
	    .path = {f->path, (uint32_t)strlen(f->path)},
	};

	sr_put_opened_file_fields(b, &v);
}

void sr_deliver_opened_file(struct sr_cursor *c, struct sr_opened_file *f)
{
	struct sr_wire_opened_file v;

	sr_get_opened_file_fields(c, &v);
	*f = (struct sr_opened_file){
	    .class = v.class, .key = v.key, .note = v.note, .own = v.own, .shared = v.shared, .size = v.size};
	if (v.path.n < sizeof(f->path))
		memcpy(f->path, v.path.p, v.path.n);
}

/* struct passed_file of calls.def */
void sr_put_passed_files(struct sr_buf *b, const struct sr_passed_files *files)
{
	sr_put_u32(b, files->n);
	for (uint32_t i = 0; i < files->n; i++) {
		const struct sr_passed_file *p = &files->list[i];

		sr_put_u32(b, (uint32_t)p->fd);
		sr_put_u32(b, (uint32_t)p->same);
		sr_put_u64(b, (uint64_t)p->position);
		sr_put_u32(b, p->flags);
		sr_put_opened_file(b, &p->file);
	}
}

void sr_deliver_passed_files(struct sr_cursor *c, struct sr_passed_files *files)
{
	files->n = 0;
	for (uint32_t n = sr_get_u32(c); n && !c->bad; n--) {
		struct sr_passed_file *p = sr_new_passed_file();

		if (!p) {
			c->bad = true;
			return;
		}
		p->fd = (int32_t)sr_get_u32(c);
		p->same = (int32_t)sr_get_u32(c);
		p->position = (int64_t)sr_get_u64(c);
		p->flags = sr_get_u32(c);
		sr_deliver_opened_file(c, &p->file);
	}
}

void sr_put_changed_files(struct sr_buf *b, bool ended)
{
	struct sr_list l = sr_list_begin(b);
	struct sr_opened_file f;
	uint32_t from = 0;

	for (; ended && sr_files_next_changed(&from, &f); l.n++)
		sr_put_opened_file(b, &f);
	if (ended)
		sr_files_child_ended();
	sr_list_end(&l);
}

void sr_deliver_changed_files(struct sr_cursor *c, bool ended)
{
	struct sr_opened_file f;

	for (uint32_t n = sr_get_u32(c); n && !c->bad; n--) {
		sr_deliver_opened_file(c, &f);
		sr_private_refresh(&f);
	}
}

void sr_put_locked_file(struct sr_buf *b, int fd)
{
	sr_put_u8(b, sr_fd_captured(fd));
}

void sr_deliver_locked_file(struct sr_cursor *c, int fd)
{
	if (sr_get_u8(c))
		sr_fd_capture_file(fd);
}

void sr_place_object(struct sr_cursor *c, void *p, size_t size)
{
	struct sr_bytes v = sr_get_bytes(c);

	if (!v.n || !p)
		return;
	/* An object outside the arena is the program's own struct. */
	if (v.n != size || (sr_heap_in_library_arena(p, 1) && !sr_heap_in_library_arena(p, size))) {
		c->bad = true;
		return;
	}
	memcpy(p, v.p, v.n);
}

/* ---------------------------------------------------------------- sockets */

/*
 * The kernel reads only some members of an address.  The rest may be uninitialised memory and must
 * not be compared.
 */
void sr_put_sockaddr(struct sr_buf *b, const void *p, socklen_t n)
{
	struct sockaddr_in in = {0};
	struct sockaddr_un un = {0};
	sa_family_t family = 0;
	size_t path = offsetof(struct sockaddr_un, sun_path);

	if (p && n >= sizeof(family))
		memcpy(&family, p, sizeof(family));
	if (family == AF_INET && n >= sizeof(in)) {
		memcpy(&in, p, offsetof(struct sockaddr_in, sin_zero));
		sr_put_bytes(b, &in, sizeof(in));
	} else if (family == AF_UNIX && n > path && n <= sizeof(un) && ((const char *)p)[path]) {
		memcpy(&un, p, path + strnlen((const char *)p + path, n - path));
		sr_put_bytes(b, &un, n);
	} else {
		sr_put_bytes(b, p, n);
	}
}

void sr_put_option(struct sr_buf *b, const void *p, socklen_t n)
{
	sr_put_bytes(b, p, n);
}

void sr_put_sockaddr_room(struct sr_buf *b, const socklen_t *n)
{
	/* The call overwrites it with the true length of the address. */
	b->room = n ? *n : 0;
	sr_put_u32(b, b->room);
}

void sr_put_sockaddr_out(struct sr_buf *b, const void *p, const socklen_t *n)
{
	socklen_t length = n ? *n : 0;
	struct sr_wire_sockaddr v = {length, {p, p ? length < b->room ? length : b->room : 0}};

	sr_put_sockaddr_fields(b, &v);
}

void sr_deliver_sockaddr_out(struct sr_cursor *c, void *p, socklen_t *n)
{
	struct sr_wire_sockaddr v;

	sr_get_sockaddr_fields(c, &v);
	if (!n)
		return;
	if (v.data.n > *n) {
		c->bad = true;
		return;
	}
	if (p)
		memcpy(p, v.data.p, v.data.n);
	*n = v.length;
}

void sr_put_pollfds(struct sr_buf *b, const struct pollfd *fds, size_t n)
{
	sr_put_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		/* revents is not an argument */
		sr_put_pollfd(b, &(struct pollfd){.fd = fds[i].fd, .events = fds[i].events});
}

void sr_put_pollfds_out(struct sr_buf *b, const struct pollfd *fds, size_t n)
{
	sr_put_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		sr_put_pollfd(b, &fds[i]);
}

void sr_deliver_pollfds_out(struct sr_cursor *c, struct pollfd *fds, size_t n)
{
	if (sr_get_u32(c) != n) {
		c->bad = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		sr_get_pollfd(c, &fds[i]);
}

/* ---------------------------------------------------------------- signals */

/* The kernel's set: a bit for each signal. */
static uint64_t bits_of(const sigset_t *set)
{
	uint64_t bits;

	memcpy(&bits, set, sizeof(bits));
	return bits;
}

void sr_put_signal_set(struct sr_buf *b, const sigset_t *set)
{
	sr_put_u64(b, bits_of(set));
}

void sr_deliver_signal_set(struct sr_cursor *c, sigset_t *set)
{
	uint64_t bits = sr_get_u64(c);

	memcpy(set, &bits, sizeof(bits));
}

void sr_put_signal_action(struct sr_buf *b, const struct sigaction *a)
{
	/* struct signal_action of calls.def, its handler by its place */
	sr_put_at(b, a->sa_handler);
	sr_put_u32(b, (uint32_t)a->sa_flags);
	sr_put_signal_set(b, &a->sa_mask);
}

void sr_deliver_signal_action(struct sr_cursor *c, struct sigaction *a)
{
	struct sr_wire_signal_action v;

	sr_get_signal_action_fields(c, &v);
	a->sa_handler = (__sighandler_t)v.handler;
	a->sa_flags = (int)v.flags;
	memcpy(&a->sa_mask, &v.mask, sizeof(v.mask));
}

void sr_put_timer_event(struct sr_buf *b, const struct sigevent *event)
{
	struct sr_wire_timer_event v = {
	    .notify = event->sigev_notify,
	    .signo = event->sigev_signo,
	    .value = (uintptr_t)event->sigev_value.sival_ptr,
	};

	/* No wrapper and no trap sees how libc makes that. */
	if (event->sigev_notify == SIGEV_THREAD)
		sr_thread_is_unrecorded(SR_UNRECORDED_EVENT);
	sr_put_timer_event_fields(b, &v);
}
