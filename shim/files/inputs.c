/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "logd/ring/client.h"
#include "logd/base/rawsys.h"
#include "shim/memory/map.h"
#include "logd/base/say.h"

static struct sr_client *daemon_client; /* NULL: nothing is recorded */
static bool keep_content;
static struct sr_map seen; /* by device and inode */
static _Atomic bool complained;

void sr_files_start(struct sr_client *client, bool keep)
{
	daemon_client = client;
	keep_content = keep;
}

void sr_files_stop(void)
{
	daemon_client = NULL;
}

/*
 * The key of a file: device, inode and birth time. The birth time is included because the
 * inode number of a removed file is used again. If two files had the same key, the second
 * would not be noted; with 10^5 files the probability is about 10^-9.
 */
static uint64_t key_of(const struct statx *st)
{
	uint64_t device = (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
	uint64_t born = st->stx_mask & STATX_BTIME
			    ? (uint64_t)st->stx_btime.tv_sec * 1000000000 + st->stx_btime.tv_nsec
			    : 0;
	uint64_t key = st->stx_ino * 0xff51afd7ed558ccdull;

	key = (key ^ key >> 29 ^ device) * 0xc4ceb9fe1a85ec53ull;
	key = (key ^ key >> 31 ^ born) * 0x9e3779b97f4a7c15ull;
	return key ? key : 1;
}

static bool is_regular(int fd, struct statx *st)
{
	return !sr_syscall(SYS_statx, fd, SR_ARG(""), AT_EMPTY_PATH,
			   STATX_BASIC_STATS | STATX_BTIME, SR_ARG(st), 0) &&
	       S_ISREG(st->stx_mode);
}

static bool is_output(const struct statx *st, int flags)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;

	return flags & O_TRUNC || (writes && !st->stx_size);
}

bool sr_files_made_up(int fd)
{
	struct statfs fs;

	if (sr_syscall(SYS_fstatfs, fd, SR_ARG(&fs), 0, 0, 0, 0))
		return true;
	switch ((unsigned long)fs.f_type) {
	case 0x19800202: /* mqueue */
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/* The full path as the process sees it, or "" if it does not fit. */
static void find_path(int fd, char *path, size_t size)
{
	char self[40];
	long n;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = sr_syscall(SYS_readlinkat, AT_FDCWD, SR_ARG(self), SR_ARG(path), (long)size, 0, 0);
	path[n > 0 && n < (long)size ? n : 0] = 0;
}

static void complain(const char *path, int error)
{
	if (!atomic_exchange(&complained, true))
		sr_say("%s (and perhaps others) is not noted as an input (%s): a replay cannot "
		       "tell whether it has changed",
		       path[0] ? path : "a file", strerrorname_np(-error));
}

static void note(int fd)
{
	char path[320];
	int err;

	find_path(fd, path, sizeof(path));
	err = sr_client_add_file(daemon_client, fd, path, keep_content);
	/* -ENOTCONN: the client has disconnected and has already reported that. */
	if (err && err != -ENOTCONN)
		complain(path, err);
}

void sr_files_opened(int fd, int flags)
{
	struct statx st;
	void *old;

	if (!daemon_client || fd < 0 || flags & O_PATH || !is_regular(fd, &st) ||
	    sr_map_get(&seen, key_of(&st)))
		return;
	/* Enter outputs too: an output that the program reads back later is not an input. */
	if (sr_map_put(&seen, key_of(&st), &seen, &old) || old)
		return;
	if (!is_output(&st, flags) && !sr_files_made_up(fd))
		note(fd);
}
