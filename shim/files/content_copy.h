/* SPDX-License-Identifier: BSD-2-Clause */
/* content_copy.h: copies of a file's content, which the daemon is given before the program changes the file. */
#ifndef SHIM_FILES_CONTENT_COPY_H
#define SHIM_FILES_CONTENT_COPY_H

#include <stdint.h>

/*
 * A copy of the content as a descriptor, or -1: there is none of a file with more than 256 MiB of other bytes than zeros,
 * or of more than 4 GiB, or of more than 64 GiB of tmpfs without any data.  fd may be open for writing only.
 */
int sr_copy_content(int fd, uint64_t size);

#endif
