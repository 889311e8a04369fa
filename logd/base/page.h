/* SPDX-License-Identifier: BSD-2-Clause */
/* page.h: the size of a page of memory, on every machine that sreplay runs on. */
#ifndef LOGD_BASE_PAGE_H
#define LOGD_BASE_PAGE_H

#include <stdint.h>

#define PAGE 4096ul

/* The page boundary at or below an address or a number of bytes. */
static inline uint64_t sr_page_down(uint64_t at)
{
	return at & ~(PAGE - 1);
}

/* The page boundary at or above it. */
static inline uint64_t sr_page_up(uint64_t at)
{
	return sr_page_down(at + PAGE - 1);
}

#endif
