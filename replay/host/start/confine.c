/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "replay/host/start/confine_calls.h"
#include "replay/print/say.h"

/* ---- files: Landlock ---- */

/* Before version 3 (Linux 6.2), files that may be read may be truncated. */
#define LEAST_VERSION 3

/* Names of later headers. */
#define RIGHT_REFER     (1ull << 13)
#define RIGHT_TRUNCATE  (1ull << 14)
#define RIGHT_IOCTL_DEV (1ull << 15)
#define RIGHTS_NET      3ull /* to bind and to connect TCP */
#define SCOPES          3ull /* abstract sockets, and signals */

#define RIGHTS_TO_READ                                                                             \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* Regular files and directories: the command reads there afterwards. */
#define RIGHTS_TO_WRITE                                                                            \
	(RIGHTS_TO_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |            \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                            \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | RIGHT_REFER | RIGHT_TRUNCATE)
/* All of version 3. */
#define RIGHTS (((1ull << 13) - 1) | RIGHT_REFER | RIGHT_TRUNCATE)

struct rules {
	uint64_t files, net, scopes;
};

static long version(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

const char *sr_confine_obstacle(void)
{
	long has = version();

	if (has >= LEAST_VERSION)
		return NULL;
	return has < 0 ? "this kernel has no Landlock, or it is switched off"
		       : "the Landlock of this kernel is too old: Linux 6.2 is the first that will do";
}

/* The kernel takes no more of the struct than it knows. */
static int make_rules(void)
{
	struct rules r = {.files = RIGHTS};
	long has = version();
	size_t size = offsetof(struct rules, net);

	if (has >= 4) {
		r.net = RIGHTS_NET;
		size = offsetof(struct rules, scopes);
	}
	if (has >= 5)
		r.files |= RIGHT_IOCTL_DEV;
	if (has >= 6) {
		r.scopes = SCOPES;
		size = sizeof(r);
	}
	return (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
}

static bool allow(int rules, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr attr = {.allowed_access = rights, .parent_fd = fd};

	return fd >= 0 &&
	       !syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
}

static bool allow_path(int rules, const char *path, uint64_t rights)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	bool done = allow(rules, fd, rights);

	if (fd >= 0)
		close(fd);
	return done;
}

static bool confine_files(int writable)
{
	/* What is written there is gone. */
	static const char *const sinks[] = {"/dev/null", "/dev/zero", "/dev/full"};
	int rules = make_rules();
	bool done = rules >= 0 && allow_path(rules, "/", RIGHTS_TO_READ);

	for (size_t i = 0; done && i < sizeof(sinks) / sizeof(sinks[0]); i++)
		allow_path(rules, sinks[i],
			   LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
			       RIGHT_TRUNCATE);
	/* Its own memory, which is all its own: the shim writes jumps into the program's code there. */
	if (done)
		allow_path(rules, "/proc/self/mem", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
	if (done && writable >= 0)
		done = allow(rules, writable, RIGHTS_TO_WRITE);
	done = done && !syscall(SYS_landlock_restrict_self, rules, 0);
	if (rules >= 0)
		close(rules);
	return done;
}

/* ---- capabilities: of root's only the one by which root reads all files ---- */

static bool confine_root(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return false;
	/* Without CAP_SETPCAP there is nothing to drop, and nothing to be gained. */
	for (int cap = 0; cap <= 63; cap++)
		if (cap != CAP_DAC_READ_SEARCH)
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= i ? 0 : 1u << CAP_DAC_READ_SEARCH;
		data[i].effective &= data[i].permitted;
		data[i].inheritable = 0;
	}
	return !syscall(SYS_capset, &header, data);
}

bool sr_confine_enter(int writable)
{
	if (confine_root() && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && confine_files(writable) &&
	    sr_confine_calls())
		return true;
	sr_fail("the sandbox cannot be set up: %s", strerror(errno));
	return false;
}
