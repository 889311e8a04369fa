/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/plan/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define BUFFER_BYTES 32768

static const struct {
	const char *name;
	size_t bytes;
} kinds[SR_PLAN_KINDS] = {
    [SR_PLAN_WAIT] = {"wait", sizeof(struct sr_plan_wait)},
    [SR_PLAN_WAKE] = {"wake", sizeof(struct sr_plan_wake)},
    [SR_PLAN_CHECK] = {"check", sizeof(struct sr_plan_check)},
    [SR_PLAN_REQUEST] = {"request", sizeof(struct sr_plan_request)},
    [SR_PLAN_PEER] = {"peer", sizeof(struct sr_plan_peer)},
    [SR_PLAN_PLACE] = {"index", sizeof(struct sr_plan_place)},
    [SR_PLAN_PICK] = {"pick", sizeof(struct sr_plan_pick)},
    [SR_PLAN_FOUND] = {"found", sizeof(struct sr_found_value)},
};

struct sr_plan_file {
	char dir[PATH_MAX];
	char path[PATH_MAX]; /* "" until there is something to write */
	struct sr_plan_header header;
	XXH3_state_t *sum;
	uint8_t *buffer;
	size_t used, bytes; /* of the buffer; of a record */
};

size_t sr_plan_record_bytes(enum sr_plan_kind kind)
{
	return kinds[kind].bytes;
}

uint64_t sr_plan_group_hash(const int32_t *ranks, size_t n)
{
	return XXH3_64bits(ranks, n * sizeof(*ranks));
}

int sr_plan_path(char *path, size_t size, const char *dir, enum sr_plan_kind kind, int32_t rank,
		 uint32_t thread)
{
	int n = kind == SR_PLAN_FOUND ? snprintf(path, size, "%s/rank-%d/found", dir, rank)
				      : snprintf(path, size, "%s/rank-%d/thread-%u.%s", dir, rank,
						 thread, kinds[kind].name);

	return n < (int)size ? 0 : -ENAMETOOLONG;
}

struct sr_plan_file *sr_plan_file_new(const char *dir, enum sr_plan_kind kind, int32_t rank,
				      uint32_t thread)
{
	struct sr_plan_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->bytes = kinds[kind].bytes;
	f->header = (struct sr_plan_header){
	    .version = SR_PLAN_VERSION, .kind = kind, .rank = rank, .thread = thread};
	memcpy(f->header.magic, SR_PLAN_MAGIC, sizeof(f->header.magic));
	f->sum = XXH3_createState();
	if (!f->sum || snprintf(f->dir, sizeof(f->dir), "%s", dir) >= (int)sizeof(f->dir)) {
		sr_plan_file_abandon(f);
		return NULL;
	}
	XXH3_64bits_reset(f->sum);
	return f;
}

static int put(int fd, const void *data, size_t size, off_t at)
{
	while (size) {
		ssize_t n = pwrite(fd, data, size, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data = (const char *)data + n;
		size -= (size_t)n;
		at += n;
	}
	return 0;
}

/* The directory and the file, at the first records. */
static int create(struct sr_plan_file *f)
{
	char dir[PATH_MAX + 32];
	struct stat st;

	snprintf(dir, sizeof(dir), "%s/rank-%d", f->dir, f->header.rank);
	if (mkdir(dir, 0777) && errno != EEXIST)
		return -errno;
	/* A stranger's trace may have links there. */
	if (lstat(dir, &st) || !S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return sr_plan_path(f->path, sizeof(f->path), f->dir, f->header.kind, f->header.rank,
			    f->header.thread);
}

static int flush(struct sr_plan_file *f)
{
	size_t written = f->header.count * f->bytes - f->used;
	int fd, err = 0;

	if (!f->used)
		return 0;
	if (!f->path[0])
		err = create(f);
	if (err)
		return err;
	fd = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (written ? 0 : O_TRUNC), 0666);
	if (fd < 0)
		return -errno;
	XXH3_64bits_update(f->sum, f->buffer, f->used);
	err = put(fd, f->buffer, f->used, (off_t)(sizeof(f->header) + written));
	close(fd);
	f->used = 0;
	return err;
}

int sr_plan_file_add(struct sr_plan_file *f, const void *record)
{
	int err;

	if (!f->buffer)
		f->buffer = malloc(BUFFER_BYTES);
	if (!f->buffer)
		return -ENOMEM;
	if (f->used + f->bytes > BUFFER_BYTES) {
		err = flush(f);
		if (err)
			return err;
	}
	memcpy(f->buffer + f->used, record, f->bytes);
	f->used += f->bytes;
	f->header.count++;
	return 0;
}

/* The header comes last: a file without one is none. */
static int put_header(struct sr_plan_file *f)
{
	int fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW), err;

	if (fd < 0)
		return -errno;
	err = put(fd, &f->header, sizeof(f->header), 0);
	close(fd);
	return err;
}

int sr_plan_file_finish(struct sr_plan_file *f, uint64_t identity, uint64_t group)
{
	int err = flush(f);

	if (!err && f->path[0]) {
		f->header.identity = identity;
		f->header.group = group;
		f->header.checksum = XXH3_64bits_digest(f->sum);
		f->header.header_checksum =
		    XXH3_64bits(&f->header, offsetof(struct sr_plan_header, header_checksum));
		err = put_header(f);
	}
	sr_plan_file_abandon(f);
	return err;
}

void sr_plan_file_abandon(struct sr_plan_file *f)
{
	if (!f)
		return;
	XXH3_freeState(f->sum);
	free(f->buffer);
	free(f);
}
