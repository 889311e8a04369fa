/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mappings.c: the user mapping, the backing mapping and the shadow copy.
 *
 * The program's pages are moved, not copied: what was registered of them stays registered, private
 * ones stay private across fork, and shared ones stay shared: other processes write them as a NIC
 * does.  Between the steps of a move there is never a moment at which another thread could read or
 * write something at the program's address: it faults, and waits for the lock.
 */
#include "shim/exposed/page/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "logd/base/highfd.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/page/announced.h"
#include "shim/exposed/page/page.h"
#include "shim/exposed/page/thread.h"
#include "shim/exposed/page/wait.h"

static int shadow_fd = -1;

/* Behind the shadow copies lies what other processes announce. */
#define FILE_BYTES (ZONES_BYTES + ANNOUNCED_BYTES)

static long limit_file_sizes(const struct rlimit *limit, struct rlimit *before)
{
	return sr_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, SR_ARG(limit), SR_ARG(before), 0, 0);
}

/*
 * The program's limit on the sizes of files (ulimit -f) holds for this one as well, and who exceeds it gets a signal that
 * ends him.  So the limit is raised meanwhile, as far as this process may.
 */
static long set_shadow_size(int fd)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit before, highest;
	long err = limit_file_sizes(NULL, &before);

	if (err || before.rlim_cur == RLIM_INFINITY)
		return err ? err : sr_sys_ftruncate(fd, FILE_BYTES);
	highest = (struct rlimit){before.rlim_max, before.rlim_max};
	if (limit_file_sizes(&none, NULL) && (highest.rlim_cur < FILE_BYTES || limit_file_sizes(&highest, NULL)))
		return -EFBIG;
	err = sr_sys_ftruncate(fd, FILE_BYTES);
	limit_file_sizes(&before, NULL);
	return err;
}

int map_init(void)
{
	long fd = sr_sys_memfd_create("sreplay-shadow", MFD_CLOEXEC), err;

	if (fd < 0)
		return (int)fd;
	err = set_shadow_size((int)fd);
	if (err < 0) {
		sr_sys_close((int)fd);
		return (int)err;
	}
	shadow_fd = sr_fd_raise((int)fd);
	if (!hooks.recorded)
		announced_init(shadow_fd);
	return 0;
}

static long move(uintptr_t from, uintptr_t size, uintptr_t to)
{
	return sr_syscall(SYS_mremap, (long)from, (long)size, (long)size,
			  MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (long)to, 0);
}

static bool failed(long result)
{
	return result < 0 && result > -4096;
}

static uintptr_t backing_at(uintptr_t addr)
{
	return BACKING_BASE + offset_of(addr);
}

static int show(uintptr_t begin, uintptr_t end)
{
	void *p = sr_sys_mmap((void *)begin, end - begin, PROT_NONE, MAP_SHARED | MAP_FIXED,
			      shadow_fd, (off_t)offset_of(begin));

	return sr_sys_is_error(p) ? -ENOMEM : 0;
}

int map_protect_range(uintptr_t begin, uintptr_t end, int prot)
{
	return (int)sr_syscall(SYS_mprotect, (long)begin, (long)(end - begin), prot, 0, 0, 0);
}

int map_protect(uintptr_t user, int prot)
{
	return map_protect_range(user, user + PAGE, prot);
}

/* ------------------------------------------------------------ whole ranges */

struct extent {
	uintptr_t begin, end;
	uintptr_t mapping_end; /* of a piece: where the mapping that it is in ends */
	char perms[5];
	bool stack;
	bool huge;
};

/* The mapping that contains addr; false at the end of what /proc/self/maps has. */
struct maps {
	int fd;
	char buf[4096];
	size_t have, at;
};

static bool next_line(struct maps *m, char *line, size_t size)
{
	size_t n = 0;

	for (;;) {
		if (m->at == m->have) {
			long got = sr_sys_read(m->fd, m->buf, sizeof(m->buf));

			if (got <= 0)
				return false;
			m->have = (size_t)got;
			m->at = 0;
		}
		if (m->buf[m->at] == '\n') {
			m->at++;
			line[n] = 0;
			return true;
		}
		if (n < size - 1)
			line[n++] = m->buf[m->at];
		m->at++;
	}
}

static struct extent parse(const char *line)
{
	struct extent e = {0};
	char *p;

	e.begin = strtoul(line, &p, 16);
	e.end = strtoul(p + 1, &p, 16);
	memcpy(e.perms, p + 1, 4);
	e.stack = strstr(line, "[stack") != NULL;
	e.huge = strstr(line, "anon_hugepage") || strstr(line, "/hugepages");
	return e;
}

