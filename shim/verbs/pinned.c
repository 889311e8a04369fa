/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pinned.c: makes exposed memory that a call gets as an argument accessible to the kernel or
 * library for the duration of the call.
 */
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>

#include "logd/base/checksum.h"
#include "logd/base/rawsys.h"
#include "shim/kernel/readable.h"
#include "shim/core/call_stack.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/* Upper limits of the bytes behind a pointer: to a path, to an array element. */
#define TEXT_BYTES   4096
#define THING_BYTES  16
/* Beyond, two copies of it would cost more than the faults of a page that is passed through. */
#define BOUNCE_LIMIT (1ul << 20)
/* The kernel accepts no more in one call. */
#define PIECES_LIMIT 1024
#define LENGTH_LIMIT (1ul << 40)

static bool has_room(struct sr_pinned *p)
{
	struct iovec *more;

	if (p->n < p->room)
		return true;
	more = sr_alloc(2 * p->room * sizeof(*more));
	if (!more)
		return false;
	memcpy(more, p->pieces, p->n * sizeof(*more));
	if (p->pieces != p->few)
		sr_free(p->pieces);
	p->pieces = more;
	p->room *= 2;
	return true;
}

/*
 * With --order, what loads find in registered memory is left out as what members have sent.  What a call puts there is not that, and
 * no store of the program's either.
 */
static bool may_be_left_out(const struct sr_pinned *p, const void *addr, size_t length)
{
	return sr_leaves_out && !p->outputs && !sr_exposed_is_in_no_region(addr, length);
}

/* A peer may READ it before the call ends. */
static void call_may_write(const struct sr_pinned *p, const void *addr, size_t length)
{
	if (may_be_left_out(p, addr, length))
		sr_clocks_unwatched();
}

static void call_has_written(const struct sr_pinned *p, const void *addr, size_t length)
{
	if (may_be_left_out(p, addr, length) && sr_exposed_has_news(addr, length))
		sr_exposed_keep_values(addr, length);
}

/* An alias leaves the page protected; other threads would notice if it were not. */
static bool alias(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	void *addr = sr_exposed_alias((void *)*argument, length);

	if (!addr)
		return false;
	call_may_write(p, (void *)*argument, length);
	p->pieces[p->n++] = (struct iovec){addr, length};
	*argument = (uintptr_t)addr;
	return true;
}

/*
 * Of a range that lies on exposed pages and on others there is no alias.  If it were pinned while the call waits, what
 * peers write into its pages would come to other threads unseen.  So the call is given a copy, and what it has changed
 * there is copied back when it ends.
 */
static bool bounce(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	struct sr_bounce *b = &p->bounce;

	if (!p->blocks || b->copy || length > BOUNCE_LIMIT || !sr_threaded ||
	    !sr_is_readable((const void *)*argument, length))
		return false;
	b->copy = sr_alloc(2 * length);
	if (!b->copy)
		return false;
	b->before = b->copy + length;
	b->length = length;
	b->argument = argument;
	b->addr = (void *)*argument;
	call_may_write(p, b->addr, length);
	sr_exposed_copy(b->addr, b->before, length);
	memcpy(b->copy, b->before, length);
	*argument = (uintptr_t)b->copy;
	return true;
}

/* Where the call wrote the same as before, nothing need be copied; beside, peers may have written meanwhile. */
static void end_bounce(const struct sr_pinned *p, struct sr_bounce *b)
{
	size_t from = 0, to;

	for (; from < b->length; from = to) {
		if (b->copy[from] == b->before[from]) {
			to = from + 1;
			continue;
		}
		for (to = from + 1; to < b->length && b->copy[to] != b->before[to]; to++)
			;
		sr_exposed_pin((char *)b->addr + from, to - from);
		memcpy((char *)b->addr + from, b->copy + from, to - from);
		call_has_written(p, (char *)b->addr + from, to - from);
		sr_exposed_unpin((char *)b->addr + from, to - from);
	}
	*b->argument = (uintptr_t)b->addr;
	sr_free(b->copy);
	b->copy = NULL;
}

/* ------------------------------------------------------------- what a call outputs */

/*
 * The program knows from then on what it has output, although it has not looked at it; and the kernel gets just that, whatever
 * peers write meanwhile.  So the call is given a copy.  Of what is too long for one the program knows what is there when
 * the call begins.
 */
