/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/mapped_reads.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/memory/heap.h"

#define MAPPINGS 64

struct mapping {
	uintptr_t addr;
	uint64_t size, offset;
	dev_t device;
	ino_t inode;
};

static struct {
	struct sr_lock lock;
	size_t n;
	struct mapping list[MAPPINGS];
} mapped;

void sr_mapped_reads_begin(void *addr, size_t size, int fd, uint64_t offset)
{
	struct stat st;

	if (sr_sys_fstat(fd, &st) || !S_ISREG(st.st_mode))
		return;
	sr_lock(&mapped.lock);
	if (mapped.n < MAPPINGS)
		mapped.list[mapped.n++] = (struct mapping){(uintptr_t)addr, sr_page_up(size), offset, st.st_dev, st.st_ino};
	sr_unlock(&mapped.lock);
}

static void cut(uintptr_t begin, uintptr_t end)
{
	for (size_t i = mapped.n; i--;) {
		const struct mapping m = mapped.list[i];
		const uintptr_t m_end = m.addr + m.size;

		if (m.addr >= end || begin >= m_end)
			continue;
		mapped.list[i] = mapped.list[--mapped.n];
		if (m.addr < begin)
			mapped.list[mapped.n++] = (struct mapping){m.addr, begin - m.addr, m.offset, m.device, m.inode};
		if (end < m_end && mapped.n < MAPPINGS)
			mapped.list[mapped.n++] = (struct mapping){end, m_end - end, m.offset + (end - m.addr), m.device, m.inode};
	}
}

static void mapping_ends(void *addr, size_t size)
{
	const uintptr_t begin = (uintptr_t)addr;

	if (!mapped.n)
		return;
	sr_lock(&mapped.lock);
	cut(begin, begin + sr_page_up(size));
	sr_unlock(&mapped.lock);
}

void sr_mapped_reads_start(void)
{
	sr_heap_on_mapping_end(mapping_ends);
}

void sr_mapped_reads_in_child(void)
{
	mapped.lock = (struct sr_lock){0};
}

/* The next mapping of the file, from *at on in the list. */
static bool next_mapping(const struct stat *file, size_t *at, struct mapping *m)
{
	bool found = false;

	sr_lock(&mapped.lock);
	while (*at < mapped.n && !found) {
		*m = mapped.list[(*at)++];
		found = m->device == file->st_dev && m->inode == file->st_ino;
	}
	sr_unlock(&mapped.lock);
	return found;
}

/* Where in the file a read began; -1: the call is none that is known. */
static int64_t place_of(const struct sr_call_desc *d, const uint64_t *a, int64_t result)
{
	if (d == &sr_calls[SR_CALL_pread64] || d == &sr_calls[SR_CALL_preadv])
		return (int64_t)a[3];
	if (d == &sr_calls[SR_CALL_read] || d == &sr_calls[SR_CALL_readv])
		return sr_syscall(SYS_lseek, (int)a[0], 0, SEEK_CUR, 0, 0, 0) - result;
	return -1;
}

/* What a piece of the program's memory has from [at, at + n) of the file, as far as that is mapped there. */
static void load(const struct mapping *m, char *to, uint64_t at, uint64_t n)
{
	uint64_t begin = at < m->offset ? m->offset : at, end = at + n;

	if (end > m->offset + m->size)
		end = m->offset + m->size;
	if (begin >= end || !sr_exposed_touches((void *)(m->addr + (begin - m->offset)), end - begin))
		return;
	/* The program moves bytes from exposed memory to exposed memory: these are loaded where they go. */
	if (sr_exposed_touches(to + (begin - at), end - begin))
		return;
	sr_exposed_load((void *)(m->addr + (begin - m->offset)), to + (begin - at), end - begin);
}

static void load_pieces(const struct mapping *m, const struct iovec *to, uint64_t at, uint64_t n)
{
	for (uint64_t part; n; to++, at += part, n -= part) {
		part = to->iov_len < n ? to->iov_len : n;
		load(m, to->iov_base, at, part);
	}
}

static void read_is_load(const struct sr_call_desc *d, const uint64_t *a, uint64_t n)
{
	const bool in_pieces = d == &sr_calls[SR_CALL_readv] || d == &sr_calls[SR_CALL_preadv];
	const struct iovec whole = {(void *)a[1], n}, *to = in_pieces ? (const struct iovec *)a[1] : &whole;
	const int64_t at = place_of(d, a, (int64_t)n);
	struct mapping m;
	struct stat file;

	if (at < 0 || sr_sys_fstat((int)a[0], &file))
		return;
	for (size_t i = 0; next_mapping(&file, &i, &m);)
		load_pieces(&m, to, (uint64_t)at, n);
}

void sr_mapped_reads_done(struct sr_thread *t, const struct sr_call_desc *d, const uint64_t *a, int64_t result)
{
	enum sr_heap before;
	int saved = errno;

	if (!mapped.n || result <= 0)
		return;
	before = sr_enter(t);
	read_is_load(d, a, (uint64_t)result);
	sr_leave(t, before);
	errno = saved;
}
