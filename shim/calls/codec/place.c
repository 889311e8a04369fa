/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.c: encodes addresses in libraries so that they can be compared, although they depend on
 * the kernel.
 *
 * ld.so maps the libraries that a program starts with at fixed distances from each other, but their
 * start depends on the size of the kernel's own pages (vdso, vvar).  So an address in one of them
 * is recorded as its distance from the shim's library.  A library that is loaded later (libgcc_s
 * by pthread_exit, for example) is mapped where there is room.  That depends on what else is
 * mapped, such as the device's provider, so its addresses are recorded as 0 and not compared.
 */
#include <link.h>
#include <stddef.h>

#include "shim/calls/codec/custom.h"
#include "shim/calls/codec/place.h"

/* Only the stack lies above the libraries; the kernel reserves at least 128 MiB for it. */
#define LIBRARIES_FROM 0x7f0000000000ull
#define LIBRARIES_TO   0x7ffff8000000ull

/* The range of the libraries that the program started with. */
static uintptr_t first = LIBRARIES_TO, last = LIBRARIES_FROM;

static int include(struct dl_phdr_info *info, size_t size, void *unused)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;
		uintptr_t to = from + segment->p_memsz;

		if (segment->p_type != PT_LOAD || from < LIBRARIES_FROM || to > LIBRARIES_TO)
			continue;
		first = from < first ? from : first;
		last = to > last ? to : last;
	}
	return 0;
}

void sr_places_start(void)
{
	dl_iterate_phdr(include, NULL);
}

void sr_put_place(struct sr_buf *b, uintptr_t at)
{
	uint64_t place = at;

	if (at >= first && at < last)
		place = at - (uintptr_t)sr_calls;
	else if (at >= LIBRARIES_FROM && at < LIBRARIES_TO)
		place = 0;
	sr_put_u64(b, place);
}
