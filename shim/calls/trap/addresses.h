/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addresses.h: trapped system calls about the program's address space.  Its mappings lie at
 * addresses that are equal in a replay (memory/heap.h), and exposed regions are protected
 * for reasons of the shim's own.
 */
#ifndef SHIM_CALLS_TRAP_ADDRESSES_H
#define SHIM_CALLS_TRAP_ADDRESSES_H

struct sr_trapped;

long sr_trapped_mmap(const struct sr_trapped *c);
long sr_trapped_munmap(const struct sr_trapped *c);
long sr_trapped_brk(const struct sr_trapped *c);
long sr_trapped_mprotect(const struct sr_trapped *c);
long sr_trapped_madvise(const struct sr_trapped *c);
long sr_trapped_mremap(const struct sr_trapped *c);

#endif
