/* SPDX-License-Identifier: BSD-2-Clause */
/* passed_fds.h: descriptors that come with a message (SCM_RIGHTS). */
#ifndef SHIM_FILES_PASSED_FDS_H
#define SHIM_FILES_PASSED_FDS_H

#include <sys/socket.h>

/* Calls `take` for each descriptor in the message's control data. */
void sr_passed_fds(const struct msghdr *m, void (*take)(int fd));

#endif
