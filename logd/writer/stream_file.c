/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/stream_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "logd/trace/file_io.h"
#include "logd/trace/frame.h"

void stream_file_header(struct sr_stream_header *h, int32_t rank, uint32_t thread,
			const uint8_t *process)
{
	memset(h, 0, sizeof(*h));
	memcpy(h->magic, SR_STREAM_MAGIC, sizeof(h->magic));
	h->version = SR_TRACE_VERSION;
	h->header_bytes = sizeof(*h);
	h->rank = rank;
	h->thread = thread;
	memcpy(h->process, process, sizeof(h->process));
	sr_stream_header_seal(h);
}

int stream_file_list(int rank_fd, uint32_t thread)
{
	int fd = openat(rank_fd, SR_STREAMS_FILE,
			O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	char line[16];
	int n = snprintf(line, sizeof(line), "%u\n", thread), err;

	if (fd < 0)
		return -errno;
	err = write_all(fd, line, (size_t)n);
	close(fd);
	return err;
}
