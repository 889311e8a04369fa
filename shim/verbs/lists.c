/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/lists.h"

#include <string.h>
#include <sys/socket.h>

#include "logd/base/page.h"
#include "shim/core/order.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"

/* The kernel accepts no more in one call. */
#define PIECES_MOST 1024

/* What is left of the memory that the shim's lists are in.  Another thread may have registered memory since it was measured. */
struct room {
	struct iovec *pieces;
	size_t spare; /* so many more pieces than the program's lists have */
	char *data; /* NULL: outputs are loaded, not copied */
	size_t left;
};

/* The shim must not fault where the kernel would return EFAULT. */
static bool is_list(const void *list, size_t n, size_t size)
{
	return list && n && n <= PIECES_MOST && sr_is_readable(list, n * size);
}

static bool any_exposed(const struct iovec *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sr_lent_is_exposed(pieces[i].iov_base, pieces[i].iov_len))
			return true;
	return false;
}

static bool is_loaded(const struct sr_pinned *p, const struct iovec *piece)
{
	return p->outputs && sr_lent_is_exposed(piece->iov_base, piece->iov_len) && sr_is_readable(piece->iov_base, piece->iov_len);
}

/* ------------------------------------------------------------- pieces that lie on both kinds of pages */

/* How much of it lies on pages that are all exposed, or all not. */
static size_t run_of(const struct iovec *piece)
{
	const uintptr_t begin = (uintptr_t)piece->iov_base, end = begin + piece->iov_len;
	const bool exposed = sr_exposed_touches(piece->iov_base, 1);
	uintptr_t at = sr_page_down(begin) + PAGE;

	while (at < end && sr_exposed_touches((void *)at, 1) == exposed)
		at += PAGE;
	return (at < end ? at : end) - begin;
}

static size_t count_runs(struct iovec piece)
{
	size_t n = 1, run;

	if (!sr_threaded || !sr_lent_is_exposed(piece.iov_base, piece.iov_len))
		return 1;
	while ((run = run_of(&piece)) < piece.iov_len) {
		piece = (struct iovec){(char *)piece.iov_base + run, piece.iov_len - run};
		n++;
	}
	return n;
}

/* How many pieces they become more.  0 if the kernel does not accept so many: each stays one. */
static size_t count_more(const struct iovec *pieces, size_t n)
{
	size_t all = 0;

	for (size_t i = 0; i < n && all <= PIECES_MOST; i++)
		all += count_runs(pieces[i]);
	return all <= PIECES_MOST ? all - n : 0;
}

/* --------------------------------------------------------------------- the shim's lists */

static void add_piece(struct sr_pinned *p, struct room *r, struct iovec piece)
{
	uint64_t address = (uintptr_t)piece.iov_base;

	sr_lend(p, &address, piece.iov_len);
	*r->pieces++ = (struct iovec){(void *)address, piece.iov_len};
}

/* By the runs that it has, or as a whole. */
static void add_runs(struct sr_pinned *p, struct room *r, struct iovec piece)
{
	size_t more = r->spare ? count_runs(piece) - 1 : 0;

	if (more > r->spare)
		more = 0;
	r->spare -= more;
	for (size_t run; more--; piece = (struct iovec){(char *)piece.iov_base + run, piece.iov_len - run}) {
		run = run_of(&piece);
		add_piece(p, r, (struct iovec){piece.iov_base, run});
	}
	add_piece(p, r, piece);
}

/*
 * The program knows from then on what it has output, although it has not looked at it; and the kernel gets just that, whatever
 * peers write meanwhile.  What does not fit is lent.
 */
static bool copy_output(const struct sr_pinned *p, struct room *r, const struct iovec *piece)
{
	char *to = r->data && piece->iov_len <= r->left ? r->data : NULL;

	if (!is_loaded(p, piece))
		return false;
	sr_exposed_load(piece->iov_base, to, piece->iov_len);
	if (!to)
		return false;
	*r->pieces++ = (struct iovec){to, piece->iov_len};
	r->data += piece->iov_len;
	r->left -= piece->iov_len;
	return true;
}

