/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "logd/base/checksum.h"
#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/files/mapped_outputs.h"
#include "shim/files/paths.h"
#include "shim/memory/heap.h"
#include "shim/process/children.h"
#include "shim/verbs/mapped_reads.h"
#include "shim/verbs/region_records.h"
#include "shim/verbs/regions.h"

/* Files of /dev/shm and memfds are made to be shared. */
static bool is_shared_memory(int fd)
{
	struct statfs fs;

	return !sr_syscall(SYS_fstatfs, fd, SR_ARG(&fs), 0, 0, 0, 0) && fs.f_type == TMPFS_MAGIC;
}

/*
 * A file of a disk may be shared, too, but mostly is a database's own; what is in it counts as an
 * input.  Not so one that somebody has just made: a launcher, that shares it with its processes.  Nor one of which it is known that
 * others write it, as ranks of a job do.
 */
static bool is_others(int fd)
{
	return !is_shared_memory(fd) && (sr_fd_is_captured_file(fd) || sr_files_is_others(fd));
}

/*
 * The program may only read it, but pages are protected by moving them, and a replay writes to them.
 * Not shared memory of a program that sees to this itself, by mapping it twice.
 */
static bool make_writable(void *addr, const uint64_t a[6])
{
	int fd = sr_open_again((int)a[4], O_RDWR);
	void *made;

	if (fd < 0)
		return false;
	made = sr_sys_mmap(addr, a[1], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)a[5]);
	sr_sys_close(fd);
	return !sr_sys_is_error(made);
}

static bool may_be_exposed(void *addr, const uint64_t a[6])
{
	int fd = (int)a[4];

	if (!(a[3] & MAP_SHARED) || a[3] & MAP_ANONYMOUS)
		return false;
	if (a[2] == (PROT_READ | PROT_WRITE))
		return is_shared_memory(fd) || is_others(fd);
	return a[2] == PROT_READ && is_others(fd) && make_writable(addr, a);
}

/* Another process may have made the file as long as it is, which it is not in the replay. */
static bool ends_before(int fd, uint64_t end)
{
	struct stat st;

	return !sr_sys_fstat(fd, &st) && (uint64_t)st.st_size + PAGE <= end;
}

/* It has no pages yet: all of it is zero.  (Other file systems have small files elsewhere.) */
static bool is_empty(int fd)
{
	struct stat st;

	return is_shared_memory(fd) && !sr_sys_fstat(fd, &st) && !st.st_blocks;
}

