/* SPDX-License-Identifier: BSD-2-Clause */
/* moves.c: bytes that the kernel moves between files, pipes and sockets; files without names, locks and leases. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared.h"

#define LENGTH 3000

/* A file of its own with bytes that depend on what came so far. */
static int own_file(struct self *s, const char *kind)
{
	char name[64], bytes[LENGTH];
	int fd;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(decide(s, 200) + i % 7);
	snprintf(name, sizeof(name), "%s-%d", kind, s->number);
	fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	mix(s, (uint64_t)write(fd, bytes, 1 + draw(s, LENGTH)));
	lseek(fd, draw(s, 500), SEEK_SET);
	return fd;
}

static void mix_result(struct self *s, ssize_t result)
{
	mix(s, result < 0 ? (uint64_t)errno << 32 : (uint64_t)result);
}

static void mix_content(struct self *s, int fd)
{
	char bytes[LENGTH];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	mix_result(s, n);
	mix_bytes(s, bytes, n > 0 ? (size_t)n : 0);
	mix(s, (uint64_t)lseek(fd, 0, SEEK_CUR));
}

/* From a file into a pipe, from there on by one of several ways. */
static void splices(struct self *s)
{
	int from = own_file(s, "spliced"), to = own_file(s, "into"), pipes[2][2], tenth = 0;
	char bytes[LENGTH], gift[64];
	struct iovec part = {gift, 1 + draw(s, sizeof(gift))};
	loff_t at = draw(s, 400);

	pipe2(pipes[0], O_NONBLOCK);
	pipe2(pipes[1], O_NONBLOCK);
	memset(gift, (int)decide(s, 256), sizeof(gift));
	mix_result(s, splice(from, draw(s, 2) ? &at : NULL, pipes[0][1], NULL, 1 + draw(s, 2000), SPLICE_F_NONBLOCK));
	mix(s, (uint64_t)at);
	if (draw(s, 2))
		mix_result(s, vmsplice(pipes[0][1], &part, 1, SPLICE_F_NONBLOCK));
	mix_result(s, tee(pipes[0][0], pipes[1][1], 1 + draw(s, 1000), SPLICE_F_NONBLOCK));
	for (;; tenth++) {
		ssize_t n = draw(s, 2) ? splice(pipes[tenth & 1][0], NULL, to, NULL, 1 + draw(s, 1000), SPLICE_F_NONBLOCK)
				       : read(pipes[tenth & 1][0], bytes, 1 + draw(s, 1000));

		mix_result(s, n);
		if (tenth > 10)
			break;
	}
	mix_content(s, to);
	mix(s, (uint64_t)lseek(from, 0, SEEK_CUR));
	for (int i = 0; i < 4; i++)
		close(pipes[i / 2][i % 2]);
	close(from);
	close(to);
}

/* sendfile and copy_file_range; between two files, and into a socket. */
static void copies(struct self *s)
{
	int from = own_file(s, "copied"), to = own_file(s, "copy"), pair[2];
	loff_t at = draw(s, 1000), other = draw(s, 1000);
	char bytes[LENGTH];
	ssize_t n;

	switch (draw(s, 4)) {
	case 0:
		mix_result(s, copy_file_range(from, draw(s, 2) ? &at : NULL, to, draw(s, 2) ? &other : NULL, draw(s, LENGTH), 0));
		break;
	case 1:
		mix_result(s, sendfile(to, from, draw(s, 2) ? &at : NULL, draw(s, LENGTH)));
		break;
	case 2:
		fcntl(to, F_SETFL, O_APPEND);
		mix_result(s, sendfile(to, from, NULL, draw(s, LENGTH)));
		mix_result(s, copy_file_range(from, &at, to, NULL, 10, 0));
		break;
	default:
		socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
		mix_result(s, sendfile(pair[0], from, draw(s, 2) ? &at : NULL, draw(s, LENGTH)));
		close(pair[0]);
		while ((n = read(pair[1], bytes, sizeof(bytes))) > 0)
			mix_bytes(s, bytes, (size_t)n);
		close(pair[1]);
	}
	mix(s, (uint64_t)at + (uint64_t)other);
	mix(s, (uint64_t)lseek(from, 0, SEEK_CUR));
	mix_content(s, to);
	close(from);
	close(to);
}

/* Reads and writes of several pieces, with flags. */
static void gathers(struct self *s)
{
	int fd = own_file(s, "gathered");
	char bytes[3][40];
	struct iovec parts[3];

	for (int i = 0; i < 3; i++) {
		memset(bytes[i], (int)decide(s, 256) + i, sizeof(bytes[i]));
		parts[i] = (struct iovec){bytes[i], 1 + draw(s, sizeof(bytes[i]))};
	}
	mix_result(s, pwritev2(fd, parts, 3, draw(s, 2) ? -1 : (off_t)draw(s, 2000), draw(s, 2) ? RWF_APPEND : 0));
	mix_result(s, writev(fd, parts, 1 + (int)draw(s, 3)));
	mix_result(s, preadv2(fd, parts, 3, draw(s, 2) ? -1 : (off_t)draw(s, 2000), draw(s, 2) ? RWF_NOWAIT : 0));
	mix_bytes(s, bytes, sizeof(bytes));
	mix_result(s, preadv(fd, parts, 2, draw(s, 3000)));
	mix_bytes(s, bytes, sizeof(bytes));
	mix_content(s, fd);
	close(fd);
}

