/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pieces.c: which bytes of a page regions have, if they have only parts of it.
 *
 * malloc() puts a small buffer next to other data of the program.  Bytes that no region has, no device writes: they
 * are the program's own.  In a process with threads such a page is never opened, and an access to these bytes faults
 * like any other, but there is nothing to record or to count.
 */
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/pieces.h"

/*
 * Regions are counted by the piece.  Between two blocks of malloc(), which begin at multiples of 16 bytes, are words
 * of its own, which any thread accesses.  A recorded value may span 8 equal bytes between two differences
 * (record_difference), but never a whole piece that no region has.
 */
#define PIECE_BYTES 8

struct pieces {
	union {
		uint32_t users[PAGE / PIECE_BYTES];
		struct pieces *next; /* of those that no page has */
	};
};

#define SLAB_BYTES (16 * PAGE)

static struct pieces *spare;

static bool make_spares(void)
{
	struct pieces *p = sr_sys_mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sr_sys_is_error(p))
		return false;
	for (size_t i = 0; i < SLAB_BYTES / sizeof(*p); i++) {
		p[i].next = spare;
		spare = &p[i];
	}
	return true;
}

bool pieces_make(struct page *p)
{
	if (p->pieces)
		return true;
	if (!spare && !make_spares())
		return false;
	p->pieces = spare;
	spare = spare->next;
	memset(p->pieces, 0, sizeof(*p->pieces));
	return true;
}

void page_forget(struct page *p)
{
	if (p->pieces) {
		p->pieces->next = spare;
		spare = p->pieces;
	}
	memset(p, 0, sizeof(*p));
}

struct page_part part_in_page(uintptr_t user, uintptr_t addr, size_t length)
{
	uintptr_t end = addr + length;

	return (struct page_part){addr > user ? addr - user : 0, end < user + PAGE ? end - user : PAGE};
}

void pieces_add(uintptr_t user, uintptr_t addr, size_t length)
{
	struct page *p = page_at(user);
	struct page_part part = part_in_page(user, addr, length);

	for (size_t i = part.begin / PIECE_BYTES; i * PIECE_BYTES < part.end; i++) {
		uintptr_t at = user + i * PIECE_BYTES;

		/*
		 * Until now the bytes were the program's own, or results of calls.  If another region has the whole
		 * page, they are still to be sampled.
		 */
		if (!p->pieces->users[i]++ && p->shadow_valid && !p->whole)
			memcpy(shadow_to_change(at), backing_of(p, at), PIECE_BYTES);
	}
}

bool pieces_have(uintptr_t user, uintptr_t addr, size_t length)
{
	const struct pieces *pieces = page_at(user)->pieces;
	struct page_part part = part_in_page(user, addr, length);

	if (!pieces)
		return false;
	for (size_t i = part.begin / PIECE_BYTES; i * PIECE_BYTES < part.end; i++)
		if (!pieces->users[i])
			return false;
	return true;
}

void pieces_remove(uintptr_t user, uintptr_t addr, size_t length)
{
	struct page *p = page_at(user);
	struct page_part part = part_in_page(user, addr, length);

	for (size_t i = part.begin / PIECE_BYTES; i * PIECE_BYTES < part.end; i++)
		p->pieces->users[i]--;
}

void pieces_each(uintptr_t user, void (*f)(uintptr_t addr, size_t length))
{
	const struct page *p = page_at(user);
	const size_t n = p->pieces && !p->whole ? PAGE / PIECE_BYTES : 0;

	for (size_t i = 0, end; i < n; i = end + 1) {
		for (end = i; end < n && p->pieces->users[end]; end++)
			;
		if (end > i)
			f(user + i * PIECE_BYTES, (end - i) * PIECE_BYTES);
	}
}

bool is_in_no_region(const struct page *p, uintptr_t addr, size_t n)
{
	size_t first = addr % PAGE / PIECE_BYTES, last = (addr + n - 1) % PAGE / PIECE_BYTES;

	if (!(p->users || p->left_behind) || p->whole || !p->pieces || last < first)
		return false;
	for (size_t i = first; i <= last; i++)
		if (p->pieces->users[i])
			return false;
	return true;
}

bool is_unregistered(const struct page *p, uintptr_t addr, size_t n)
{
	return p->shadow_valid && is_in_no_region(p, addr, n);
}

void pieces_pass_over(uintptr_t addr, const char *now, size_t length)
{
	const struct page *p = page_at(addr);

	for (size_t i = 0, n; i < length; i += n) {
		n = PIECE_BYTES - (addr + i) % PIECE_BYTES;
		n = n < length - i ? n : length - i;
		if (is_unregistered(p, addr + i, n))
			memcpy(shadow_to_change(addr + i), now + i, n);
	}
}
