/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/threads.h"

#include <stdlib.h>
#include <string.h>

#include "logd/base/rawsys.h"

struct entry {
	uint64_t inode, offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

static int open_at(int directory, const char *name, int flags)
{
	return (int)sr_syscall(SYS_openat, directory, SR_ARG(name), flags | O_CLOEXEC, 0, 0, 0);
}

/* The signal mask of the thread with this directory; all ones if the kernel does not say. */
static uint64_t mask_of(int tasks, const char *tid)
{
	char text[4096], path[32];
	size_t n = strlen(tid);
	long size = -1;
	char *at;
	int fd;

	if (n + sizeof("/status") > sizeof(path))
		return UINT64_MAX;
	memcpy(path, tid, n);
	memcpy(path + n, "/status", sizeof("/status"));
	fd = open_at(tasks, path, O_RDONLY);
	if (fd >= 0) {
		size = sr_sys_read(fd, text, sizeof(text) - 1);
		sr_sys_close(fd);
	}
	/* The thread has ended, so it cannot fault any more. */
	if (size <= 0)
		return 0;
	text[size] = 0;
	at = strstr(text, "\nSigBlk:");
	return at ? strtoull(at + sizeof("\nSigBlk:") - 1, NULL, 16) : UINT64_MAX;
}

static bool is_this_thread(const char *tid)
{
	return atol(tid) == sr_sys_gettid();
}

bool sr_signal_blocked_elsewhere(uint64_t signals)
{
	_Alignas(8) char room[2048];
	int tasks = open_at(AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY);
	bool blocked = tasks < 0;
	long n;

	while (!blocked &&
	       (n = sr_syscall(SYS_getdents64, tasks, SR_ARG(room), sizeof(room), 0, 0, 0)) > 0) {
		for (long at = 0; at < n && !blocked;) {
			const struct entry *e = (const void *)(room + at);

			at += e->size;
			if (e->name[0] != '.' && !is_this_thread(e->name))
				blocked = mask_of(tasks, e->name) & signals;
		}
	}
	if (tasks >= 0)
		sr_sys_close(tasks);
	return blocked;
}