/* Returns how many there are in the shim's list. */
static size_t add_all(struct sr_pinned *p, struct room *r, const struct iovec *pieces, size_t n)
{
	const struct iovec *const first = r->pieces;

	for (size_t i = 0; i < n; i++)
		if (!copy_output(p, r, &pieces[i]))
			add_runs(p, r, pieces[i]);
	return (size_t)(r->pieces - first);
}

static size_t bytes_to_copy(const struct sr_pinned *p, const struct iovec *pieces, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		if (is_loaded(p, &pieces[i]))
			bytes += pieces[i].iov_len;
	return bytes;
}

/* Memory for so many bytes in front, so many pieces and more, and copies.  NULL: there is none. */
static char *make_room(struct room *r, size_t front, size_t pieces, size_t more, size_t bytes)
{
	const size_t copied = bytes <= SR_LENT_COPY_MOST ? bytes : 0, listed = pieces + more;
	char *memory = sr_alloc(front + listed * sizeof(struct iovec) + copied);

	if (!memory)
		return NULL;
	r->pieces = (struct iovec *)(memory + front);
	r->spare = more;
	r->data = copied ? (char *)(r->pieces + listed) : NULL;
	r->left = copied;
	return memory;
}

static void replace(struct sr_pinned *p, uint64_t *argument, char *memory)
{
	p->list = (struct sr_list_copy){.memory = memory, .argument = argument, .real = *argument};
	*argument = (uintptr_t)memory;
}

void sr_lists_in_place(struct sr_pinned *p, const struct iovec *pieces, size_t n)
{
	if (!is_list(pieces, n, sizeof(*pieces)))
		return;
	sr_lend_in_place(p, pieces, n * sizeof(*pieces));
	for (size_t i = 0; i < n; i++)
		sr_lend_in_place(p, pieces[i].iov_base, pieces[i].iov_len);
}

void sr_lists_of_pieces(struct sr_pinned *p, uint64_t list[2])
{
	const struct iovec *pieces = (const struct iovec *)list[0];
	const size_t n = list[1];
	struct room r;
	char *memory;

	if (!is_list(pieces, n, sizeof(*pieces)) || !(sr_lent_is_exposed(pieces, n * sizeof(*pieces)) || any_exposed(pieces, n)))
		return;
	memory = make_room(&r, 0, n, count_more(pieces, n), bytes_to_copy(p, pieces, n));
	if (!memory) {
		sr_lists_in_place(p, pieces, n);
		return;
	}
	replace(p, &list[0], memory);
	p->list.counted = true;
	p->list.count = list[1];
	list[1] = add_all(p, &r, pieces, n);
}

/* --------------------------------------------------------------------------- messages */

static bool has_pieces(const struct msghdr *m)
{
	return is_list(m->msg_iov, m->msg_iovlen, sizeof(*m->msg_iov));
}

static bool is_message_exposed(const struct msghdr *m)
{
	return sr_lent_is_exposed(m->msg_name, m->msg_namelen) || sr_lent_is_exposed(m->msg_control, m->msg_controllen) ||
	       sr_lent_is_exposed(m->msg_iov, m->msg_iovlen * sizeof(*m->msg_iov)) ||
	       (has_pieces(m) && any_exposed(m->msg_iov, m->msg_iovlen));
}

static struct msghdr *nth(uint64_t first, size_t i, size_t size)
{
	return (struct msghdr *)(first + i * size);
}

/* Of the copy of a header. */
static void lend_message(struct sr_pinned *p, struct room *r, struct msghdr *m)
{
	uint64_t name = (uintptr_t)m->msg_name, control = (uintptr_t)m->msg_control;
	const struct iovec *pieces = m->msg_iov;

	sr_lend(p, &name, m->msg_namelen);
	sr_lend(p, &control, m->msg_controllen);
	m->msg_name = (void *)name;
	m->msg_control = (void *)control;
	if (!has_pieces(m))
		return;
	m->msg_iov = r->pieces;
	m->msg_iovlen = add_all(p, r, pieces, m->msg_iovlen);
}