/* Several datagrams a call, with flags that leave them or cut them. */
static void sends_many(struct self *s)
{
	struct iovec parts[4];
	struct mmsghdr many[4] = {0};
	char bytes[4][32] = {0};
	int pair[2], n = 1 + (int)draw(s, 4);
	struct timespec limit = {0};

	socketpair(AF_UNIX, draw(s, 2) ? SOCK_DGRAM : SOCK_SEQPACKET, 0, pair);
	for (int i = 0; i < n; i++) {
		memset(bytes[i], (int)decide(s, 256) + i, sizeof(bytes[i]));
		parts[i] = (struct iovec){bytes[i], 1 + draw(s, 31)};
		many[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
	}
	mix_result(s, sendmmsg(pair[0], many, (unsigned int)n, 0));
	if (draw(s, 2)) {
		mix_result(s, recv(pair[1], bytes[3], 20, MSG_PEEK | (draw(s, 2) ? MSG_TRUNC : 0)));
		mix_bytes(s, bytes[3], sizeof(bytes[3]));
	}
	memset(bytes, 0, sizeof(bytes));
	for (int i = 0; i < n; i++)
		parts[i].iov_len = 1 + draw(s, 20);
	n = recvmmsg(pair[1], many, (unsigned int)n, MSG_DONTWAIT, draw(s, 2) ? &limit : NULL);
	mix_result(s, n);
	for (int i = 0; i < n; i++)
		mix(s, many[i].msg_len + (uint64_t)many[i].msg_hdr.msg_flags * 1000);
	mix_bytes(s, bytes, sizeof(bytes));
	close(pair[0]);
	close(pair[1]);
}

/* A file in memory: written, mapped, sealed, opened again. */
static void seals(struct self *s)
{
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING), again;
	char name[64], bytes[64];
	unsigned char *p;

	mix_result(s, ftruncate(fd, 8192));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(p + draw(s, 4000), (int)decide(s, 256), 1 + draw(s, 4000));
	memset(bytes, (int)decide(s, 256), sizeof(bytes));
	mix_result(s, pwrite(fd, bytes, sizeof(bytes), draw(s, 9000)));
	mix_result(s, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	mix_bytes(s, p + 2000, 100);
	munmap(p, 8192);
	mix_result(s, fcntl(fd, F_ADD_SEALS, draw(s, 2) ? F_SEAL_WRITE : F_SEAL_SHRINK | F_SEAL_GROW));
	mix_result(s, write(fd, bytes, sizeof(bytes)));
	mix_result(s, ftruncate(fd, draw(s, 2) ? 4096 : 16384));
	mix_result(s, fcntl(fd, F_GET_SEALS));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	again = open(name, O_RDONLY);
	mix_content(s, again);
	close(again);
	close(fd);
}

/* A file without a name, which may get one. */
static void links_unnamed(struct self *s)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);
	char name[64], own[64];
	struct stat state;

	mix(s, (uint64_t)fd);
	snprintf(name, sizeof(name), "text of %x", decide(s, 10000));
	mix_result(s, write(fd, name, strlen(name)));
	snprintf(name, sizeof(name), "named-%d-%u", s->number, draw(s, 3));
	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	if (draw(s, 2))
		mix_result(s, linkat(AT_FDCWD, own, AT_FDCWD, name, AT_SYMLINK_FOLLOW));
	mix_result(s, fstat(fd, &state));
	mix(s, state.st_nlink);
	mix_content(s, fd);
	close(fd);
	mix_result(s, stat(name, &state));
	fd = open(name, O_RDONLY);
	mix_content(s, fd);
	close(fd);
	if (draw(s, 2))
		unlink(name);
}

/* Holes, sizes, and what the kernel says of them. */
static void makes_holes(struct self *s)
{
	int fd = own_file(s, "holes");
	struct statx state;

	mix_result(s, fallocate(fd, draw(s, 2) ? FALLOC_FL_KEEP_SIZE : 0, draw(s, 20000), 1 + draw(s, 9000)));
	mix_result(s, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, draw(s, 3000), 1 + draw(s, 9000)));
	if (draw(s, 2))
		mix_result(s, fallocate(fd, FALLOC_FL_ZERO_RANGE, draw(s, 3000), 1 + draw(s, 500)));
	if (draw(s, 2))
		mix_result(s, fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
	mix_result(s, lseek(fd, draw(s, 5000), SEEK_DATA));
	mix_result(s, lseek(fd, draw(s, 5000), SEEK_HOLE));
	mix_result(s, posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	mix_result(s, statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &state));
	mix(s, state.stx_size);
	mix(s, state.stx_ino + (uint64_t)state.stx_mtime.tv_nsec);
	mix_content(s, fd);
	close(fd);
}