/* A replay has what was in it from the trace, access by access. */
static void replace(void *addr, const uint64_t a[6])
{
	if (!(a[2] & PROT_WRITE) || ends_before((int)a[4], a[5] + sr_page_up(a[1])))
		sr_sys_mmap(addr, a[1], PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Another machine has the same numbers for other objects. */
static uint64_t machine(void)
{
	char id[64];
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/sys/kernel/random/boot_id"), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	long n = fd < 0 ? 0 : sr_syscall(SYS_read, (int)fd, SR_ARG(id), sizeof(id), 0, 0, 0);

	if (fd >= 0)
		sr_sys_close((int)fd);
	return n > 0 ? sr_checksum(id, (size_t)n, 0) : 0;
}

/* A file's number may be another one's later. */
static uint64_t object_of_file(int fd)
{
	struct statx s = {0};
	uint64_t words[5];

	if (sr_syscall(SYS_statx, fd, SR_ARG(""), AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, SR_ARG(&s), 0))
		return 0;
	words[0] = (uint64_t)s.stx_dev_major << 32 | s.stx_dev_minor;
	words[1] = s.stx_ino;
	words[2] = s.stx_mask & STATX_BTIME ? (uint64_t)s.stx_btime.tv_sec : 0;
	words[3] = s.stx_mask & STATX_BTIME ? s.stx_btime.tv_nsec : 0;
	words[4] = machine();
	return sr_checksum(words, sizeof(words), 0) | 1;
}

static uint64_t object_of_segment(int id)
{
	const uint64_t words[] = {(uint64_t)id, machine()};

	return sr_checksum(words, sizeof(words), 0) | 1;
}

/* ------------------------------------------------------------ what is mapped */

#define MAPPINGS 256

/* Where there is no room, children's stores into the rest are not seen. */
static struct {
	struct sr_lock lock;
	size_t n;
	struct mapping {
		uintptr_t addr;
		size_t size;
		uint64_t object, offset;
		bool announced;
		bool watched; /* it is exposed memory since it was announced */
		bool gone; /* replay: unmapped, but perhaps not yet at that place in the recording */
	} list[MAPPINGS];
} mapped;

static void drop_oldest_gone(void)
{
	for (size_t i = 0; i < mapped.n; i++)
		if (mapped.list[i].gone) {
			memmove(&mapped.list[i], &mapped.list[i + 1], (--mapped.n - i) * sizeof(mapped.list[i]));
			return;
		}
}

static void remember(void *addr, size_t size, uint64_t object, uint64_t offset, bool announced, bool watched)
{
	sr_lock(&mapped.lock);
	if (mapped.n == MAPPINGS)
		drop_oldest_gone();
	if (mapped.n < MAPPINGS)
		mapped.list[mapped.n++] = (struct mapping){(uintptr_t)addr, size, object, offset, announced, watched, false};
	sr_unlock(&mapped.lock);
}

/* Of one that is unmapped in part, the rest counts as gone, too. */
static void forget(void *addr, size_t size)
{
	uintptr_t begin = (uintptr_t)addr;

	if (!mapped.n)
		return;
	sr_lock(&mapped.lock);
	for (size_t i = mapped.n; i--;) {
		struct mapping *m = &mapped.list[i];

		if (m->addr >= begin + size || begin >= m->addr + m->size)
			continue;
		if (sr_engine->replays)
			m->gone = true;
		else
			*m = mapped.list[--mapped.n];
	}
	sr_unlock(&mapped.lock);
}

void sr_shared_protected(void *addr, size_t size)
{
	uintptr_t begin = (uintptr_t)addr, end = begin + ((size + PAGE - 1) & ~(PAGE - 1ul));

	sr_lock(&mapped.lock);
	for (size_t i = mapped.n; i--;) {
		struct mapping m = mapped.list[i];
		uintptr_t m_end = m.addr + m.size;

		if (m.announced || end <= m.addr || m_end <= begin)
			continue;
		mapped.list[i] = mapped.list[--mapped.n];
		if (m.addr < begin)
			mapped.list[mapped.n++] = (struct mapping){m.addr, begin - m.addr, m.object, m.offset, false, false, m.gone};
		if (end < m_end && mapped.n < MAPPINGS)
			mapped.list[mapped.n++] = (struct mapping){end, m_end - end, m.object, m.offset + (end - m.addr), false, false, m.gone};
	}
	sr_unlock(&mapped.lock);
}

static bool announce(void *addr, size_t size, uint64_t object, uint64_t offset, bool empty, void *site);

static bool was_announced(void *addr, size_t size);

/* The program has unmapped it in the replay; the recorded process still had it, and nobody will look at it. */
static void map_again(const struct mapping *m)
{
	sr_sys_mmap((void *)m->addr, sr_page_up(m->size), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

/* What is announced in front of a child's fork is new; in a replay of the child, what comes next may be the child's own. */
static struct mapping *recorded_next(bool all)
{
	for (size_t i = 0; i < mapped.n; i++)
		if ((all || !mapped.list[i].announced) && was_announced((void *)mapped.list[i].addr, mapped.list[i].size))
			return &mapped.list[i];
	return NULL;
}

/*
 * A fork.  Which mappings of other threads there are then, and in which order they were noted, is by chance: a replay
 * follows its recording.  all: those, too, that were announced before.
 */
static void announce_again(bool all, void *site)
{
	struct mapping *m;

	if (!sr_engine->replays) {
		for (size_t i = 0; i < mapped.n; i++) {
			m = &mapped.list[i];
			if (m->announced && !all)
				continue;
			m->announced = true;
			m->watched = announce((void *)m->addr, m->size, m->object, m->offset, false, site);
		}
		return;
	}
	while ((m = recorded_next(all))) {
		if (m->gone)
			map_again(m);
		m->announced = true;
		m->watched = announce((void *)m->addr, m->size, m->object, m->offset, false, site);
	}
}

static void before_fork(void *site)
{
	sr_mapped_outputs_shared();
	announce_again(false, site);
}

static void after_fork_in_child(void *site)
{
	sr_mapped_outputs_in_child();
	sr_mapped_reads_in_child();
	mapped.lock = (struct sr_lock){0};
	announce_again(true, site);
}

void sr_shared_start(void)
{
	sr_heap_on_mapping_end(forget);
	sr_mapped_reads_start();
	sr_children_watch(before_fork, after_fork_in_child);
}

/*
 * Memory without a name, which a child will share: as no other process has it, any number does that no
 * other object has.
 */
static uint64_t object_without_name(const void *addr)
{
	const uint64_t words[] = {(uintptr_t)addr, (uint64_t)sr_sys_getpid(), machine(),
				  (uint64_t)sr_sys_now_ms()};

	return sr_checksum(words, sizeof(words), 0) | 1;
}

static bool has_no_name(const uint64_t a[6])
{
	return a[3] & MAP_ANONYMOUS && a[3] & MAP_SHARED && a[2] == (PROT_READ | PROT_WRITE);
}

/*
 * The mapping has a record of its own, so that a replay does the same at the same place, and knows which
 * mappings of other processes are of the same memory.  empty: nobody has stored there so far.  True: it is exposed memory from now on.
 */
static bool announce(void *addr, size_t size, uint64_t object, uint64_t offset, bool empty, void *site)
{
	uint64_t of[] = {object, offset, empty};
	/* A mapping has whole pages, whatever the program has asked for. */
	uint64_t a[] = {(uintptr_t)addr, sr_page_up(size), (uintptr_t)of};

	return (int)sr_call(SR_CALL_shared_mapping, a, site);
}

/* Replay.  Another mapping may come before the one that was announced. */
static bool was_announced(void *addr, size_t size)
{
	uint64_t of[3] = {0}, a[] = {(uintptr_t)addr, sr_page_up(size), (uintptr_t)of};

	return sr_engine->comes_next(&sr_self, SR_CALL_shared_mapping, a);
}

bool sr_shared_mapped(void *addr, const uint64_t a[6], void *site)
{
	enum sr_heap before;
	uint64_t object = 0;
	bool watched, empty = false;

	if (has_no_name(a)) {
		remember(addr, a[1], sr_engine->replays ? 0 : object_without_name(addr), 0, false, false);
		return true;
	}
	if (!sr_engine->replays) {
		before = sr_enter(&sr_self);
		if (!may_be_exposed(addr, a)) {
			sr_leave(&sr_self, before);
			sr_engine_passes(&sr_self);
			return false;
		}
		sr_files_keep((int)a[4]);
		object = object_of_file((int)a[4]);
		empty = is_empty((int)a[4]);
		sr_leave(&sr_self, before);
	} else if (!sr_engine_passes(&sr_self) && was_announced(addr, a[1])) {
		/* The replay's file is a private one, which may lie on another file system. */
		replace(addr, a);
	} else {
		return false;
	}
	watched = announce(addr, a[1], object, a[5], empty, site);
	remember(addr, a[1], object, a[5], true, watched);
	return true;
}

void sr_shared_attached(void *addr, size_t size, int id, int flags, void *site)
{
	uint64_t object = sr_engine->replays ? 0 : object_of_segment(id);
	bool watched;

	if (!size || flags & SHM_RDONLY)
		return;
	watched = announce(addr, size, object, 0, sr_self.segment_empty, site);
	remember(addr, size, object, 0, true, watched);
}

/* -------------------------------------------------------- a segment of one's own */

/*
 * Programs take huge pages by a segment of their own: they make it by a key, attach it, and mark it for removal at once.  Then it
 * has no key any more, and no other process finds it: it is ordinary memory, until a fork.  A program that passes a segment's
 * number on makes it without a key, since Linux lets others attach it behind its removal as well.
 */
bool sr_shared_is_own(int id)
{
	struct shmid_ds ds;

	return !sr_engine->replays && !sr_syscall(SYS_shmctl, id, IPC_STAT, SR_ARG(&ds), 0, 0, 0) && ds.shm_perm.__key != IPC_PRIVATE &&
	       ds.shm_nattch == 1 && ds.shm_cpid == (int)sr_sys_getpid();
}

static bool is_withdrawn_next(const struct mapping *m)
{
	uint64_t a[] = {m->addr, sr_page_up(m->size)};

	return sr_engine->comes_next(&sr_self, SR_CALL_shared_withdrawn, a);
}

/* The segment's mapping, or in a replay the one of which the trace says so next. */
static bool find_withdrawn(uint64_t object, struct mapping *found)
{
	bool is = false;

	sr_lock(&mapped.lock);
	for (size_t i = 0; i < mapped.n && !is; i++) {
		*found = mapped.list[i];
		is = found->watched && (sr_engine->replays ? is_withdrawn_next(found) : found->object == object);
	}
	sr_unlock(&mapped.lock);
	return is;
}

static void withdraw(uint64_t addr, uint64_t size)
{
	sr_lock(&mapped.lock);
	for (size_t i = 0; i < mapped.n; i++)
		if (mapped.list[i].addr == addr)
			mapped.list[i].announced = mapped.list[i].watched = false;
	sr_unlock(&mapped.lock);
	sr_exposed_remove((void *)addr, size);
}

static bool is_withdrawn(bool own, int id, struct mapping *m)
{
	if (sr_engine->replays)
		return !sr_engine_passes(&sr_self) && find_withdrawn(0, m);
	if (own && find_withdrawn(object_of_segment(id), m))
		return true;
	sr_engine_passes(&sr_self);
	return false;
}

void sr_shared_removed(bool own, int id, void *site)
{
	struct mapping m;
	uint64_t a[2];

	if (!is_withdrawn(own, id, &m))
		return;
	a[0] = m.addr;
	a[1] = sr_page_up(m.size);
	sr_call(SR_CALL_shared_withdrawn, a, site);
	/* Behind the record: a replay looks for that first, and values may be found now. */
	withdraw(a[0], a[1]);
}

uint64_t sr_invoke_shared_mapping(const struct sr_call_desc *d, uint64_t *a)
{
	bool watched = sr_regions_share((void *)a[0], a[1], ((const uint64_t *)a[2])[2]);

	/* It may be a part of a region later, or be one now. */
	if (!watched)
		sr_record_all_values = true;
	return watched;
}

/* With --exposed=protect: it lies at an address at which memory cannot be protected. */
static void say_unwatched(uint64_t addr)
{
	static bool said;

	if (!said)
		sr_say("the program's shared memory at %#llx was not watched when it was recorded: what other processes "
		       "stored there is not in the trace",
		       (unsigned long long)addr);
	said = true;
}

void sr_replayed_shared_mapping(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (!result)
		say_unwatched(a[0]);
	if (!result || sr_regions_share((void *)a[0], a[1], ((const uint64_t *)a[2])[2]))
		return;
	sr_say("the program's shared memory at %#llx was watched when it was recorded, which is "
	       "not possible now",
	       (unsigned long long)a[0]);
	sr_engine->fail();
}
