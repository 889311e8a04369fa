/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/passed_fds.h"

#include <string.h>

void sr_passed_fds(const struct msghdr *m, void (*take)(int fd))
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR((struct msghdr *)m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			take(fd);
		}
	}
}
