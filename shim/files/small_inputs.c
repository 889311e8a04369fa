/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/small_inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <sreplay/trace.h>

#include "logd/base/checksum.h"
#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"

/* Reading more takes as long as asking the daemon; and what is kept lies in the ring. */
#define READ_MOST (64u << 10)
#define KEEP_MOST (16u << 10)

static bool has_ring(const struct sr_thread *t)
{
	return sr_engine && !sr_engine->replays && sr_engine->active && t->started && !t->silent;
}

static int64_t changed_at(const struct statx *st)
{
	return (int64_t)st->stx_mtime.tv_sec * 1000000000 + st->stx_mtime.tv_nsec;
}

static bool read_content(int fd, void *to, uint64_t size)
{
	uint64_t n = 0;
	long got = 1;

	while (n < size && got > 0) {
		got = sr_syscall(SYS_pread64, fd, SR_ARG((char *)to + n), (long)(size - n), (long)n, 0, 0);
		n += got > 0 ? (uint64_t)got : 0;
	}
	return n == size;
}

/* What is said of a file, without its hash. */
static struct sr_input_payload describe(const struct statx *st, const char *path, uint32_t note)
{
	return (struct sr_input_payload){
	    .device = makedev(st->stx_dev_major, st->stx_dev_minor),
	    .inode = st->stx_ino,
	    .size = st->stx_size,
	    .changed = changed_at(st),
	    .note = note,
	    .path_bytes = (uint32_t)strlen(path),
	};
}

/* Is the descriptor still that file, and the file what it was? */
static bool is_still(int fd, const struct sr_input_payload *before)
{
	struct statx now;

	return !sr_syscall(SYS_statx, fd, SR_ARG(""), AT_EMPTY_PATH, STATX_BASIC_STATS, SR_ARG(&now), 0) &&
	       now.stx_ino == before->inode && makedev(now.stx_dev_major, now.stx_dev_minor) == before->device &&
	       now.stx_size == before->size && changed_at(&now) == before->changed;
}

/* ------------------------------------------------------ without the content */

/*
 * A program mostly reads a small file by one call, right after it has opened it.  Then the hash is made of what it has
 * read; else the file is read once more, before the thread opens the next one, closes it, or ends.
 */
struct sr_late_input {
	struct sr_input_payload head;
	char path[sizeof(((struct sr_opened_file *)0)->path)];
};

static void tell(struct sr_thread *t, const void *content)
{
	struct sr_late_input *late = t->late_input;

	late->head.hash = sr_checksum(content, late->head.size, 0);
	sr_engine->note(t, SR_REC_INPUT, late, sizeof(late->head) + late->head.path_bytes);
}

static void read_again(struct sr_thread *t, int fd)
{
	size_t size = t->late_input->head.size;
	void *content = sr_alloc(size + 1);

	if (content && is_still(fd, &t->late_input->head) && read_content(fd, content, size))
		tell(t, content);
	sr_free(content);
}

void sr_small_input_end(struct sr_thread *t)
{
	int fd = t->late_fd - 1;
	enum sr_heap before;
	int saved = errno;

	if (fd < 0)
		return;
	t->late_fd = 0;
	if (!has_ring(t))
		return;
	before = sr_enter(t);
	read_again(t, fd);
	sr_leave(t, before);
	errno = saved;
}

void sr_small_input_read(struct sr_thread *t, int fd, const void *content, long n)
{
	enum sr_heap before;
	int saved = errno;

	if (t->late_fd - 1 != fd)
		return;
	if (n < 0 || (uint64_t)n != t->late_input->head.size || !has_ring(t)) {
		sr_small_input_end(t);
		return;
	}
	t->late_fd = 0;
	before = sr_enter(t);
	tell(t, content);
	sr_leave(t, before);
	errno = saved;
}

static bool begin_late(struct sr_thread *t, int fd, const struct statx *st, const char *path, uint32_t note)
{
	struct sr_late_input *late = t->late_input;

	if (!late)
		late = t->late_input = sr_alloc(sizeof(*late));
	if (!late)
		return false;
	late->head = describe(st, path, note);
	memcpy(late->path, path, late->head.path_bytes);
	t->late_fd = fd + 1;
	return true;
}

/* --------------------------------------------------------- with the content */

/* payload has room for the content behind the path. */
static bool put_kept(uint8_t *payload, int fd, const struct statx *st, const char *path, uint32_t note)
{
	struct sr_input_payload head = describe(st, path, note);
	uint8_t *content = payload + sizeof(head) + head.path_bytes;

	if (!read_content(fd, content, st->stx_size) || !is_still(fd, &head))
		return false;
	head.hash = sr_checksum(content, st->stx_size, 0);
	memcpy(payload, &head, sizeof(head));
	memcpy(payload + sizeof(head), path, head.path_bytes);
	return true;
}

static bool keep_content(struct sr_thread *t, int fd, const struct statx *st, const char *path, uint32_t note, size_t size)
{
	uint8_t *payload = sr_alloc(size);
	bool good = payload && put_kept(payload, fd, st, path, note);

	if (good)
		sr_engine->note(t, SR_REC_INPUT, payload, size);
	sr_free(payload);
	return good;
}

bool sr_small_input(struct sr_thread *t, int fd, const struct statx *st, const char *path,
		    uint32_t note, bool keep)
{
	size_t head = sizeof(struct sr_input_payload) + strlen(path), all = head + st->stx_size;

	/* Of a path that was too long the daemon asks the kernel. */
	if (!path[0] || st->stx_size > (keep ? KEEP_MOST : READ_MOST) || !has_ring(t) ||
	    (keep ? all : head) > sr_ring_max_payload(&t->ring))
		return false;
	return keep ? keep_content(t, fd, st, path, note, all) : begin_late(t, fd, st, path, note);
}
