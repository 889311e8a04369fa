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
#include "logd/trace/file_hash.h"
#include "logd/writer/file_lines.h"
#include "logd/writer/held_inputs.h"

/* How long a daemon that ends waits for files that are being read. */
#define STOP_SECONDS 4

enum job_kind {
	JOB_NOTE, /* a file */
	JOB_HOLD, /* a file that has been noted already */
	JOB_ANSWER, /* to one that waits for such files to be held */
	JOB_KEEP_REPLACED,
};

/* One file on its way, mostly. */
struct job {
	struct job *next;
	enum job_kind kind;
	struct read_files *of;
	struct stat before;
	char path[PATH_MAX];
	char file[96]; /* its identity */
	uint64_t number;
	bool keep;
	int fd; /* -1: none */
	struct connection asker; /* of its own descriptor; answered after the first line */
	struct sr_message request;
};

struct read_files {
	struct site *site;
	struct files_place place;
	struct held_inputs held; /* the content thread's */
	atomic_uint offered;
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
 * wait for, another one opens files that are to be held, and a third one reads the files.
 */
struct site {
	struct site *next;
	dev_t device;
	int event_fd;
	struct queue begin, open, content;
};

struct files {
	int event_fd;
	struct site *sites;
};

/* ---- lines of files.jsonl ---- */

/* Writes a line that says so much beside what all lines about the file say. */
static int put_line(const struct job *j, struct file_line line)
{
	struct file_lines lines = {0};
	int err;

	line.file = j->file;
	line.path = j->path;
	line.path_bytes = strlen(j->path);
	line.size = (uint64_t)j->before.st_size;
	line.number = j->number;
	err = file_lines_add(&lines, &line);
	if (!err)
		err = file_lines_append(j->of->place.rank_fd, &lines);
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

	if (mkdirat(j->of->place.trace_fd, "files", 0700) && errno != EEXIST)
		return -errno;
	draft_name(name);
	unlinkat(j->of->place.trace_fd, name, 0); /* of a daemon of the same number that was killed */
	fd = openat(j->of->place.trace_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/* name consists of hash and size, so that ranks with the same input share the copy. */
static int name_copy(const struct job *j, const char *name)
{
	char draft[64];

	draft_name(draft);
	return renameat(j->of->place.trace_fd, draft, j->of->place.trace_fd, name) ? -errno : 0;
}

static void drop_copy(const struct job *j)
{
	char draft[64];

	draft_name(draft);
	unlinkat(j->of->place.trace_fd, draft, 0);
}

static bool has_changed(const struct job *j, uint64_t size)
{
	struct stat now;

	return fstat(j->fd, &now) || size != (uint64_t)j->before.st_size || !is_same_content(&now, &j->before);
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
		log_trace(j->of->place.trace_fd, "%s, which a recorded process reads, %s: %s", j->path,
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

	if (j->fd >= 0)
		close(j->fd);
	atomic_fetch_sub(j->of->place.busy, 1);
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

static void hold(struct job *j)
{
	held_inputs_add(&j->of->held, j->fd, &j->before, j->path, j->file, j->number);
	j->fd = -1;
}

/* Nothing is lost if it is another file by now: then nobody can keep it. */
static void open_unchanged(struct job *j)
{
	struct stat now;

	j->fd = open(j->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (j->fd < 0 || (!fstat(j->fd, &now) && S_ISREG(now.st_mode) && is_same_content(&now, &j->before)))
		return;
	close(j->fd);
	j->fd = -1;
}

/* In the order in which they came: a large file, which takes long to read, is not in their way. */
static void serve_open(struct queue *q, struct job *j)
{
	if (j->kind == JOB_ANSWER) {
		answer(j, 0);
		finish_job(q, j);
		return;
	}
	if (j->kind == JOB_HOLD)
		open_unchanged(j);
	enqueue(&q->site->content, j);
}

static int serve_note(struct job *j)
{
	bool large = !j->keep && (uint64_t)j->before.st_size > FILE_WHOLE_MAX;
	int err = large ? note_samples(j) : note_content(j);

	if (!j->keep && !large)
		hold(j);
	return err;
}

static int keep_replaced(struct job *j)
{
	struct held_input *input;
	int err = 0, one;

	while ((input = held_inputs_next_replaced(&j->of->held))) {
		j->before = input->st;
		j->number = input->number;
		j->keep = true;
		snprintf(j->file, sizeof(j->file), "%s", input->file);
		snprintf(j->path, sizeof(j->path), "%s", input->path);
		j->fd = input->fd;
		one = note_content(j);
		err = one ? one : err;
		j->fd = -1;
		held_input_free(input);
	}
	return err;
}

static void serve_content(struct queue *q, struct job *j)
{
	int err = 0;

	if (j->kind == JOB_NOTE)
		err = serve_note(j);
	else if (j->kind == JOB_KEEP_REPLACED)
		err = keep_replaced(j);
	else if (j->fd >= 0)
		hold(j);
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

static void end_queue(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->stopping = true;
	pthread_cond_signal(&q->added);
	pthread_mutex_unlock(&q->lock);
}

/* False: it is stuck in its file system. */
static bool stop_queue(struct queue *q, const struct timespec *until)
{
	end_queue(q);
	return !pthread_timedjoin_np(q->thread, NULL, until);
}

/* All of them, or none. */
static bool start_queues(struct site *s)
{
	struct queue *const queues[] = {&s->begin, &s->open, &s->content};
	void (*const serve[])(struct queue *q, struct job *j) = {serve_begin, serve_open, serve_content};
	const int n = sizeof(queues) / sizeof(queues[0]);
	int started = 0;

	while (started < n && !start_queue(queues[started], s, serve[started]))
		started++;
	if (started == n)
		return true;
	while (started--) {
		end_queue(queues[started]);
		pthread_join(queues[started]->thread, NULL);
	}
	return false;
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
	if (!start_queues(s)) {
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
		if (stop_queue(&s->begin, &until) && stop_queue(&s->open, &until) && stop_queue(&s->content, &until))
			free(s);
		else
			all = false;
	}
	if (all)
		free(f);
	return all;
}

static void name_file(struct job *j)
{
	const struct stat *st = &j->before;

	snprintf(j->file, sizeof(j->file), "%llx:%llx:%lld.%09ld", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
		 (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
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
	if (!fstat(j->fd, &j->before) && S_ISREG(j->before.st_mode)) {
		name_file(j);
		return 0;
	}
	close(j->fd);
	return -EINVAL;
}

/* The answer comes from another thread, so it needs a descriptor that the main thread does not
 * close. */
static int open_asker(struct job *j, const struct connection *asker, const struct sr_message *request)
{
	j->request = *request;
	j->asker.source.fd = fcntl(asker->source.fd, F_DUPFD_CLOEXEC, 0);
	return j->asker.source.fd < 0 ? -errno : 0;
}

static struct job *new_job(struct read_files *of, enum job_kind kind)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->kind = kind;
	j->of = of;
	j->fd = -1;
	return j;
}

static void add(struct queue *q, struct job *j)
{
	atomic_fetch_add(j->of->place.busy, 1);
	enqueue(q, j);
}

int files_add(struct read_files *of, const struct file_note *note)
{
	struct job *j = new_job(of, JOB_NOTE);
	int err;

	if (!j)
		return -ENOMEM;
	j->number = note->number;
	j->keep = note->keep;
	err = open_again(note, j);
	if (!err && (err = open_asker(j, note->asker, note->request)))
		close(j->fd);
	if (err) {
		free(j);
		return err;
	}
	add(&of->site->begin, j);
	return 0;
}

struct read_files *files_of_process(struct files *f, const struct files_place *place)
{
	struct site *site = find_site(f, place->device);
	struct read_files *of = site ? calloc(1, sizeof(*of)) : NULL;

	if (!of)
		return NULL;
	of->site = site;
	of->place = *place;
	return of;
}

void files_forget(struct read_files *of)
{
	if (of)
		held_inputs_free(&of->held);
	free(of);
}

/* A program that reads more small files walks a tree: to open them all here would take longer than to note them. */
#define SMALL_MOST 2000

void files_hold(struct read_files *of, const struct stat *st, const char *path, size_t path_bytes, const char *file, uint64_t number)
{
	struct job *j;

	if (!of || path_bytes >= sizeof(j->path) || !path_bytes || path[0] != '/' || atomic_fetch_add(&of->offered, 1) >= SMALL_MOST)
		return;
	j = new_job(of, JOB_HOLD);
	if (!j)
		return;
	j->before = *st;
	j->number = number;
	memcpy(j->path, path, path_bytes);
	snprintf(j->file, sizeof(j->file), "%s", file);
	add(&of->site->open, j);
}

int files_await_held(struct read_files *of, const struct connection *asker, const struct sr_message *request)
{
	struct job *j = new_job(of, JOB_ANSWER);
	int err = j ? open_asker(j, asker, request) : -ENOMEM;

	if (err)
		free(j);
	else
		add(&of->site->open, j);
	return err;
}

void files_keep_replaced(struct read_files *of)
{
	struct job *j = of ? new_job(of, JOB_KEEP_REPLACED) : NULL;

	if (j)
		add(&of->site->open, j); /* behind those that are about to be held */
}
