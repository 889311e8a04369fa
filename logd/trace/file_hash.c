/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/file_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "logd/base/zeros.h"
#include "logd/trace/file_io.h"

#define BLOCK (256u << 10)

/* Leaves a hole where there are zeros. */
static int write_block(int to, const char *data, size_t n)
{
	if (is_zeros(data, n))
		return lseek(to, (off_t)n, SEEK_CUR) < 0 ? -errno : 0;
	return write_all(to, data, n);
}

/*
 * The file behind a descriptor whose offset is somebody else's, and its holes, which are not read: memory that processes
 * share has many GiB of them.
 */
struct holes {
	int seeker;    /* the same file, opened for that; -1: it cannot be */
	uint64_t data; /* from here on there are data, or no file */
};

/* Of a small file there is nothing to save. */
static void open_holes(struct holes *h, int fd)
{
	struct stat st;
	char path[40];

	*h = (struct holes){-1, 0};
	if (fstat(fd, &st) || (uint64_t)st.st_size <= FILE_WHOLE_MAX)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	h->seeker = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* ENXIO: there are no data to the file's end. */
static void seek_data(struct holes *h, uint64_t at)
{
	off_t data = lseek(h->seeker, (off_t)at, SEEK_DATA);
	struct stat st;

	if (data < 0 && errno == ENXIO && !fstat(h->seeker, &st))
		data = st.st_size;
	if (data > (off_t)at)
		h->data = (uint64_t)data;
}

static ssize_t read_block(struct holes *h, int fd, char *data, uint64_t at)
{
	uint64_t n;

	if (h->seeker >= 0 && at >= h->data)
		seek_data(h, at);
	if (at >= h->data)
		return pread(fd, data, BLOCK, (off_t)at);
	n = h->data - at < BLOCK ? h->data - at : BLOCK;
	memset(data, 0, n);
	return (ssize_t)n;
}

static int hash_blocks(XXH3_state_t *state, struct holes *h, char *data, int fd, int to, uint64_t *size)
{
	ssize_t n;
	int err = 0;

	while (!err && (n = read_block(h, fd, data, *size)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		XXH3_64bits_update(state, data, (size_t)n);
		*size += (uint64_t)n;
		if (to >= 0)
			err = write_block(to, data, (size_t)n);
	}
	if (!err && to >= 0 && ftruncate(to, (off_t)*size))
		err = -errno;
	return err;
}

int file_hash_copy(int fd, int to, char hex[17], uint64_t *size)
{
	XXH3_state_t *state = XXH3_createState();
	void *data = malloc(BLOCK);
	struct holes holes;
	int err = -ENOMEM;

	*size = 0;
	if (state && data) {
		XXH3_64bits_reset(state);
		open_holes(&holes, fd);
		err = hash_blocks(state, &holes, data, fd, to, size);
		if (holes.seeker >= 0)
			close(holes.seeker);
		snprintf(hex, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	}
	XXH3_freeState(state);
	free(data);
	return err;
}

#define SAMPLES      64
#define SAMPLE_BYTES (16u << 10)

int file_sample(int fd, uint64_t size, char hex[17])
{
	XXH3_state_t *state = XXH3_createState();
	unsigned char data[SAMPLE_BYTES];
	int err = state && size >= SAMPLE_BYTES ? 0 : -ENOMEM;

	if (!err)
		XXH3_64bits_reset(state);
	for (uint64_t i = 0; !err && i < SAMPLES; i++) {
		/* In this order, without an overflow for any size of a file. */
		uint64_t at = (size - SAMPLE_BYTES) / (SAMPLES - 1) * i;

		if (i == SAMPLES - 1)
			at = size - SAMPLE_BYTES;
		if (read_fully(fd, data, SAMPLE_BYTES, at))
			XXH3_64bits_update(state, data, SAMPLE_BYTES);
		else
			err = -EIO;
	}
	if (!err)
		snprintf(hex, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	XXH3_freeState(state);
	return err;
}

bool file_hash(int fd, char hex[17])
{
	uint64_t size;

	return !file_hash_copy(fd, -1, hex, &size);
}
