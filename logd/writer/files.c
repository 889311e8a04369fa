/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "logd/service/log.h"
#include "logd/trace/elf_id.h"
#include "logd/writer/file_lines.h"

/* How long a daemon that ends waits for files that are being read. */
#define STOP_SECONDS 4

/* One file on its way. */
struct job {
	struct job *next;
	struct stat before;
	char path[PATH_MAX];
	uint64_t number;
	bool keep;
	int fd, trace_fd, rank_fd;
	struct connection asker; /* of its own descriptor; answered after the first line */
	struct sr_message request;
	_Atomic unsigned *busy;
};

/* A thread and what it has to do. */
struct queue {
	struct site *site;
	void (*serve)(struct queue *q, struct job *j);
	pthread_t thread;
	pthread_mutex_t lock; /* for what follows; no other lock is taken under it */
	pthread_cond_t added;
	struct job *first, **last;
	bool stopping;
};

/*
 * The traces on one file system: a thread writes the first line about each file, which programs
 * wait for, and another one reads the files.
 */
struct site {
	struct site *next;
	dev_t device;
	int event_fd;
	struct queue begin, content;
};

struct files {
	int event_fd;
	struct site *sites;
};

/* ---- lines of files.jsonl ---- */

/* Writes a line that says so much beside what all lines about the file say. */
static int put_line(const struct job *j, struct file_line line)
{
	const struct stat *st = &j->before;
	struct file_lines lines = {0};
	char file[96];
	int err;

	snprintf(file, sizeof(file), "%llx:%llx:%lld.%09ld", (unsigned long long)st->st_dev,
		 (unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	line.file = file;
	line.path = j->path;
	line.path_bytes = strlen(j->path);
	line.size = (uint64_t)st->st_size;
	line.number = j->number;
	err = file_lines_add(&lines, &line);
	if (!err)
		err = file_lines_append(j->rank_fd, &lines);
	file_lines_free(&lines);
	return err;
}

/* ---- content ---- */

/* Not every file system has O_TMPFILE.  In a trace, one thread makes one draft at a time. */
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

/* The second line about a file that is too large to be read for that. */
static int note_samples(const struct job *j)
{
	struct file_line line = {0};
	char hash[17];
	int err = file_sample(j->fd, (uint64_t)j->before.st_size, hash);

	if (has_changed(j, (uint64_t)j->before.st_size))
		line.changed = true;
	else if (err)
		line.error = strerror(-err);
	else
		line.samples = hash;
	return put_line(j, line);
}

/* Reads the file and writes the second line about it. */
static int note_content(const struct job *j)
{
	int copy = j->keep ? open_copy(j) : -1, err = copy < 0 && j->keep ? copy : 0;
	struct file_line line = {0};
	char hash[17], name[64];
	uint64_t size = 0;

	if (!err)
		err = file_hash_copy(j->fd, copy, hash, &size);
	if (!err && has_changed(j, size)) {
		line.changed = true;
	} else if (!err) {
		line.xxh3 = hash;
		snprintf(name, sizeof(name), "files/%s-%llu", hash, (unsigned long long)size);
		if (j->keep && !(err = name_copy(j, name)))
			line.kept = name;
	}
	if (copy >= 0) {
		close(copy);
		drop_copy(j); /* unless it has its name */
	}
	if (err) {
		line.error = strerror(-err);
		log_trace(j->trace_fd, "%s, which a recorded process reads, %s: %s", j->path,
			  j->keep ? "cannot be kept" : "cannot be hashed", strerror(-err));
	}
	return put_line(j, line);
}

/* ---- the threads ---- */

static void enqueue(struct queue *q, struct job *j)
{
	j->next = NULL;
	pthread_mutex_lock(&q->lock);
	*q->last = j;
	q->last = &j->next;
	pthread_cond_signal(&q->added);
	pthread_mutex_unlock(&q->lock);
}

static struct job *next_job(struct queue *q)
{
	struct job *j;

	pthread_mutex_lock(&q->lock);
	while (!q->first && !q->stopping)
		pthread_cond_wait(&q->added, &q->lock);
	j = q->first;
	if (j && !(q->first = j->next))
		q->last = &q->first;
	pthread_mutex_unlock(&q->lock);
	return j;
}

static void *work(void *argument)
{
	struct queue *q = argument;
	struct job *j;

	while ((j = next_job(q)))
		q->serve(q, j);
	return NULL;
}

static void finish_job(struct queue *q, struct job *j)
{
	uint64_t one = 1;

	close(j->fd);
	atomic_fetch_sub(j->busy, 1);
	free(j);
	if (write(q->site->event_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the main thread wakes up anyway */
}

static void answer(struct job *j, int err)
{
	connection_answer_error(&j->asker, &j->request, err, "");
	close(j->asker.source.fd);
}

/* The first line: if the daemon is killed before the rest, readers know of the file. */
static void serve_begin(struct queue *q, struct job *j)
{
	int err = put_line(j, (struct file_line){0});

	answer(j, err);
	if (err)
		finish_job(q, j);
	else
		enqueue(&q->site->content, j);
}

static void serve_content(struct queue *q, struct job *j)
{
	bool large = !j->keep && (uint64_t)j->before.st_size > FILE_WHOLE_MAX;
	int err = large ? note_samples(j) : note_content(j);

	if (err)
		log_line("cannot write about %s: %s", j->path, strerror(-err));
	finish_job(q, j);
}

static int start_queue(struct queue *q, struct site *site,
		       void (*serve)(struct queue *q, struct job *j))
{
	q->site = site;
	q->serve = serve;
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->added, NULL);
	return -pthread_create(&q->thread, NULL, work, q);
}

/* False: it is stuck in its file system. */
static bool stop_queue(struct queue *q, const struct timespec *until)
{
	pthread_mutex_lock(&q->lock);
	q->stopping = true;
	pthread_cond_signal(&q->added);
	pthread_mutex_unlock(&q->lock);
	return !pthread_timedjoin_np(q->thread, NULL, until);
}

static struct site *find_site(struct files *f, dev_t device)
{
	struct site *s;

	for (s = f->sites; s; s = s->next)
		if (s->device == device)
			return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->device = device;
	s->event_fd = f->event_fd;
	if (start_queue(&s->begin, s, serve_begin)) {
		free(s);
		return NULL;
	}
	if (start_queue(&s->content, s, serve_content)) {
		pthread_mutex_lock(&s->begin.lock);
		s->begin.stopping = true;
		pthread_cond_signal(&s->begin.added);
		pthread_mutex_unlock(&s->begin.lock);
		pthread_join(s->begin.thread, NULL);
		free(s);
		return NULL;
	}
	s->next = f->sites;
	f->sites = s;
	return s;
}

/* ---- from the main thread ---- */

int files_start(struct files **files, int event_fd)
{
	struct files *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->event_fd = event_fd;
	*files = f;
	return 0;
}

bool files_stop(struct files *f)
{
	struct timespec until;
	bool all = true;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_SECONDS;
	for (struct site *s = f->sites, *next; s; s = next) {
		next = s->next;
		if (stop_queue(&s->begin, &until) && stop_queue(&s->content, &until))
			free(s);
		else
			all = false;
	}
	if (all)
		free(f);
	return all;
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

/* The answer comes from another thread, so it needs a descriptor that the main thread does not
 * close. */
static int open_asker(const struct file_note *note, struct job *j)
{
	j->request = *note->request;
	j->asker.source.fd = fcntl(note->asker->source.fd, F_DUPFD_CLOEXEC, 0);
	return j->asker.source.fd < 0 ? -errno : 0;
}

int files_add(struct files *f, const struct file_note *note)
{
	struct site *site = find_site(f, note->device);
	struct job *j = site ? calloc(1, sizeof(*j)) : NULL;
	int err;

	if (!j)
		return -ENOMEM;
	j->number = note->number;
	j->keep = note->keep;
	j->trace_fd = note->trace_fd;
	j->rank_fd = note->rank_fd;
	j->busy = note->busy;
	err = open_again(note, j);
	if (!err && (err = open_asker(note, j)))
		close(j->fd);
	if (err) {
		free(j);
		return err;
	}
	atomic_fetch_add(j->busy, 1);
	enqueue(&site->begin, j);
	return 0;
}
