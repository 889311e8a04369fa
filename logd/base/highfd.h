/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * highfd.h: file descriptors that stay out of the recorded program's way.
 *
 * A program expects the lowest free number for each file that it opens, so sreplay moves its own
 * descriptors up.
 */
#ifndef LOGD_BASE_HIGHFD_H
#define LOGD_BASE_HIGHFD_H

/* Moves fd up, closed on exec; returns the new number, or fd itself where none is free. */
int sr_fd_raise(int fd);

#endif