/* What the thread's frames may still come to need, below the one that registers memory. */
#define STACK_BELOW (16ul << 10)

/*
 * Does the range lie on the stack on which this code runs?  A coroutine's is often a block of malloc's, in one mapping with
 * the program's buffers.
 */
static bool is_on_this_stack(const struct extent *e, uintptr_t begin, uintptr_t end)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t top;

	if (here - e->begin >= e->end - e->begin)
		return false;
	top = exposed_self.stack_end;
	if (top <= here || top > e->end)
		top = e->end;
	return begin < top && end + STACK_BELOW > here;
}

static enum sr_exposed_refusal judge(const struct extent *e, uintptr_t begin, uintptr_t end)
{
	if (e->stack || is_on_this_stack(e, begin, end))
		return SR_EXPOSED_REFUSED_STACK;
	if (e->huge)
		return SR_EXPOSED_REFUSED_HUGE;
	if (e->perms[0] != 'r' || e->perms[1] != 'w')
		return SR_EXPOSED_REFUSED_READ_ONLY;
	return SR_EXPOSED_OK;
}

/* The program may have something of its own there: MPICH maps windows at addresses that it draws. */
static bool reserve(uintptr_t at, size_t size, int prot, int flags, int fd, uintptr_t offset)
{
	void *p = sr_sys_mmap((void *)at, size, prot, flags | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, (off_t)offset);

	if (sr_sys_is_error(p))
		return false;
	if (p == (void *)at)
		return true;
	sr_sys_munmap(p, size); /* Linux before 4.17 treats the address as a hint */
	return false;
}

static enum sr_exposed_refusal make_room(uintptr_t begin, uintptr_t end)
{
	size_t size = end - begin;

