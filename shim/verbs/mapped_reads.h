/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapped_reads.h: what a program reads by system calls from a file that it has also mapped as exposed memory.
 *
 * A file's content is not recorded, since a replay reads the file again.  But peers write into this one.  So such a read
 * counts as a load of the mapping: its values are recorded, and the program gets them in both runs.
 */
#ifndef SHIM_VERBS_MAPPED_READS_H
#define SHIM_VERBS_MAPPED_READS_H

#include <stddef.h>
#include <stdint.h>

struct sr_call_desc;
struct sr_thread;

void sr_mapped_reads_start(void);
/* In a forked child, where no other thread holds the lock. */
void sr_mapped_reads_in_child(void);

/* The program has mapped the file MAP_SHARED. */
void sr_mapped_reads_begin(void *addr, size_t size, int fd, uint64_t offset);

/* The call of that description, which may be a read, has returned.  Outside of sections.  Preserves errno. */
void sr_mapped_reads_done(struct sr_thread *t, const struct sr_call_desc *d, const uint64_t *a, int64_t result);

#endif