/* Locks of files by descriptor, by process and as a whole; leases. */
static void locks_files(struct self *s)
{
	char name[64];
	int fd = own_file(s, "locked"), other;
	struct flock range = {.l_type = (short)(draw(s, 2) ? F_WRLCK : F_RDLCK), .l_start = draw(s, 10), .l_len = draw(s, 10)};

	snprintf(name, sizeof(name), "locked-%d", s->number);
	other = open(name, O_RDWR);
	mix_result(s, fcntl(fd, F_OFD_SETLK, &range));
	range = (struct flock){.l_type = F_WRLCK, .l_start = draw(s, 10), .l_len = 1};
	mix_result(s, fcntl(other, F_OFD_SETLK, &range));
	range.l_type = F_WRLCK;
	mix_result(s, fcntl(other, F_OFD_GETLK, &range));
	mix(s, (uint64_t)range.l_type + (uint64_t)range.l_start * 16);
	mix_result(s, flock(fd, LOCK_EX | LOCK_NB));
	mix_result(s, flock(other, LOCK_SH | LOCK_NB));
	mix_result(s, lockf(other, F_TEST, 5));
	close(other);
	mix_result(s, flock(fd, LOCK_UN));
	mix_result(s, fcntl(fd, F_SETLEASE, F_WRLCK));
	mix_result(s, fcntl(fd, F_GETLEASE));
	mix_result(s, fcntl(fd, F_SETLEASE, F_UNLCK));
	close(fd);
}

/* Files by other ways than by their names. */
static void opens_otherwise(struct self *s)
{
	struct {
		struct file_handle head;
		unsigned char bytes[MAX_HANDLE_SZ];
	} handle = {.head.handle_bytes = MAX_HANDLE_SZ};
	struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = draw(s, 2) ? RESOLVE_BENEATH : RESOLVE_NO_SYMLINKS};
	char name[64], path[64], target[64];
	int fd, held, mount;
	ssize_t n;

	snprintf(name, sizeof(name), "otherwise-%d", s->number);
	fd = (int)syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof(how));
	mix_result(s, fd);
	mix_result(s, write(fd, name, strlen(name)));
	how = (struct open_how){.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
	mix_result(s, syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof(how)));
	held = open(name, O_PATH);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", held);
	n = readlink(path, target, sizeof(target));
	mix_result(s, n);
	close(fd);
	fd = open(path, O_RDWR | O_APPEND);
	mix_result(s, write(fd, "more", 4));
	mix_content(s, fd);
	mix_result(s, name_to_handle_at(AT_FDCWD, name, &handle.head, &mount, 0));
	mix(s, handle.head.handle_bytes);
	close(fd);
	close(held);
	snprintf(path, sizeof(path), "link-%d", s->number);
	mix_result(s, symlink(name, path));
	mix_result(s, open(path, O_RDONLY | O_NOFOLLOW));
	fd = openat(AT_FDCWD, path, O_RDWR);
	mix_content(s, fd);
	close(fd);
	mix_result(s, unlink(path));
	mix_result(s, syscall(SYS_faccessat2, AT_FDCWD, name, R_OK, AT_SYMLINK_NOFOLLOW));
}

/* Many descriptors: which numbers they have, and which are closed. */
static void moves_descriptors(struct self *s)
{
	int ends[2], high, process = (int)syscall(SYS_pidfd_open, getpid(), 0), got;
	char bytes[16] = "";

	pipe(ends);
	high = fcntl(ends[1], F_DUPFD_CLOEXEC, 200 + (int)draw(s, 50));
	mix_result(s, high >= 200);
	mix_result(s, fcntl(high, F_GETFD));
	got = (int)syscall(SYS_pidfd_getfd, process, high, 0);
	mix_result(s, got > 0);
	mix_result(s, write(got, "by its own", 1 + draw(s, 9)));
	mix_result(s, syscall(SYS_close_range, high, high, draw(s, 2) ? CLOSE_RANGE_CLOEXEC : 0));
	mix_result(s, write(high, "high", 4));
	mix_result(s, read(ends[0], bytes, sizeof(bytes)));
	mix_bytes(s, bytes, sizeof(bytes));
	mix_result(s, fcntl(ends[1], F_SETPIPE_SZ, 4096 << draw(s, 4)));
	close(high);
	close(got);
	close(process);
	close(ends[0]);
	close(ends[1]);
}

const struct step move_steps[] = {
    {"splices", splices, 3},
    {"copies", copies, 3},
    {"gathers", gathers, 3},
    {"sends_many", sends_many, 3},
    {"seals", seals, 2},
    {"links_unnamed", links_unnamed, 2},
    {"makes_holes", makes_holes, 2},
    {"locks_files", locks_files, 2},
    {"opens_otherwise", opens_otherwise, 2},
    {"moves_descriptors", moves_descriptors, 2},
    {0},
};
