/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/files.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/service/log.h"
#include "logd/trace/elf_id.h"
#include "logd/writer/process.h"

/* One file on its way. */
struct job {
	struct job *next;
	struct stat before;
	char path[PATH_MAX];
	uint64_t number;
	bool keep;
	int fd, trace_fd, rank_fd;
	_Atomic unsigned *busy;
};

struct files {
	pthread_t thread;
	int event_fd;
	pthread_mutex_t lock; /* for what follows; no other lock is taken under it */
	pthread_cond_t added;
	struct job *first, **last;
	bool stopping;
};

/* ---- lines of files.jsonl ---- */

/* Identifies file and content: all lines about the same have the same. */
static void put_identity(json_t *line, const struct stat *st)
{
	char text[96];

	snprintf(text, sizeof(text), "%llx:%llx:%lld.%09ld", (unsigned long long)st->st_dev,
		 (unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec,
		 st->st_mtim.tv_nsec);
	json_object_set_new(line, "file", json_string(text));
}

static json_t *begin_line(const struct job *j)
{
	json_t *line = json_object();

	put_identity(line, &j->before);
	json_object_set_new(line, "path", process_bytes(j->path, strlen(j->path)));
	json_object_set_new(line, "size", json_integer(j->before.st_size));
	if (j->number)
		json_object_set_new(line, "note", json_integer((json_int_t)j->number));
	return line;
}

/* One write, so that a killed daemon leaves a whole line or none. */
static int put_line(int rank_fd, json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER), *all = NULL;
	int n = text ? asprintf(&all, "%s\n", text) : -1;
	int fd = n < 0 ? -1
		       : openat(rank_fd, "files.jsonl",
				O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	int err = n < 0 ? -ENOMEM : fd < 0 ? -errno : 0;

	if (!err && write(fd, all, (size_t)n) != n)
		err = -EIO;
	if (fd >= 0)
		close(fd);
	if (n >= 0)
		free(all);
	free(text);
	json_decref(line);
	return err;
}

/* ---- content ---- */

/* Not every file system has O_TMPFILE.  One thread makes one draft at a time. */
static void draft_name(char name[64])
{
	snprintf(name, 64, "files/.draft-%d", (int)getpid());
}

static int open_copy(const struct job *j)
{
	char name[64];
	int fd;

	if (mkdirat(j->trace_fd, "files", 0700) && errno != EEXIST)
		return -errno;
	draft_name(name);
	unlinkat(j->trace_fd, name, 0); /* of a daemon of the same number that was killed */
	fd = openat(j->trace_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/* name consists of hash and size, so that ranks with the same input share the copy. */
static int name_copy(const struct job *j, const char *name)
{
	char draft[64];

	draft_name(draft);
	return renameat(j->trace_fd, draft, j->trace_fd, name) ? -errno : 0;
}

static void drop_copy(const struct job *j)
{
	char draft[64];

	draft_name(draft);
	unlinkat(j->trace_fd, draft, 0);
}

static bool has_changed(const struct job *j, uint64_t size)
{
	const struct stat *b = &j->before;
	struct stat now;

	return fstat(j->fd, &now) || size != (uint64_t)b->st_size || now.st_size != b->st_size ||
	       now.st_mtim.tv_sec != b->st_mtim.tv_sec || now.st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

/* Reads the file and writes the second line about it. */
static int note_content(const struct job *j)
{
	int copy = j->keep ? open_copy(j) : -1, err = copy < 0 && j->keep ? copy : 0;
	json_t *line = begin_line(j);
	char hash[17], name[64];
	uint64_t size = 0;

	if (!err)
		err = file_hash_copy(j->fd, copy, hash, &size);
	if (!err && has_changed(j, size)) {
		json_object_set_new(line, "changed", json_true());
	} else if (!err) {
		json_object_set_new(line, "xxh3", json_string(hash));
		snprintf(name, sizeof(name), "files/%s-%llu", hash, (unsigned long long)size);
		if (j->keep && !(err = name_copy(j, name)))
			json_object_set_new(line, "kept", json_string(name));
	}
	if (copy >= 0) {
		close(copy);
		drop_copy(j); /* unless it has its name */
	}
	if (err)
		json_object_set_new(line, "error", json_string(strerror(-err)));
	if (err)
		log_trace(j->trace_fd, "%s, which a recorded process reads, %s: %s", j->path,
			  j->keep ? "cannot be kept" : "cannot be hashed", strerror(-err));
	return put_line(j->rank_fd, line);
}

/* ---- the thread ---- */

static struct job *next_job(struct files *f)
{
	struct job *j;

	pthread_mutex_lock(&f->lock);
	while (!f->first && !f->stopping)
		pthread_cond_wait(&f->added, &f->lock);
	j = f->first;
	if (j && !(f->first = j->next))
		f->last = &f->first;
	pthread_mutex_unlock(&f->lock);
	return j;
}

static void *work(void *argument)
{
	struct files *f = argument;
	uint64_t one = 1;
	struct job *j;

	while ((j = next_job(f))) {
		int err = note_content(j);

		if (err)
			log_line("cannot write about %s: %s", j->path, strerror(-err));
		close(j->fd);
		atomic_fetch_sub(j->busy, 1);
		free(j);
		if (write(f->event_fd, &one, sizeof(one)) < 0)
			continue; /* the counter is full: the main thread wakes up anyway */
	}
	return NULL;
}

int files_start(struct files **files, int event_fd)
{
	struct files *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->event_fd = event_fd;
	f->last = &f->first;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->added, NULL);
	err = pthread_create(&f->thread, NULL, work, f);
	if (err)
		free(f);
	else
		*files = f;
	return -err;
}

void files_stop(struct files *f)
{
	pthread_mutex_lock(&f->lock);
	f->stopping = true;
	pthread_cond_signal(&f->added);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	free(f);
}

static void enqueue(struct files *f, struct job *j)
{
	atomic_fetch_add(j->busy, 1);
	pthread_mutex_lock(&f->lock);
	*f->last = j;
	f->last = &j->next;
	pthread_cond_signal(&f->added);
	pthread_mutex_unlock(&f->lock);
}

/* Opens the file anew: the process may have it open for writing only. */
static int open_again(const struct file_note *note, struct job *j)
{
	char self[40];
	ssize_t n;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", note->fd);
	if (snprintf(j->path, sizeof(j->path), "%s", note->path) >= (int)sizeof(j->path))
		return -ENAMETOOLONG;
	if (!j->path[0]) {
		n = readlink(self, j->path, sizeof(j->path) - 1);
		j->path[n > 0 ? n : 0] = 0;
	}
	j->fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (j->fd < 0)
		return -errno;
	if (!fstat(j->fd, &j->before) && S_ISREG(j->before.st_mode))
		return 0;
	close(j->fd);
	return -EINVAL;
}

int files_add(struct files *f, const struct file_note *note)
{
	struct job *j = calloc(1, sizeof(*j));
	int err;

	if (!j)
		return -ENOMEM;
	j->number = note->number;
	j->keep = note->keep;
	j->trace_fd = note->trace_fd;
	j->rank_fd = note->rank_fd;
	j->busy = note->busy;
	err = open_again(note, j);
	if (err) {
		free(j);
		return err;
	}
	/* At once: if the daemon is killed before the rest, readers know of the file. */
	err = put_line(j->rank_fd, begin_line(j));
	if (err) {
		close(j->fd);
		free(j);
		return err;
	}
	enqueue(f, j);
	return 0;
}