static void output_copied(struct sr_pinned *p, char *memory, uint64_t *argument)
{
	p->output = (struct sr_output_copy){.memory = memory, .argument = argument, .real = *argument};
	*argument = (uintptr_t)memory;
}

static bool is_loadable(const void *addr, size_t length)
{
	return length < LENGTH_LIMIT && sr_exposed_touches(addr, length) && sr_is_readable(addr, length);
}

static bool copy_output(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	const void *addr = (const void *)*argument;
	char *memory;

	if (!is_loadable(addr, length))
		return false;
	memory = length <= BOUNCE_LIMIT ? sr_alloc(length) : NULL;
	sr_exposed_load(addr, memory, length);
	if (memory)
		output_copied(p, memory, argument);
	return memory;
}

/* How many bytes of these pieces are to be copied; 0: none, or the list cannot be read. */
static size_t bytes_to_copy(const struct iovec *pieces, size_t n)
{
	size_t total = 0;

	if (!pieces || n > PIECES_LIMIT || !sr_is_readable(pieces, n * sizeof(*pieces)))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (is_loadable(pieces[i].iov_base, pieces[i].iov_len))
			total += pieces[i].iov_len;
	return total;
}

/*
 * Loads the pieces of the list, and gives it the addresses of copies in the room; without room they are only loaded.  Another
 * thread may have registered memory since the room was measured: what no longer fits is left as it is.
 */
static void load_pieces(struct iovec *list, size_t n, char *room, size_t left)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_loadable(list[i].iov_base, list[i].iov_len) || (room && list[i].iov_len > left))
			continue;
		sr_exposed_load(list[i].iov_base, room, list[i].iov_len);
		if (!room)
			continue;
		list[i].iov_base = room;
		room += list[i].iov_len;
		left -= list[i].iov_len;
	}
}

/* A list of copies, behind so many bytes for the caller, and in front of the copies.  NULL: there is none. */
static char *copy_pieces(const struct iovec *pieces, size_t n, size_t before)
{
	const size_t total = bytes_to_copy(pieces, n), front = before + n * sizeof(*pieces);
	char *memory = total && total <= BOUNCE_LIMIT ? sr_alloc(front + total) : NULL;

	if (memory) {
		memcpy(memory + before, pieces, n * sizeof(*pieces));
		load_pieces((struct iovec *)(memory + before), n, memory + front, total);
	} else if (total) {
		load_pieces((struct iovec *)pieces, n, NULL, 0);
	}
	return memory;
}

static bool copy_output_pieces(struct sr_pinned *p, uint64_t *argument, size_t n)
{
	char *memory = copy_pieces((const struct iovec *)*argument, n, 0);

	if (memory)
		output_copied(p, memory, argument);
	return memory;
}

static void copy_output_message(struct sr_pinned *p, uint64_t *argument)
{
	const struct msghdr *m = (const struct msghdr *)*argument;
	struct msghdr *copy;

	if (!m || !sr_is_readable(m, sizeof(*m)))
		return;
	copy = (struct msghdr *)copy_pieces(m->msg_iov, m->msg_iovlen, sizeof(*m));
	if (!copy)
		return;
	*copy = *m;
	copy->msg_iov = (struct iovec *)(copy + 1);
	output_copied(p, (char *)copy, argument);
}

static void end_output_copy(struct sr_output_copy *c)
{
	*c->argument = c->real;
	sr_free(c->memory);
	c->memory = NULL;
}

/* ------------------------------------------------------------------------ pinning */

static void pin(struct sr_pinned *p, const void *addr, size_t length)
{
	if (!addr || length >= LENGTH_LIMIT || !sr_exposed_touches(addr, length) || !has_room(p))
		return;
	call_may_write(p, addr, length);
	p->pieces[p->n++] = (struct iovec){(void *)addr, length};
	sr_exposed_pin(addr, length);
}

/* The shim must not fault where the kernel would return EFAULT, so it checks lists first. */
static bool pin_list(struct sr_pinned *p, const void *list, size_t n, size_t size)
{
	if (!list || n > PIECES_LIMIT || !sr_is_readable(list, n * size))
		return false;
	pin(p, list, n * size);
	return true;
}

static void pin_pieces(struct sr_pinned *p, const struct iovec *pieces, size_t n)
{
	if (!pin_list(p, pieces, n, sizeof(*pieces)))
		return;
	for (size_t i = 0; i < n; i++)
		pin(p, pieces[i].iov_base, pieces[i].iov_len);
}