static void message_in_place(struct sr_pinned *p, const struct msghdr *m, size_t size)
{
	sr_lend_in_place(p, m, size);
	sr_lend_in_place(p, m->msg_name, m->msg_namelen);
	sr_lend_in_place(p, m->msg_control, m->msg_controllen);
	sr_lists_in_place(p, m->msg_iov, m->msg_iovlen);
}

/* size: of each; struct mmsghdr begins with a struct msghdr. */
static void lend_messages(struct sr_pinned *p, uint64_t *list, size_t n, size_t size)
{
	size_t pieces = 0, more = 0, bytes = 0;
	bool exposed = sr_lent_is_exposed((const void *)*list, n * size);
	struct room r;
	char *memory;

	for (size_t i = 0; i < n; i++) {
		const struct msghdr *m = nth(*list, i, size);

		exposed |= is_message_exposed(m);
		if (!has_pieces(m))
			continue;
		pieces += m->msg_iovlen;
		more += count_more(m->msg_iov, m->msg_iovlen);
		bytes += bytes_to_copy(p, m->msg_iov, m->msg_iovlen);
	}
	memory = exposed ? make_room(&r, n * size, pieces, more, bytes) : NULL;
	if (exposed && !memory)
		for (size_t i = 0; i < n; i++)
			message_in_place(p, nth(*list, i, size), size);
	if (!memory)
		return;
	memcpy(memory, (const void *)*list, n * size);
	replace(p, list, memory);
	p->list.messages = n;
	p->list.size = size;
	for (size_t i = 0; i < n; i++)
		lend_message(p, &r, nth(*list, i, size));
}

void sr_lists_of_message(struct sr_pinned *p, uint64_t *message)
{
	if (is_list((const void *)*message, 1, sizeof(struct msghdr)))
		lend_messages(p, message, 1, sizeof(struct msghdr));
}

void sr_lists_of_messages(struct sr_pinned *p, uint64_t list[2])
{
	if (is_list((const void *)list[0], list[1], sizeof(struct mmsghdr)))
		lend_messages(p, &list[0], list[1], sizeof(struct mmsghdr));
}

/* Only what the kernel has changed: the header of what is sent may lie in memory that cannot be written. */
static void put_result(const struct sr_pinned *p, void *to, const void *now, size_t n)
{
	char before[sizeof(uint64_t)];

	sr_exposed_copy(to, before, n);
	if (!memcmp(before, now, n))
		return;
	sr_exposed_put(to, now, n);
	sr_lent_was_written(p, to, n);
}

static void put_results(const struct sr_pinned *p, struct msghdr *to, const struct msghdr *now, bool counted)
{
	put_result(p, &to->msg_namelen, &now->msg_namelen, sizeof(now->msg_namelen));
	put_result(p, &to->msg_controllen, &now->msg_controllen, sizeof(now->msg_controllen));
	put_result(p, &to->msg_flags, &now->msg_flags, sizeof(now->msg_flags));
	if (counted)
		put_result(p, &((struct mmsghdr *)to)->msg_len, &((const struct mmsghdr *)now)->msg_len,
			   sizeof(((const struct mmsghdr *)now)->msg_len));
}

void sr_lists_end(struct sr_pinned *p)
{
	struct sr_list_copy *c = &p->list;

	for (size_t i = 0; i < c->messages; i++)
		put_results(p, nth(c->real, i, c->size), nth((uintptr_t)c->memory, i, c->size), c->size > sizeof(struct msghdr));
	c->argument[0] = c->real;
	if (c->counted)
		c->argument[1] = c->count;
	sr_free(c->memory);
	c->memory = NULL;
}
