/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * passed_fds.h: descriptors that come with a message (SCM_RIGHTS).
 *
 * What a recvmsg brings is captured, unless it is a regular file: then a replay opens its private file instead, or duplicates
 * the descriptor of the process that leads to the same open file.
 */
#ifndef SHIM_FILES_PASSED_FDS_H
#define SHIM_FILES_PASSED_FDS_H

#include <stdint.h>
#include <sys/socket.h>

#include "logd/base/compiler.h"
#include "shim/core/opened_file.h"

/* Calls `take` for each descriptor in the message's control data. */
void sr_passed_fds(const struct msghdr *m, void (*take)(int fd));

struct sr_passed_file {
	int32_t fd;
	int32_t same; /* a descriptor of the process that shares its position; -1: none */
	int64_t position;
	uint32_t flags; /* as of open */
	struct sr_opened_file file;
};

/* The regular files that this thread's recvmsg has brought. */
struct sr_passed_files {
	struct sr_passed_file *list;
	uint32_t n, room;
};
extern __thread struct sr_passed_files sr_passed_files SR_HIDDEN;

/* One more: to be filled in.  NULL: no memory. */
struct sr_passed_file *sr_new_passed_file(void);

#endif
