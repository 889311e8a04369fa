/* SPDX-License-Identifier: BSD-2-Clause */
/* table.c: the table of exposed pages.  It is sparse: a chunk for each GiB that a region was in. */
#include "shim/exposed/page/page.h"

#include <errno.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"

#define CHUNK_PAGES (CHUNK_BYTES / PAGE)

#define CHUNKS      ((1ul << 47) / CHUNK_BYTES)

/* A megabyte, mapped and not part of the library's own data: see tests/unit/shim/image.py. */
struct page *_Atomic *page_chunks;

uintptr_t open_pages[OPEN_ALL];
uint32_t open_n, pass_through_n;
_Atomic uint32_t anything_open;
struct sr_exposed_counts counts;
struct sr_exposed_hooks hooks;
uint32_t holds;

int page_table_init(void)
{
	void *p = sr_sys_mmap(NULL, CHUNKS * sizeof(*page_chunks), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sr_sys_is_error(p))
		return -ENOMEM;
	page_chunks = p;
	return 0;
}

/*
 * Behind a chunk's entries: which blocks of it regions were in.  A walk reads no others, as each child that is forked does one:
 * the entries of a whole chunk are some megabytes.
 */
#define BLOCK_PAGES 64ul
#define BLOCKS      (CHUNK_PAGES / BLOCK_PAGES)

struct reached {
	uint64_t blocks[BLOCKS / 64];
	uintptr_t base;    /* the chunk's first address */
	struct page *next; /* the chunk that was made before it */
};

static struct page *newest;

static struct reached *reached_of(struct page *chunk)
{
	return (struct reached *)(chunk + CHUNK_PAGES);
}

static struct page *make_chunk(uintptr_t base)
{
	struct page *chunk = sr_sys_mmap(NULL, CHUNK_PAGES * sizeof(*chunk) + sizeof(struct reached), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sr_sys_is_error(chunk))
		return NULL;
	reached_of(chunk)->base = base;
	reached_of(chunk)->next = newest;
	newest = chunk;
	atomic_store_explicit(&page_chunks[base / CHUNK_BYTES], chunk, memory_order_release);
	return chunk;
}

int page_table_reach(uintptr_t begin, uintptr_t end)
{
	for (uintptr_t at = begin & ~(BLOCK_PAGES * PAGE - 1); at < end; at += BLOCK_PAGES * PAGE) {
		struct page *chunk = page_chunks[at / CHUNK_BYTES];
		size_t block = at % CHUNK_BYTES / PAGE / BLOCK_PAGES;

		if (!chunk && !(chunk = make_chunk(at & ~(CHUNK_BYTES - 1))))
			return -ENOMEM;
		reached_of(chunk)->blocks[block / 64] |= 1ull << block % 64;
	}
	return 0;
}

static void walk_block(uintptr_t base, void (*what)(uintptr_t begin, uintptr_t end))
{
	const struct page *pages = page_at(base);
	uintptr_t begin = 0;

	for (size_t n = 0; n < BLOCK_PAGES; n++) {
		bool exposed = pages[n].state != PAGE_NONE;

		if (exposed && !begin)
			begin = base + n * PAGE;
		if (exposed && n < BLOCK_PAGES - 1)
			continue;
		if (begin)
			what(begin, base + (n + exposed) * PAGE);
		begin = 0;
	}
}

void page_table_walk(void (*what)(uintptr_t begin, uintptr_t end))
{
	for (struct page *chunk = newest; chunk; chunk = reached_of(chunk)->next)
		for (size_t block = 0; block < BLOCKS; block++)
			if (reached_of(chunk)->blocks[block / 64] >> block % 64 & 1)
				walk_block(reached_of(chunk)->base + block * BLOCK_PAGES * PAGE, what);
}
