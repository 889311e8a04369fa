/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/codec/spliced.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/files/fds.h"
#include "shim/files/outputs.h"
#include "shim/files/paths.h"
#include "shim/files/uncompared.h"

bool sr_splice_enters(int from, int to)
{
	struct stat st;

	return sr_fd_captured(from) && !sr_fd_captured(to) && !sr_sys_fstat(to, &st) && S_ISREG(st.st_mode);
}

/* What cannot be read is missing in the replay's file, which says so. */
void sr_put_spliced(struct sr_buf *b, int to, const off_t *to_at, ssize_t moved)
{
	size_t begin = b->len, n = (size_t)moved;
	int64_t end = to_at ? *to_at : sr_syscall(SYS_lseek, to, 0, SEEK_CUR, 0, 0, 0);
	/* The program's may be for writing only, or want aligned memory. */
	int fd = sr_open_again(to, O_RDONLY);
	uint8_t *room;

	sr_put_u32(b, (uint32_t)n);
	room = sr_buf_room(b, n);
	if (!room || sr_syscall(SYS_pread64, fd, SR_ARG(room), moved, end - moved, 0, 0) != moved) {
		b->len = begin;
		sr_put_u32(b, 0);
	}
	if (fd >= 0)
		sr_sys_close(fd);
}

void sr_deliver_spliced(struct sr_cursor *c, int to, const off_t *to_at, ssize_t moved)
{
	struct sr_bytes bytes = sr_get_bytes(c);
	const struct iovec one = {(void *)bytes.p, bytes.n};

	if (c->bad || moved <= 0)
		return;
	if (bytes.n == (size_t)moved)
		sr_output_again(to, &one, bytes.n, to_at ? *to_at - moved : -1, 0);
	else
		sr_output_is_uncompared(SR_UNCOMPARED_MOVED);
}
