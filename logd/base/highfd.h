/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * highfd.h: file descriptors that stay out of the recorded program's way.
 *
 * Programs expect the lowest free number, so what sreplay opens inside of them
 * is moved up, and closed on exec.
 */
#ifndef LOGD_BASE_HIGHFD_H
#define LOGD_BASE_HIGHFD_H

/* Moves fd up; returns the new number, or fd itself when there is none. */
int sr_fd_raise(int fd);

#endif
