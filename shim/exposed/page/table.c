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

int page_table_reach(uintptr_t begin, uintptr_t end)
{
	for (uintptr_t i = begin / CHUNK_BYTES; i <= (end - 1) / CHUNK_BYTES; i++) {
		struct page *chunk;

		if (page_chunks[i])
			continue;
		chunk = sr_sys_mmap(NULL, CHUNK_PAGES * sizeof(*chunk), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (sr_sys_is_error(chunk))
			return -ENOMEM;
		atomic_store_explicit(&page_chunks[i], chunk, memory_order_release);
	}
	return 0;
}

void page_table_walk(void (*what)(uintptr_t begin, uintptr_t end))
{
	uintptr_t begin = 0;

	for (uintptr_t i = 0; page_chunks && i < CHUNKS; i++) {
		uintptr_t base = i * CHUNK_BYTES;

		for (size_t n = 0; page_chunks[i] && n < CHUNK_PAGES; n++) {
			bool exposed = page_chunks[i][n].state != PAGE_NONE;

			if (exposed && !begin)
				begin = base + n * PAGE;
			if (exposed && n < CHUNK_PAGES - 1)
				continue;
			if (begin)
				what(begin, base + (n + exposed) * PAGE);
			begin = 0;
		}
	}
}
