/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.c: encodes addresses in libraries so that they can be compared, although they depend on
 * the machine.
 *
 * ld.so maps the libraries that a program starts with one below the other, from a start that depends on the size of the
 * kernel's own pages (vdso, vvar), and leaves room where it has had the cache of libraries (/etc/ld.so.cache), which grows with
 * what is installed.  So an address in one of them is recorded as the library's number and the distance from its start.  A
 * library that is loaded later (libgcc_s by pthread_exit, for example) is mapped where there is room.  That depends on what else
 * is mapped, such as the device's provider, so its addresses are recorded as 0 and not compared.
 */
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#include "shim/calls/codec/custom.h"
#include "shim/calls/codec/place.h"

/* Only the stack lies above the libraries; the kernel reserves at least 128 MiB for it. */
#define LIBRARIES_FROM 0x7f0000000000ull
#define LIBRARIES_TO   0x7ffff8000000ull

#define LIBRARIES   512
#define NUMBER_AT   48 /* the bits of a place in which the library's number lies */

/* Those that the program started with, in the order in which ld.so has loaded them. */
static struct {
	uintptr_t begin, end;
} library[LIBRARIES];
static unsigned int libraries;

static int include(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t begin = LIBRARIES_TO, end = LIBRARIES_FROM;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;
		uintptr_t to = from + segment->p_memsz;

		if (segment->p_type != PT_LOAD || from < LIBRARIES_FROM || to > LIBRARIES_TO)
			continue;
		begin = from < begin ? from : begin;
		end = to > end ? to : end;
	}
	if (begin < end && libraries < LIBRARIES) {
		library[libraries].begin = begin;
		library[libraries++].end = end;
	}
	return 0;
}

void sr_places_start(void)
{
	dl_iterate_phdr(include, NULL);
}

static uint64_t place_in_library(uintptr_t at)
{
	static _Atomic unsigned int last;
	unsigned int n = atomic_load_explicit(&last, memory_order_relaxed);

	for (unsigned int i = 0; i < libraries; i++, n = n + 1 < libraries ? n + 1 : 0)
		if (at - library[n].begin < library[n].end - library[n].begin) {
			atomic_store_explicit(&last, n, memory_order_relaxed);
			return (uint64_t)(n + 1) << NUMBER_AT | (at - library[n].begin);
		}
	return 0;
}

void sr_put_place(struct sr_buf *b, uintptr_t at)
{
	sr_put_u64(b, at >= LIBRARIES_FROM && at < LIBRARIES_TO ? place_in_library(at) : at);
}
