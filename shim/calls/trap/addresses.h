/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addresses.h: trapped system calls about the program's address space.  The shim places the
 * program's mappings at addresses that are equal in a replay (memory/heap.h), and protects
 * exposed regions for its own purposes.
 */
#ifndef SHIM_CALLS_TRAP_ADDRESSES_H
#define SHIM_CALLS_TRAP_ADDRESSES_H

struct sr_trapped;

long sr_trapped_mmap(const struct sr_trapped *c);
long sr_trapped_munmap(const struct sr_trapped *c);
long sr_trapped_shmat(const struct sr_trapped *c);
long sr_trapped_shmctl(const struct sr_trapped *c);
long sr_trapped_brk(const struct sr_trapped *c);
long sr_trapped_mprotect(const struct sr_trapped *c);
long sr_trapped_madvise(const struct sr_trapped *c);
long sr_trapped_mremap(const struct sr_trapped *c);
long sr_trapped_msync(const struct sr_trapped *c);

#endif
