/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/passed_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/changes.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/files/private.h"
#include "shim/files/write_order.h"
#include "shim/memory/heap.h"
#include "shim/memory/room.h"

void sr_passed_fds(const struct msghdr *m, void (*take)(int fd))
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR((struct msghdr *)m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			take(fd);
		}
	}
}

__thread struct sr_passed_files sr_passed_files;

struct sr_passed_file *sr_new_passed_file(void)
{
	struct sr_passed_files *all = &sr_passed_files;

	if (!sr_make_room(&all->list, &all->room, all->n + 1, sizeof(*all->list)))
		return NULL;
	return &all->list[all->n++];
}

/* ------------------------------------------------------------------ recording */

#define SEARCHED 1024 /* descriptors */

static int find_same(int fd)
{
	const long self = sr_sys_getpid();

	for (int other = 0; other < SEARCHED; other++)
		if (other != fd && !sr_fd_is_held(other) && sr_fd_is_ordinary(other) &&
		    !sr_syscall(SYS_kcmp, self, self, KCMP_FILE, fd, other, 0))
			return other;
	return -1;
}

static bool is_regular(int fd)
{
	struct stat st;

	return !sr_sys_fstat(fd, &st) && S_ISREG(st.st_mode);
}

/* A file of which the replay can have a private one: one without a name is another process's memory. */
static bool open_passed(struct sr_passed_file *p)
{
	if (!sr_files_opened(p->fd, (int)p->flags, &p->file) || !strncmp(p->file.path, "/memfd:", 7))
		return false;
	p->file.class = SR_FD_FILE;
	return true;
}

static void note(int fd)
{
	struct sr_passed_file *p = is_regular(fd) ? sr_new_passed_file() : NULL;

	if (!p) {
		sr_fd_capture(fd);
		return;
	}
	*p = (struct sr_passed_file){
	    .fd = fd,
	    .same = find_same(fd),
	    .position = sr_syscall(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0),
	    .flags = (uint32_t)sr_sys_fcntl(fd, F_GETFL, 0) | (sr_sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC ? O_CLOEXEC : 0),
	};
	if (p->same >= 0) {
		sr_fd_share(p->same, fd);
		return;
	}
	if (open_passed(p)) {
		sr_fd_release(fd);
		return;
	}
	sr_passed_files.n--;
	sr_fd_capture(fd);
}

uint64_t sr_invoke_recvmsg(const struct sr_call_desc *d, uint64_t *a)
{
	ssize_t result = (ssize_t)sr_real(d, a);
	int error = errno;

	sr_passed_files.n = 0;
	if (result >= 0 && sr_fd_captured((int)a[0]))
		sr_passed_fds((const struct msghdr *)a[1], note);
	errno = error;
	return (uint64_t)result;
}

uint64_t sr_invoke_recvmmsg(const struct sr_call_desc *d, uint64_t *a)
{
	const struct mmsghdr *messages = (const struct mmsghdr *)a[1];
	int n = (int)sr_real(d, a), error = errno;

	sr_passed_files.n = 0;
	for (int i = 0; i < n && sr_fd_captured((int)a[0]); i++)
		sr_passed_fds(&messages[i].msg_hdr, note);
	errno = error;
	return (uint64_t)(int64_t)n;
}

/* --------------------------------------------------------------------- replay */

static long open_again(const struct sr_passed_file *p)
{
	const bool closes = p->flags & O_CLOEXEC;
	long fd;

	if (p->same >= 0)
		return sr_sys_fcntl(p->same, closes ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
	if (sr_private_fd() < 0)
		fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(p->file.path), (int)p->flags, 0, 0, 0);
	else
		fd = sr_private_open(&p->file, AT_FDCWD, p->file.path, (int)p->flags);
	if (fd >= 0)
		sr_syscall(SYS_lseek, fd, p->position, SEEK_SET, 0, 0, 0);
	return fd;
}

static const struct sr_passed_file *passed_as(int fd)
{
	for (uint32_t i = 0; i < sr_passed_files.n; i++)
		if (sr_passed_files.list[i].fd == fd)
			return &sr_passed_files.list[i];
	return NULL;
}

static void take(int fd)
{
	const struct sr_passed_file *p = passed_as(fd);
	long opened = p ? open_again(p) : -1;

	if (opened < 0) {
		sr_fd_hold(fd);
		return;
	}
	if (p->same < 0)
		sr_changes_opened(&p->file, fd, (int)p->flags, 0);
	else
		sr_changes_duplicated(p->same, fd);
	sr_fd_renumber((int)opened, fd);
	if (p->same < 0)
		sr_fd_release(fd);
	else
		sr_fd_share(p->same, fd);
}

void sr_replayed_recvmsg(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((ssize_t)result >= 0)
		sr_passed_fds((const struct msghdr *)a[1], take);
}

void sr_replayed_recvmmsg(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	const struct mmsghdr *messages = (const struct mmsghdr *)a[1];

	for (int i = 0; i < (int)result; i++)
		sr_passed_fds(&messages[i].msg_hdr, take);
}
