/* SPDX-License-Identifier: BSD-2-Clause */
/* pages.c: the pages of the fabric, in runs. */
#include "fabric.h"

#include "raw.h"

/* An entry: the process whose page it is, + 1.  A child that has not opened the device is none. */
#define TAKEN 0x8000u

static uint16_t *map(void)
{
	return sd_at(sd_fabric->page_map_at);
}

/* The first page at or behind `from` of a run of n free ones before `to`; `to` if there is none. */
static uint64_t find_run(uint64_t from, uint64_t to, uint64_t n)
{
	uint64_t free = 0;

	for (uint64_t i = from; i < to; i++) {
		free = map()[i] ? 0 : free + 1;
		if (free == n)
			return i + 1 - n;
	}
	return to;
}

uint64_t sd_pages_take(uint64_t bytes)
{
	struct sd_fabric *f = sd_fabric;
	uint64_t n = sd_round_up(bytes) / SD_PAGE, at = find_run(f->page_cursor, f->pages, n);

	if (at == f->pages)
		at = find_run(0, f->pages, n);
	if (!n || at == f->pages)
		return 0;
	for (uint64_t i = at; i < at + n; i++)
		map()[i] = (uint16_t)(TAKEN | sd_process);
	f->page_cursor = at + n;
	if (at + n > f->pages_high)
		f->pages_high = at + n;
	return f->pages_at + at * SD_PAGE;
}

/* The kernel takes them back, so that they are 0 when they are taken again. */
void sd_pages_give(uint64_t offset, uint64_t bytes)
{
	uint64_t at = (offset - sd_fabric->pages_at) / SD_PAGE, n = sd_round_up(bytes) / SD_PAGE;

	if (!offset || !n)
		return;
	syscall(SYS_madvise, sd_at(offset), n * SD_PAGE, MADV_REMOVE);
	for (uint64_t i = at; i < at + n; i++) {
		map()[i] = 0;
		*sd_page_users(sd_fabric->pages_at + i * SD_PAGE) = 0;
	}
	if (at < sd_fabric->page_cursor)
		sd_fabric->page_cursor = at;
}

uint16_t *sd_page_users(uint64_t offset)
{
	uint16_t *users = sd_at(sd_fabric->page_users_at);

	return &users[(offset - sd_fabric->pages_at) / SD_PAGE];
}

/* No page behind the last one that was ever taken is looked at: that would make the file larger. */
void sd_pages_give_of(uint32_t process_1)
{
	struct sd_fabric *f = sd_fabric;
	uint64_t begin = 0;

	for (uint64_t i = 0; i <= f->pages_high; i++) {
		bool is_its = i < f->pages_high && map()[i] == (TAKEN | process_1);

		if (!is_its && begin < i)
			sd_pages_give(f->pages_at + begin * SD_PAGE, (i - begin) * SD_PAGE);
		if (!is_its)
			begin = i + 1;
	}
}
