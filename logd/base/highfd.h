/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * highfd.h: file descriptors that stay out of the recorded program's way.
 *
 * A program expects the lowest free number for each file that it opens, so sreplay moves its own
 * descriptors up: above the program's limit on open files where the hard limit allows, so that the
 * program can neither get nor name these numbers.
 */
#ifndef LOGD_BASE_HIGHFD_H
#define LOGD_BASE_HIGHFD_H

/*
 * The lowest number for sreplay's own.  Depends on the hard limit alone, so a process that inherits
 * the limit finds the same.
 */
int sr_fd_floor(void);

/* Moves fd up, closed on exec; returns the new number, or fd itself where none is free. */
int sr_fd_raise(int fd);

#endif