static void pin_message(struct sr_pinned *p, const struct msghdr *m)
{
	if (!pin_list(p, m, 1, sizeof(*m)))
		return;
	pin(p, m->msg_name, m->msg_namelen);
	pin(p, m->msg_control, m->msg_controllen);
	pin_pieces(p, m->msg_iov, m->msg_iovlen);
}

/* The kernel puts lengths into the array, so there can be no other one. */
static void pin_messages(struct sr_pinned *p, const struct mmsghdr *m, size_t n)
{
	if (!pin_list(p, m, n, sizeof(*m)))
		return;
	for (size_t i = 0; i < n; i++) {
		const struct msghdr *one = &m[i].msg_hdr;

		if (p->outputs && bytes_to_copy(one->msg_iov, one->msg_iovlen))
			load_pieces(one->msg_iov, one->msg_iovlen, NULL, 0);
		pin_message(p, one);
	}
}

/* The length of the text, with the final zero, as far as it lies in an exposed region. */
static size_t text_length(const char *text)
{
	char piece[64];
	size_t n = 0, at;

	while (n < TEXT_BYTES && sr_exposed_covers(text + n, 1)) {
		size_t room = sizeof(piece) - (uintptr_t)(text + n) % sizeof(piece);

		sr_exposed_copy(text + n, piece, room);
		at = strnlen(piece, room);
		n += at;
		if (at < room)
			return n + 1;
	}
	return TEXT_BYTES;
}

/* may_copy: it is data, and nobody waits at its address, as at that of a lock. */
static void pin_thing(struct sr_pinned *p, uint64_t *argument, size_t length, bool may_copy)
{
	const void *addr = (const void *)*argument;

	if (!addr || length >= LENGTH_LIMIT || !sr_exposed_touches(addr, length) || !has_room(p))
		return;
	if (p->outputs && may_copy && copy_output(p, argument, length))
		return;
	if (!alias(p, argument, length) && !(may_copy && bounce(p, argument, length)))
		pin(p, addr, length);
}

/*
 * The provider and the recorder write there word by word, and each word of a partially registered page is a fault.  Where
 * registered memory is among it, or a page that is not exposed, these are stores of the program's.
 */
static void pin_completions(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	if (length < LENGTH_LIMIT && sr_exposed_touches((void *)*argument, length) &&
	    sr_exposed_is_in_no_region((void *)*argument, length) && has_room(p))
		alias(p, argument, length);
}

static void pin_argument(struct sr_pinned *p, uint8_t length_of, uint8_t size, uint64_t *a, int i)
{
	const void *addr = (const void *)a[i];

	switch (length_of) {
	case 0:
		break;
	case SR_LENGTH_STRUCT:
		pin_thing(p, &a[i], size ? size : SR_STRUCT_BYTES, false);
		break;
	case SR_LENGTH_TEXT:
		if (addr && sr_exposed_touches(addr, TEXT_BYTES))
			pin_thing(p, &a[i], text_length(addr), false);
		break;
	case SR_LENGTH_PIECES:
		if (!p->outputs || !copy_output_pieces(p, &a[i], a[i + 1]))
			pin_pieces(p, addr, a[i + 1]);
		break;
	case SR_LENGTH_MESSAGE:
		if (p->outputs)
			copy_output_message(p, &a[i]);
		pin_message(p, (const struct msghdr *)a[i]);
		break;
	case SR_LENGTH_MESSAGES:
		pin_messages(p, addr, a[i + 1]);
		break;
	case SR_LENGTH_COMPLETIONS:
		pin_completions(p, &a[i], (size_t)(uint32_t)a[i - 1] * sizeof(struct ibv_wc));
		break;
	default:
		if (length_of > SR_LENGTH_COUNT)
			pin_thing(p, &a[i],
				  (size_t)(uint32_t)a[length_of - SR_LENGTH_COUNT - 1] *
				      (size ? size : THING_BYTES), true);
		else
			pin_thing(p, &a[i], a[length_of - 1], true);
	}
}

void sr_regions_pin_none(struct sr_pinned *p)
{
	p->n = 0;
	p->pieces = p->few;
	p->room = sizeof(p->few) / sizeof(p->few[0]);
	p->arguments = NULL;
	p->arguments_n = 0;
	p->wakes = p->blocks = p->outputs = false;
	p->bounce.copy = NULL;
	p->output.memory = NULL;
}

void sr_regions_pin_more(struct sr_pinned *p, const void *addr, size_t length)
{
	pin(p, addr, length);
}

