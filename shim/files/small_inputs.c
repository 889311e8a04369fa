/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/small_inputs.h"

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

static bool is_still(int fd, const struct statx *before)
{
	struct statx after;

	return !sr_syscall(SYS_statx, fd, SR_ARG(""), AT_EMPTY_PATH, STATX_BASIC_STATS, SR_ARG(&after), 0) &&
	       after.stx_size == before->stx_size && changed_at(&after) == changed_at(before);
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

/* payload has room for the content behind the path. */
static bool describe(uint8_t *payload, int fd, const struct statx *st, const char *path, uint32_t note)
{
	struct sr_input_payload head = {
	    .device = makedev(st->stx_dev_major, st->stx_dev_minor),
	    .inode = st->stx_ino,
	    .size = st->stx_size,
	    .changed = changed_at(st),
	    .note = note,
	    .path_bytes = (uint32_t)strlen(path),
	};
	uint8_t *content = payload + sizeof(head) + head.path_bytes;

	if (!read_content(fd, content, st->stx_size))
		return false;
	head.hash = sr_checksum(content, st->stx_size, 0);
	memcpy(payload, &head, sizeof(head));
	memcpy(payload + sizeof(head), path, head.path_bytes);
	return true;
}

bool sr_small_input(struct sr_thread *t, int fd, const struct statx *st, const char *path,
		    uint32_t note, bool keep)
{
	size_t head = sizeof(struct sr_input_payload) + strlen(path), all = head + st->stx_size;
	uint8_t *payload;
	bool good;

	/* Of a path that was too long the daemon asks the kernel. */
	if (!path[0] || st->stx_size > (keep ? KEEP_MOST : READ_MOST) || !has_ring(t) ||
	    (keep ? all : head) > sr_ring_max_payload(&t->ring))
		return false;
	payload = sr_alloc(all);
	good = payload && describe(payload, fd, st, path, note);
	/* Of a file that is not kept, a replay finds out: its content has another hash. */
	if (good && keep)
		good = is_still(fd, st);
	if (good)
		sr_engine->note(t, SR_REC_INPUT, payload, keep ? all : head);
	sr_free(payload);
	return good;
}
