/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/group/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A line without an end is passed on in pieces: a prompt is seen while it is one. */
static void pass_on(struct sr_relay *r, const char *text, size_t n)
{
	while (n) {
		const char *end = memchr(text, '\n', n);
		size_t piece = end ? (size_t)(end - text) + 1 : n;

		if (!r->within)
			fprintf(r->out, "[rank %d] ", r->rank);
		fwrite(text, 1, piece, r->out);
		r->within = !end;
		text += piece;
		n -= piece;
	}
	fflush(r->out);
}

int sr_relay_open(struct sr_relay *r, int32_t rank, FILE *out, const char *path)
{
	int ends[2];

	*r = (struct sr_relay){.fd = -1, .write_fd = -1, .out = out, .rank = rank};
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	/* Programs print bursts; a pipe of one page would make them wait for us. */
	fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	r->fd = ends[0];
	r->write_fd = ends[1];
	if (path && !(r->copy = fopen(path, "we")))
		return -errno;
	return 0;
}

void sr_relay_started(struct sr_relay *r)
{
	close(r->write_fd);
	r->write_fd = -1;
}

void sr_relay_move(struct sr_relay *r)
{
	char buffer[65536];
	ssize_t n;

	while (r->fd >= 0 && (n = read(r->fd, buffer, sizeof(buffer))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		if (r->copy)
			fwrite(buffer, 1, (size_t)n, r->copy);
		pass_on(r, buffer, (size_t)n);
	}
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

void sr_relay_close(struct sr_relay *r)
{
	sr_relay_move(r);
	if (r->fd >= 0)
		close(r->fd); /* a process that the program left behind has the other end */
	if (r->write_fd >= 0)
		close(r->write_fd);
	r->fd = r->write_fd = -1;
	if (r->within)
		fputc('\n', r->out);
	r->within = false;
	fflush(r->out);
	if (r->copy)
		fclose(r->copy);
	r->copy = NULL;
}
