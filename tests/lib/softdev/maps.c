/* SPDX-License-Identifier: BSD-2-Clause */
#include "maps.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "raw.h"

/* linux/fs.h of Linux 6.11; the build's headers may be older. */
struct query {
	uint64_t size, flags, address;
	uint64_t begin, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define QUERY             _IOWR('f', 17, struct query)
#define QUERY_READABLE    0x01
#define QUERY_WRITABLE    0x02
#define QUERY_EXECUTABLE  0x04
#define QUERY_SHARED      0x08
#define QUERY_OR_NEXT     0x10
#define QUERY_FILE_BACKED 0x20

#define ORDINARY_PAGE     4096

static uint64_t file_device, file_inode;

void sd_maps_begin(int fd)
{
	struct stat st;

	if (!fstat(fd, &st)) {
		file_device = st.st_dev;
		file_inode = st.st_ino;
	}
}

static bool is_of_fabric(unsigned int major, unsigned int minor, uint64_t inode)
{
	return inode == file_inode && makedev(major, minor) == file_device;
}

/* ----------------------------------------------------------- by single queries */

static bool query_next(struct sd_maps *m, struct sd_extent *e)
{
	struct query q = {.size = sizeof(q),
			  .flags = QUERY_OR_NEXT | (m->only_files ? QUERY_FILE_BACKED : 0),
			  .address = m->from};

	if (syscall(SYS_ioctl, m->fd, QUERY, &q))
		return false;
	*e = (struct sd_extent){
	    .begin = q.begin,
	    .end = q.end,
	    .prot = (q.vma_flags & QUERY_READABLE ? PROT_READ : 0) |
		    (q.vma_flags & QUERY_WRITABLE ? PROT_WRITE : 0) |
		    (q.vma_flags & QUERY_EXECUTABLE ? PROT_EXEC : 0),
	    .is_shared = q.vma_flags & QUERY_SHARED,
	    .ours = is_of_fabric(q.major, q.minor, q.inode),
	    .offset = q.offset,
	    .huge = q.page_size > ORDINARY_PAGE,
	};
	m->from = q.end;
	return true;
}

/* Some mapping ends above the address of this function. */
static bool has_queries(int fd)
{
	struct sd_maps m = {.fd = fd, .from = (uintptr_t)has_queries};
	struct sd_extent e;

	return query_next(&m, &e);
}

/* ----------------------------------------------------- from what the kernel prints */

/* Not in the heap, whose pages a child may still share with its parent. */
static bool get_room(struct sd_maps *m, size_t room)
{
	void *text = m->text ? (void *)syscall(SYS_mremap, m->text, m->room, room, MREMAP_MAYMOVE)
			     : raw_mmap(NULL, room, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (text == MAP_FAILED)
		return false;
	m->text = text;
	m->room = room;
	return true;
}

static bool read_text(struct sd_maps *m)
{
	size_t have = 0;
	long got = 1;

	if (!get_room(m, 1 << 16))
		return false;
	while (got > 0 && (m->room - have > 4096 || get_room(m, 2 * m->room))) {
		got = raw_read(m->fd, m->text + have, m->room - have - 1);
		have += got > 0 ? (size_t)got : 0;
	}
	m->text[have] = 0;
	m->at = m->text;
	return true;
}

/* BEGIN-END PERMS OFFSET MAJOR:MINOR INODE NAME; *inode is 0 of memory that maps no file. */
static bool read_line(struct sd_maps *m, struct sd_extent *e, unsigned long *inode)
{
	unsigned long begin, end, offset;
	unsigned int major, minor;
	char perms[5], *line = m->at, *eol = strchr(line, '\n');

	if (!eol)
		return false;
	*eol = 0;
	m->at = eol + 1;
	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &begin, &end, perms, &offset, &major, &minor,
		   inode) != 7)
		return false;
	*e = (struct sd_extent){
	    .begin = begin,
	    .end = end,
	    .prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
		    (perms[2] == 'x' ? PROT_EXEC : 0),
	    .is_shared = perms[3] == 's',
	    .ours = is_of_fabric(major, minor, *inode),
	    .offset = offset,
	    .huge = strstr(line, "/anon_hugepage") || strstr(line, "hugepages"),
	};
	return true;
}

static bool text_next(struct sd_maps *m, struct sd_extent *e)
{
	unsigned long inode;

	while (read_line(m, e, &inode))
		if (e->end > m->from && (inode || !m->only_files))
			return true;
	return false;
}

/* -------------------------------------------------------------------- either */

static bool open_maps(struct sd_maps *m, uintptr_t from, bool only_files)
{
	*m = (struct sd_maps){.from = from, .only_files = only_files};
	m->fd = raw_open("/proc/self/maps", O_RDONLY);
	return m->fd >= 0;
}

bool sd_maps_open_text(struct sd_maps *m, uintptr_t from, bool only_files)
{
	if (!open_maps(m, from, only_files))
		return false;
	if (read_text(m))
		return true;
	sd_maps_close(m);
	return false;
}

bool sd_maps_open(struct sd_maps *m, uintptr_t from, bool only_files)
{
	if (!open_maps(m, from, only_files))
		return false;
	if (has_queries(m->fd) || read_text(m))
		return true;
	sd_maps_close(m);
	return false;
}

bool sd_maps_next(struct sd_maps *m, struct sd_extent *e)
{
	return m->text ? text_next(m, e) : query_next(m, e);
}

void sd_maps_close(struct sd_maps *m)
{
	raw_close(m->fd);
	if (m->text)
		raw_munmap(m->text, m->room);
}
