/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "logd/service/log.h"
#include "logd/service/proc.h"

#define MAGIC    0x6a736472u
#define BODY_MAX (1u << 20)

struct journal {
	int fd;
	bool complained;
	char path[PATH_MAX];
};

struct entry {
	uint32_t magic;
	uint32_t size; /* of the body that follows */
	int64_t pid;   /* 0: the message names the process */
	uint64_t start_ticks;
	struct sr_message message;
};

struct journal *journal_open(const char *socket_path)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	snprintf(j->path, sizeof(j->path), "%s.directory", socket_path);
	j->fd = open(j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd >= 0)
		return j;
	log_line("cannot keep a journal in %s: %s", j->path, strerror(errno));
	free(j);
	return NULL;
}

void journal_close(struct journal *j, bool keep)
{
	if (!j)
		return;
	if (!keep)
		unlink(j->path);
	close(j->fd);
	free(j);
}

void journal_empty(struct journal *j)
{
	if (j && ftruncate(j->fd, 0) && !j->complained)
		j->complained = true;
}

void journal_write(struct journal *j, pid_t pid, const struct sr_message *m, const void *body,
		   size_t size)
{
	struct entry e = {.magic = MAGIC, .size = (uint32_t)size, .pid = pid, .message = *m};
	struct iovec iov[] = {{&e, sizeof(e)}, {(void *)body, size}};

	if (!j)
		return;
	e.start_ticks = pid ? process_start_ticks(pid) : 0;
	if (writev(j->fd, iov, 2) == (ssize_t)(sizeof(e) + size) || j->complained)
		return;
	j->complained = true;
	log_line("%s cannot be written: %s; a daemon that replaces this one will know less",
		 j->path, strerror(errno));
}

static bool is_alive(const struct entry *e)
{
	return !e->pid || process_start_ticks((pid_t)e->pid) == e->start_ticks;
}

/* Half an entry, which a killed daemon may leave behind, ends the journal. */
void journal_read(struct journal *j, journal_entry take, void *with)
{
	struct entry e;
	off_t at = 0;

	while (pread(j->fd, &e, sizeof(e), at) == sizeof(e) && e.magic == MAGIC &&
	       e.size <= BODY_MAX) {
		void *body = malloc(e.size + !e.size);

		if (!body || pread(j->fd, body, e.size, at + (off_t)sizeof(e)) != (ssize_t)e.size) {
			free(body);
			break;
		}
		if (is_alive(&e))
			take(with, (pid_t)e.pid, &e.message, body, e.size);
		free(body);
		at += (off_t)(sizeof(e) + e.size);
	}
	if (ftruncate(j->fd, at))
		log_line("%s cannot be cut: %s", j->path, strerror(errno));
}
