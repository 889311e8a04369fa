/* SPDX-License-Identifier: BSD-2-Clause */
/* file_hash.h: has a file the same content?  For open files; any thread. */
#ifndef LOGD_TRACE_FILE_HASH_H
#define LOGD_TRACE_FILE_HASH_H

#include <stdbool.h>
#include <stdint.h>

/* XXH3 (64 bits) of the whole file, as 16 hexadecimal digits.  False: it cannot be read. */
bool file_hash(int fd, char hex[17]);

/*
 * The same, and copies the content to the descriptor `to` (-1: none).  *size: the bytes that were
 * read.  0 or -errno.
 */
int file_hash_copy(int fd, int to, char hex[17], uint64_t *size);

/* Of a larger file only samples are read, so that a note of it costs nothing. */
#define FILE_WHOLE_MAX (16ull << 20)

/*
 * XXH3 of pieces of a file of this size: SAMPLES pieces of SAMPLE_BYTES, evenly spread, the first
 * and the last ones included.  0 or -errno; -EIO: it is shorter.
 */
int file_sample(int fd, uint64_t size, char hex[17]);

#endif