	if (!reserve(backing_at(begin), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
		return SR_EXPOSED_REFUSED_ADDRESS;
	if (reserve((uintptr_t)shadow_of(begin), size, PROT_READ | PROT_WRITE, MAP_SHARED, shadow_fd, offset_of(begin)))
		return SR_EXPOSED_OK;
	sr_sys_munmap((void *)backing_at(begin), size);
	return SR_EXPOSED_REFUSED_ADDRESS;
}

static enum sr_exposed_refusal take_piece(uintptr_t begin, uintptr_t end)
{
	size_t size = end - begin;

	if (sr_syscall(SYS_mprotect, (long)begin, (long)size, PROT_NONE, 0, 0, 0))
		return SR_EXPOSED_REFUSED_BY_KERNEL;
	if (failed(move(begin, size, backing_at(begin)))) {
		sr_syscall(SYS_mprotect, (long)begin, (long)size, PROT_READ | PROT_WRITE, 0, 0, 0);
		return SR_EXPOSED_REFUSED_BY_KERNEL;
	}
	if (show(begin, end)) {
		move(backing_at(begin), size, begin);
		sr_syscall(SYS_mprotect, (long)begin, (long)size, PROT_READ | PROT_WRITE, 0, 0, 0);
		sr_sys_munmap((void *)backing_at(begin), size);
		return SR_EXPOSED_REFUSED_BY_KERNEL;
	}
	sr_syscall(SYS_mprotect, (long)backing_at(begin), (long)size, PROT_READ | PROT_WRITE, 0, 0,
		   0);
	return SR_EXPOSED_OK;
}

/* Programs may give memory of no file a name (PR_SET_VMA_ANON_NAME).  False: it is the kernel's, as [vdso]. */
static bool take_name(struct mapped_file *f, const char *name)
{
	static const char anonymous[] = "[anon:";

	if (!name[0] || !memcmp(name, anonymous, sizeof(anonymous) - 1))
		name = "";
	if ((name[0] && name[0] != '/') || strlen(name) >= sizeof(f->path))
		return false;
	memmove(f->path, name, strlen(name) + 1);
	return true;
}

/* BEGIN-END PERMS OFFSET DEVICE INODE NAME.  False: it is not what f can describe. */
static bool parse_mapping(const char *line, const struct extent *e, struct mapped_file *f)
{
	const char *at = strchr(line, ' ');
	char *end;

	at = at ? strchr(at + 1, ' ') : NULL;
	/* Not shared: what is written there would be written to the file. */
	if (!at || at[-1] != 'p')
		return false;
	f->begin = e->begin;
	f->end = e->end;
	f->is_text = !memcmp(e->perms, "r-xp", 4);
	f->offset = strtoul(at + 1, &end, 16);
	f->device = (uint32_t)strtoul(end + 1, &end, 16) << 20;
	f->device |= (uint32_t)strtoul(end + 1, &end, 16);
	f->inode = strtoul(end + 1, &end, 10);
	return take_name(f, end + strspn(end, " "));
}

static bool read_mapping_of(int fd, uintptr_t addr, struct mapped_file *f)
{
	struct maps m = {.fd = fd};
	char line[512];

	while (next_line(&m, line, sizeof(line))) {
		struct extent e = parse(line);

		if (addr - e.begin < e.end - e.begin)
			return parse_mapping(line, &e, f);
	}
	return false;
}

/*
 * Linux 6.11 and later answer for one address (linux/fs.h, but not that of Debian 12).  A process of many probes has
 * thousands of mappings, and each new probe asks.
 */
struct query {
	uint64_t size, flags, addr;
	uint64_t begin, end, perms, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};

#define QUERY		 _IOWR('f', 17, struct query)
#define QUERY_WRITABLE	 0x02
#define QUERY_EXECUTABLE 0x04
#define QUERY_READABLE	 0x01
#define QUERY_SHARED	 0x08

/* False: the kernel cannot tell, or the path is too long. */
static bool query_mapping_of(int fd, uintptr_t addr, struct mapped_file *f, bool *is)
{
	struct query q = {.size = sizeof(q), .addr = addr, .name = (uintptr_t)f->path, .name_size = sizeof(f->path)};
	long err = sr_syscall(SYS_ioctl, fd, (long)QUERY, SR_ARG(&q), 0, 0, 0);

	if (!q.name_size)
		f->path[0] = '\0';
	*is = !err && !(q.perms & QUERY_SHARED) && take_name(f, f->path);
	f->begin = q.begin;
	f->end = q.end;
	f->is_text = (q.perms & (QUERY_READABLE | QUERY_WRITABLE | QUERY_EXECUTABLE)) == (QUERY_READABLE | QUERY_EXECUTABLE);
	f->offset = q.offset;
	f->device = q.major << 20 | q.minor;
	f->inode = q.inode;
	return !err || err == -ENOENT;
}

/* False: nothing is mapped there, or what f cannot describe. */
static bool look_up(uintptr_t addr, struct mapped_file *f)
{
	int fd = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/maps"), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	bool is;

	if (fd < 0)
		return false;
	if (!query_mapping_of(fd, addr, f, &is))
		is = read_mapping_of(fd, addr, f);
	sr_sys_close(fd);
	return is;
}

bool map_file_of(uintptr_t addr, struct mapped_file *f)
{
	return look_up(addr, f) && f->path[0];
}

bool map_code_of(uintptr_t addr, struct mapped_file *f)
{
	return look_up(addr, f) && (f->path[0] || f->is_text);
}

void map_each_text(void (*with)(const struct mapped_file *f))
{
	struct maps m = {.fd = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/maps"), O_RDONLY | O_CLOEXEC, 0, 0, 0)};
	struct mapped_file f;
	char line[512];

	while (m.fd >= 0 && next_line(&m, line, sizeof(line))) {
		struct extent e = parse(line);

		if (parse_mapping(line, &e, &f) && f.path[0] && f.is_text)
			with(&f);
	}
	if (m.fd >= 0)
		sr_sys_close(m.fd);
}

/*
 * Is it a part of the main thread's stack?  The kernel names only that mapping of it which has the program's
 * arguments, at the upper end; an madvise of a page in the middle, as in ibv_reg_mr after ibv_fork_init, makes three
 * of it.  Nothing else lies next to a stack.
 */
static bool is_below_stack(struct maps *m, uintptr_t at)
{
	struct extent e = {.end = at};
	char line[512];

	while (!e.stack && next_line(m, line, sizeof(line))) {
		e = parse(line);
		if (e.end > at && e.begin > at)
			return false;
		at = e.end > at ? e.end : at;
	}
	return e.stack;
}

#define PIECES_MAX 64

enum sr_exposed_refusal map_take(uintptr_t begin, uintptr_t end)
{
	struct maps m = {.fd = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/maps"),
					       O_RDONLY | O_CLOEXEC, 0, 0, 0)};
	struct extent pieces[PIECES_MAX];
	enum sr_exposed_refusal refusal = SR_EXPOSED_OK;
	uintptr_t at = begin;
	char line[512];
	size_t n = 0;

	if (m.fd < 0)
		return SR_EXPOSED_REFUSED_BY_KERNEL;
	while (at < end && !refusal && next_line(&m, line, sizeof(line))) {
		struct extent e = parse(line);

		if (e.end <= at)
			continue;
		if (e.begin > at)
			break;
		refusal = n == PIECES_MAX ? SR_EXPOSED_REFUSED_NO_MEMORY : judge(&e, begin, end);
		pieces[n].begin = at;
		pieces[n].mapping_end = e.end;
		pieces[n++].end = at = e.end < end ? e.end : end;
	}
	if (!refusal && n && at >= end && is_below_stack(&m, pieces[n - 1].mapping_end))
		refusal = SR_EXPOSED_REFUSED_STACK;
	sr_sys_close(m.fd);
	if (refusal)
		return refusal;
	if (at < end)
		return SR_EXPOSED_REFUSED_UNMAPPED;
	refusal = make_room(begin, end);
	if (refusal)
		return refusal;
	for (size_t i = 0; i < n; i++) {
		refusal = take_piece(pieces[i].begin, pieces[i].end);
		if (refusal) {
			for (size_t left = i; left--;)
				map_return(pieces[left].begin, pieces[left].end);
			sr_sys_munmap((void *)backing_at(pieces[i].begin), end - pieces[i].begin);
			sr_sys_munmap(shadow_of(pieces[i].begin), end - pieces[i].begin);
			return refusal;
		}
	}
	return SR_EXPOSED_OK;
}

/* One call: the pages themselves replace the user mapping. */
static long move_back(uintptr_t begin, size_t size)
{
	return sr_syscall(SYS_mremap, (long)backing_at(begin), (long)size, (long)size,
			  MREMAP_MAYMOVE | MREMAP_FIXED, (long)begin, 0);
}

static void drop_shadow(uintptr_t begin, size_t size)
{
	sr_syscall(SYS_fallocate, shadow_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		   (long)offset_of(begin), (long)size, 0, 0);
	sr_sys_munmap(shadow_of(begin), size);
}

atomic_uint_fast64_t pages_returned;

void map_return(uintptr_t begin, uintptr_t end)
{
	size_t size = end - begin;

	end_waits();
	/*
	 * Page by page: several mappings are not moved by one call (a program's .data
	 * and .bss are two), and one that fails has already unmapped the user mapping.
	 */
	for (uintptr_t v = begin; v < end; v += PAGE)
		move_back(v, PAGE);
	drop_shadow(begin, size);
	atomic_fetch_add(&pages_returned, 1);
}

void map_drop(uintptr_t begin, uintptr_t end)
{
	size_t size = end - begin;

	end_waits();
	atomic_fetch_add(&pages_returned, 1);
	sr_sys_munmap((void *)backing_at(begin), size);
	drop_shadow(begin, size);
}

/*
 * Large ones at once, as far as they are one mapping: there is no other thread.
 * Memory that is not inherited (MADV_DONTFORK) is not there to be moved.
 */
static void move_back_in_child(uintptr_t begin, size_t size)
{
	size_t half = size / 2 & PAGE_MASK;

	if (!failed(move_back(begin, size)) || size == PAGE)
		return;
	move_back_in_child(begin, half);
	move_back_in_child(begin + half, size - half);
}

void map_return_in_child(uintptr_t begin, uintptr_t end)
{
	size_t size = end - begin;

	move_back_in_child(begin, size);
	sr_sys_munmap(shadow_of(begin), size);
}

void map_forget(void)
{
	announced_forget();
	sr_sys_close(shadow_fd);
	shadow_fd = -1;
}

int map_fd(void)
{
	return shadow_fd;
}

/* ------------------------------------------------------- pages passed through */

/*
 * Is the range within one mapping?  One call moves such a range, wholly or not at all.  A kernel that does not tell moves page
 * by page.
 */
static bool is_one_mapping(uintptr_t begin, size_t size)
{
	struct query q = {.size = sizeof(q), .addr = begin};
	int fd;
	long err;

	if (size == PAGE)
		return true;
	fd = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/maps"), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return false;
	err = sr_syscall(SYS_ioctl, fd, (long)QUERY, SR_ARG(&q), 0, 0, 0);
	sr_sys_close(fd);
	return !err && q.end - begin >= size;
}

static bool move_pages(uintptr_t from, size_t size, uintptr_t to)
{
	size_t step = is_one_mapping(from, size) ? size : PAGE;

	for (size_t at = 0; at < size; at += step)
		if (failed(move(from + at, step, to + at)))
			return false;
	return true;
}

int map_through(uintptr_t begin, uintptr_t end)
{
	return move_pages(backing_at(begin), end - begin, begin) ? 0 : -EAGAIN;
}

int map_shadow(uintptr_t user)
{
	return show(user, user + PAGE);
}

void map_take_back(uintptr_t begin, uintptr_t end)
{
	map_protect_range(begin, end, PROT_NONE);
	move_pages(begin, end - begin, backing_at(begin));
	map_protect_range(backing_at(begin), backing_at(begin) + (end - begin), PROT_READ | PROT_WRITE);
	show(begin, end);
}