void sr_regions_pin(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p)
{
	sr_regions_pin_none(p);
	p->arguments = a;
	p->arguments_n = d->nargs;
	p->blocks = d->flags & SR_CALL_BLOCKS;
	p->outputs = d->flags & SR_CALL_OUTPUT;
	p->wakes = d->when == sr_has_threads && !p->blocks;
	for (int i = 0; i < d->nargs; i++)
		pin_argument(p, d->length_of[i], d->size_of[i], a, i);
}

/* The argument that follows a buffer may be its length. */
void sr_regions_pin_words(const uint64_t a[6], struct sr_pinned *p)
{
	sr_regions_pin_none(p);
	for (int i = 0; i < 6; i++)
		pin(p, (const void *)a[i],
		    i < 5 && a[i + 1] > SR_STRUCT_BYTES && a[i + 1] < 1ul << 30 ? a[i + 1]
									      : SR_STRUCT_BYTES);
}

/*
 * The call woke the futex at the alias.  A thread that began to wait before the page was exposed
 * waits at the program's address.
 */
static void wake_at(uintptr_t addr, size_t length)
{
	for (size_t at = 0; at + sizeof(uint32_t) <= length; at += sizeof(uint32_t))
		sr_sys_futex((uint32_t *)(addr + at), FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void end_alias(struct sr_pinned *p, const struct iovec *piece)
{
	uintptr_t addr = (uintptr_t)sr_exposed_unalias(piece->iov_base, piece->iov_len);

	for (uint32_t i = 0; i < p->arguments_n; i++)
		if (p->arguments[i] == (uintptr_t)piece->iov_base)
			p->arguments[i] = addr;
	call_has_written(p, (void *)addr, piece->iov_len);
	if (p->wakes)
		wake_at(addr, piece->iov_len);
}

void sr_regions_unpin(struct sr_pinned *p)
{
	if (p->bounce.copy)
		end_bounce(p, &p->bounce);
	if (p->output.memory)
		end_output_copy(&p->output);
	if (!p->n)
		return;
	while (p->n--) {
		const struct iovec *piece = &p->pieces[p->n];

		if (sr_exposed_is_alias(piece->iov_base)) {
			end_alias(p, piece);
		} else {
			call_has_written(p, piece->iov_base, piece->iov_len);
			sr_exposed_unpin(piece->iov_base, piece->iov_len);
		}
	}
	p->n = 0;
	if (p->pieces != p->few)
		sr_free(p->pieces);
}

/* A wrapper has the arguments in its frame; the trap's are below the signal's frame. */
static uintptr_t programs_stack(const struct sr_call_desc *d, const uint64_t *a)
{
	if (sr_self.raw)
		return sr_self.raw_stack;
	return d->source == SR_SOURCE_SHIM ? UINTPTR_MAX : sr_end_of_callers_stack(&sr_self.signals.stack, (uintptr_t)a);
}

/* On a wrapper's stack, which must not be used meanwhile, it is done on the thread's call stack. */
static void leave_stack(uintptr_t stack, const uint64_t *a)
{
	if (stack != (uintptr_t)a)
		sr_exposed_give_up_stack(stack);
	else if (sr_self.call_stack)
		sr_run_on_stack(sr_self.call_stack, sr_exposed_give_up_stack, stack);
}

void sr_regions_call_begins(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p)
{
	p->stack = programs_stack(d, a);
	if (__builtin_expect(sr_exposed_has_stack(p->stack), 0))
		leave_stack(p->stack, a);
	sr_exposed_call_begins();
	sr_compared_all(SR_EXPOSED_AT_CALL, p->stack);
	/* A replay learns of the region in front of the call, so its first values come at the call's return. */
	sr_regions_compare_lost();
	sr_regions_pin(d, a, p);
}

void sr_regions_call_ends(struct sr_pinned *p)
{
	sr_regions_unpin(p);
	sr_exposed_call_ends();
	sr_compared_all(SR_EXPOSED_AT_RETURN, p->stack);
	sr_regions_change_now();
}

uint64_t sr_regions_checksum(const void *p, size_t length, uint64_t seed)
{
	if (!sr_regions_on || !length || !sr_exposed_covers(p, length))
		return sr_checksum(p, length, seed);
	return sr_exposed_checksum(p, length, seed);
}

const void *sr_regions_sent(const void *p, size_t length)
{
	if (!sr_regions_on || !length || !sr_exposed_covers(p, length))
		return p;
	return sr_exposed_gather(p, length);
}
