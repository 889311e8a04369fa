/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/changes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"
#include "shim/files/private.h"

/* ----------------------------------------------------------------- journal */

static int journal = -1;

void sr_changes_start(int fd)
{
	journal = fd;
}

int sr_changes_fd(void)
{
	return journal;
}

#define FIELDS (1 + SR_MAX_ARGS)

/* An entry is written in one piece, so those of several threads do not mix. */
struct entry {
	struct iovec field[FIELDS];
	int n;
	char numbers[FIELDS][24];
};

static void put_text(struct entry *e, const char *text)
{
	e->field[e->n].iov_base = (void *)text;
	e->field[e->n++].iov_len = strlen(text) + 1;
}

static void put_number(struct entry *e, int64_t number)
{
	char *text = e->numbers[e->n];

	snprintf(text, sizeof(e->numbers[0]), "%lld", (long long)number);
	put_text(e, text);
}

static void end(const struct entry *e)
{
	sr_syscall(SYS_writev, journal, SR_ARG(e->field), e->n, 0, 0, 0);
}

static void note_call(const struct sr_call_desc *d, const uint64_t *a)
{
	struct entry e = {.n = 0};

	if (journal < 0)
		return;
	put_text(&e, d->name);
	for (int i = 0; i < d->nargs; i++) {
		if (d->length_of[i] == SR_LENGTH_TEXT)
			put_text(&e, a[i] ? (const char *)a[i] : "");
		else if (d->length_of[i])
			put_text(&e, "");
		else
			put_number(&e, (int)a[i]);
	}
	end(&e);
}

static void note_directory(const struct sr_opened_file *f, int fd)
{
	struct entry e = {.n = 0};

	put_text(&e, "directory");
	put_number(&e, fd);
	put_text(&e, f->path);
	end(&e);
}

void sr_changes_opened(const struct sr_opened_file *f, int fd, int flags, unsigned int mode)
{
	struct entry e = {.n = 0};

	if (journal < 0)
		return;
	if (f->class == SR_FD_PLAIN)
		note_directory(f, fd);
	if (f->class != SR_FD_FILE)
		return;
	if ((flags & O_ACCMODE) == O_RDONLY)
		return;
	put_text(&e, "opened");
	put_number(&e, fd);
	put_number(&e, (int64_t)f->key);
	put_number(&e, flags & O_CREAT && !f->size && !f->own ? (int64_t)mode : -1);
	put_text(&e, f->path);
	end(&e);
}

void sr_changes_duplicated(int from, int to)
{
	struct entry e = {.n = 0};

	if (journal < 0)
		return;
	put_text(&e, "duplicate");
	put_number(&e, from);
	put_number(&e, to);
	end(&e);
}

/* ------------------------------------------------------------------- calls */

void sr_replayed_change(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result < 0)
		return;
	if (sr_private_fd() < 0)
		sr_real(d, a);
	else
		note_call(d, a);
}

void sr_replayed_truncate(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	long fd;

	if ((int)result < 0)
		return;
	if (sr_private_fd() < 0)
		sr_real(d, a);
	if (sr_private_fd() < 0 || sr_self.opened.class != SR_FD_FILE)
		return;
	fd = sr_private_open(&sr_self.opened, AT_FDCWD, (const char *)a[0], O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	sr_changes_opened(&sr_self.opened, -1, O_WRONLY, 0);
	sr_sys_ftruncate((int)fd, a[1]);
	sr_sys_close((int)fd);
}

/* The replay's own standard output keeps its size. */
void sr_replayed_resize(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (!(int)result && (sr_private_fd() < 0 || !sr_is_inherited((int)a[0])))
		sr_real(d, a);
}

/* A private file's position is that of its descriptor. */
void sr_replayed_lseek(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	const int fd = (int)a[0];

	if ((int64_t)result < 0 || sr_is_inherited(fd))
		return;
	if (sr_fd_is_captured_file(fd))
		sr_syscall(SYS_lseek, fd, (long)result, SEEK_SET, 0, 0, 0);
	else if (!sr_fd_captured(fd))
		sr_real(d, a);
}

void sr_replayed_read(const struct sr_call_desc *d, const uint64_t *a, uint64_t result)
{
	const bool moves = d == &sr_calls[SR_CALL_read] || d == &sr_calls[SR_CALL___read_chk] || d == &sr_calls[SR_CALL_readv];

	if (moves && (int64_t)result > 0 && sr_fd_is_captured_file((int)a[0]))
		sr_syscall(SYS_lseek, (int)a[0], (long)result, SEEK_CUR, 0, 0, 0);
}

/* The directory of the process is no one else's affair. */
void sr_replayed_chdir(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result < 0)
		return;
	sr_real(d, a);
	if (sr_private_fd() >= 0)
		note_call(d, a);
}
