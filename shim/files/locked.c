/* SPDX-License-Identifier: BSD-2-Clause */
/* locked.c: files by which processes talk to each other, under a lock: what the program reads there is recorded. */
#include <sys/file.h>

#include "shim/core/hooks.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"

uint64_t sr_invoke_flock(const struct sr_call_desc *d, uint64_t *a)
{
	const int fd = (int)a[0], result = (int)sr_real(d, a);

	if (!result && !((int)a[1] & LOCK_UN) && !sr_fd_captured(fd) && sr_files_is_shared(fd))
		sr_fd_capture_file(fd);
	return (uint64_t)(int64_t)result;
}
