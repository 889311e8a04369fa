/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * small_inputs.h: notes a small file by a record in the thread's ring, which the daemon writes to the
 * list of files (SR_REC_INPUT).  The program does not wait for that.
 */
#ifndef SHIM_FILES_SMALL_INPUTS_H
#define SHIM_FILES_SMALL_INPUTS_H

#include <stdbool.h>
#include <stdint.h>

struct statx;
struct sr_thread;

/*
 * Notes what the open file has, which was st before; keep: with its content.  False: it is not small, its
 * descriptor cannot be read, its content changed meanwhile, or this thread has no ring.  In a section.
 */
bool sr_small_input(struct sr_thread *t, int fd, const struct statx *st, const char *path,
		    uint32_t note, bool keep);

/* Of a file that is not kept, the hash is made later: of what the program reads, if it reads all at once. */
void sr_small_input_read(struct sr_thread *t, int fd, const void *content, long n);

/* The thread goes on to another file, closes this one, or ends; outside of a section, too. */
void sr_small_input_end(struct sr_thread *t);

#endif
