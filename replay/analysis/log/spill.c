/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/spill.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "replay/analysis/log/grow.h"

/* How often it is looked whether too much is mapped. */
#define PAUSE_NS 20000000

struct segment {
	char *at;
	size_t bytes;
	off_t place; /* in the file */
	bool is_tail; /* the last one of what grows: it is in use */
};

static struct {
	pthread_mutex_t lock;
	struct segment *segments;
	size_t n, room;
	size_t resident; /* bytes */
	off_t end;
	int fd; /* 0: there is none yet; -1: none can be made */
} spill = {.lock = PTHREAD_MUTEX_INITIALIZER, .resident = SIZE_MAX};

void sr_spill_limit(size_t resident)
{
	spill.resident = resident;
}

/* ------------------------------------------------------------- what is mapped */

/* Bytes of files that this process has mapped in memory. */
static size_t mapped_of_files(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%*s %*s %zu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void unmap_pages(bool of_tails)
{
	pthread_mutex_lock(&spill.lock);
	for (size_t i = 0; i < spill.n; i++)
		if (of_tails || !spill.segments[i].is_tail)
			madvise(spill.segments[i].at, spill.segments[i].bytes, MADV_DONTNEED);
	pthread_mutex_unlock(&spill.lock);
}

static bool is_too_much(void)
{
	return mapped_of_files() > spill.resident;
}

static void *watch(void *argument)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	(void)argument;
	for (;;) {
		nanosleep(&pause, NULL);
		if (!is_too_much())
			continue;
		unmap_pages(false);
		if (is_too_much())
			unmap_pages(true);
	}
	return NULL;
}

static bool start_watch(void)
{
	sigset_t all, before;
	pthread_t thread;
	bool fine;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	fine = !pthread_create(&thread, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (fine)
		pthread_detach(thread);
	return fine;
}

/* -------------------------------------------------------------------- the file */

/* A file in memory would save none. */
static int open_in(const char *directory)
{
	struct statfs s;

	return directory && !statfs(directory, &s) && s.f_type != TMPFS_MAGIC ? open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
}

static bool has_file(void)
{
	if (!spill.fd) {
		spill.fd = open_in(getenv("TMPDIR"));
		if (spill.fd < 0)
			spill.fd = open_in("/var/tmp");
		if (spill.fd >= 0 && !start_watch()) {
			close(spill.fd);
			spill.fd = -1;
		}
	}
	return spill.fd >= 0;
}

/* What ended there goes on. */
static void end_tail(const char *at)
{
	for (size_t i = 0; i < spill.n; i++)
		if (spill.segments[i].at + spill.segments[i].bytes == at)
			spill.segments[i].is_tail = false;
}

/* What is written to pages for which the disk has no space ends the process: it is taken before. */
static void *map(void *at, size_t bytes)
{
	struct segment *s;
	void *made;

	if (!has_file())
		return NULL;
	s = sr_grow((void **)&spill.segments, spill.n, &spill.room, sizeof(*s));
	if (!s || fallocate(spill.fd, 0, spill.end, (off_t)bytes))
		return NULL;
	made = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), spill.fd, spill.end);
	if (made == MAP_FAILED) {
		fallocate(spill.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, spill.end, (off_t)bytes);
		return NULL;
	}
	end_tail(at);
	/* One by one its pages are ten times as slow. */
	if (at)
		madvise(at, bytes, MADV_POPULATE_WRITE);
	*s = (struct segment){made, bytes, spill.end, at};
	spill.n++;
	spill.end += (off_t)bytes;
	return made;
}

void *sr_spill_map(void *at, size_t bytes)
{
	void *made;

	pthread_mutex_lock(&spill.lock);
	made = map(at, bytes);
	pthread_mutex_unlock(&spill.lock);
	return made;
}

static bool is_in(const struct segment *s, const void *at, size_t bytes)
{
	return s->at < (const char *)at + bytes && (const char *)at < s->at + s->bytes;
}

bool sr_spill_has(const void *at, size_t bytes)
{
	bool has = false;

	pthread_mutex_lock(&spill.lock);
	for (size_t i = 0; i < spill.n && !has; i++)
		has = is_in(&spill.segments[i], at, bytes);
	pthread_mutex_unlock(&spill.lock);
	return has;
}

size_t sr_spill_forget(void *at, size_t bytes)
{
	size_t kept = 0, all = 0;

	pthread_mutex_lock(&spill.lock);
	for (size_t i = 0; i < spill.n; i++) {
		const struct segment s = spill.segments[i];

		if (!is_in(&s, at, bytes)) {
			spill.segments[kept++] = s;
			continue;
		}
		all += s.bytes;
		fallocate(spill.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, s.place, (off_t)s.bytes);
	}
	spill.n = kept;
	pthread_mutex_unlock(&spill.lock);
	return all;
}
