/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/lent.h"

#include <linux/futex.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"

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

bool sr_lent_is_exposed(const void *addr, size_t length)
{
	return addr && length < SR_LENT_LENGTH_MOST && sr_exposed_touches(addr, length);
}

static bool may_be_left_out(const struct sr_pinned *p, const void *addr, size_t length)
{
	return sr_leaves_out && !p->outputs && !sr_exposed_is_in_no_region(addr, length);
}

void sr_lent_may_be_written(const struct sr_pinned *p, const void *addr, size_t length)
{
	if (may_be_left_out(p, addr, length))
		sr_clocks_unwatched();
}

void sr_lent_was_written(const struct sr_pinned *p, const void *addr, size_t length)
{
	if (may_be_left_out(p, addr, length) && sr_exposed_has_news(addr, length))
		sr_exposed_keep_values(addr, length);
}

bool sr_lend_alias(struct sr_pinned *p, uint64_t *address, size_t length)
{
	void *const addr = (void *)*address;
	void *alias = sr_lent_is_exposed(addr, length) && has_room(p) ? sr_exposed_alias(addr, length) : NULL;

	if (!alias)
		return false;
	sr_lent_may_be_written(p, addr, length);
	p->pieces[p->n++] = (struct iovec){alias, length};
	*address = (uintptr_t)alias;
	return true;
}

void sr_lend_in_place(struct sr_pinned *p, const void *addr, size_t length)
{
	if (!sr_lent_is_exposed(addr, length) || !has_room(p))
		return;
	sr_lent_may_be_written(p, addr, length);
	p->pieces[p->n++] = (struct iovec){(void *)addr, length};
	sr_exposed_pin(addr, length);
}

void sr_lend(struct sr_pinned *p, uint64_t *address, size_t length)
{
	if (!sr_lend_alias(p, address, length))
		sr_lend_in_place(p, (const void *)*address, length);
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
	sr_lent_was_written(p, (void *)addr, piece->iov_len);
	if (p->wakes)
		wake_at(addr, piece->iov_len);
}

static void end_pin(const struct sr_pinned *p, const struct iovec *piece)
{
	sr_lent_was_written(p, piece->iov_base, piece->iov_len);
	sr_exposed_unpin(piece->iov_base, piece->iov_len);
}

void sr_lent_end(struct sr_pinned *p)
{
	if (!p->n)
		return;
	while (p->n--) {
		const struct iovec *piece = &p->pieces[p->n];

		if (sr_exposed_is_alias(piece->iov_base))
			end_alias(p, piece);
		else
			end_pin(p, piece);
	}
	p->n = 0;
	if (p->pieces != p->few)
		sr_free(p->pieces);
}
