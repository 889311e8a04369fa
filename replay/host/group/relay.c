/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/print/progress.h"

/* Longer lines are passed on in pieces. */
#define LINE_MAX (1u << 20)

static void say_line(struct sr_relay *r, const char *text, size_t n)
{
	sr_progress_hide();
	fprintf(r->out, "[rank %s] ", r->name);
	if (r->held)
		fwrite(r->line, 1, r->held, r->out);
	fwrite(text, 1, n, r->out);
	r->held = 0;
}

/* Keeps an incomplete line until its end comes; without memory, passes it on at once. */
static void hold(struct sr_relay *r, const char *text, size_t n)
{
	if (r->held + n > r->room) {
		char *more = r->held + n < LINE_MAX ? realloc(r->line, 2 * (r->held + n)) : NULL;

		if (!more) {
			say_line(r, text, n);
			fputc('\n', r->out);
			return;
		}
		r->line = more;
		r->room = 2 * (r->held + n);
	}
	memcpy(r->line + r->held, text, n);
	r->held += n;
}

static void pass_on(struct sr_relay *r, const char *text, size_t n)
{
	const char *end;

	while (n && (end = memchr(text, '\n', n))) {
		size_t line = (size_t)(end - text) + 1;

		say_line(r, text, line);
		text += line;
		n -= line;
	}
	if (n)
		hold(r, text, n);
	fflush(r->out);
}

int sr_relay_open(struct sr_relay *r, const char *name, FILE *out, const char *path)
{
	int ends[2];

	*r = (struct sr_relay){.fd = -1, .write_fd = -1, .out = out, .name = name};
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	/* Programs print in bursts; with a pipe of one page they would wait for us. */
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
	if (r->held) {
		say_line(r, "\n", 1);
		fflush(r->out);
	}
	free(r->line);
	r->line = NULL;
	r->room = 0;
	if (r->copy)
		fclose(r->copy);
	r->copy = NULL;
}
