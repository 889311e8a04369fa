/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * restart.c: addresses are best the same in each recording, and what a kernel chooses by itself: so
 * two recordings can be compared, and a tool that starts a replay itself finds them (replay/host/layout
 * moves others to where they were). `sreplay record` takes care of that.
 * After a plain LD_PRELOAD start, the process executes its program again, with the
 * personality that switches address randomisation off. The program sees no difference: its
 * arguments, environment, descriptors and process id are the same. Tracers see a second
 * execve, and constructors that ran before this one run again. Where that is forbidden, as in
 * containers, or in vain, addresses remain random.
 *
 * A process does so only once. An execve may drop the flag again (for a set-user-ID
 * program, for example), so the new image must know that it is the second one. An
 * environment variable would move the stack, and the program could find it. A bit of the
 * personality that means nothing to Linux, WHOLE_SECONDS, survives every execve.
 */
#include "shim/process/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/ring/socket_path.h"
#include "logd/ring/request.h"

#define AGAIN   WHOLE_SECONDS
#define CURRENT 0xffffffffu

static long set_personality(unsigned int persona)
{
	return sr_syscall(SYS_personality, persona, 0, 0, 0, 0, 0);
}

/* Without a daemon the process will not be recorded. */
static bool there_is_a_daemon(void)
{
	char path[108];
	int fd = sr_socket_path(path, sizeof(path)) ? -1 : sr_request_connect(path);

	if (fd >= 0)
		sr_sys_close(fd);
	return fd >= 0;
}

static long status_of(const char *path, struct stat *st)
{
	return sr_syscall(SYS_newfstatat, AT_FDCWD, SR_ARG(path), SR_ARG(st), 0, 0, 0);
}

/*
 * The path by which the program was executed, so that the new stack gets the same string.
 * If that path is a script's, then its interpreter, which is what this process runs.
 */
static const char *executable(void)
{
	const char *path = (const char *)getauxval(AT_EXECFN);
	struct stat named, running;

	if (path && !status_of(path, &named) && !status_of("/proc/self/exe", &running) &&
	    named.st_dev == running.st_dev && named.st_ino == running.st_ino)
		return path;
	return "/proc/self/exe";
}

/*
 * The arguments that execve got; the dynamic linker may have shifted argv if it was
 * executed itself. The kernel accepts at most 6 MiB, including empty arguments.
 */
#define TEXT_BYTES   (8ul << 20)
#define VECTOR_BYTES (TEXT_BYTES * sizeof(char *))

static char **arguments(void *room)
{
	char *text = room, **argv = (char **)(text + TEXT_BYTES);
	long fd, n, size = 0, count = 0;

	fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/cmdline"), O_RDONLY | O_CLOEXEC, 0,
			0, 0);
	if (fd < 0)
		return NULL;
	while ((n = sr_sys_read((int)fd, text + size, TEXT_BYTES - 1 - (size_t)size)) > 0)
		size += n;
	sr_sys_close((int)fd);
	for (char *p = text; p < text + size; p++)
		if (p == text || !p[-1])
			argv[count++] = p;
	return count ? argv : NULL;
}

int sr_execute_again(void)
{
	void *room = sr_sys_mmap(NULL, TEXT_BYTES + VECTOR_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char **argv;
	long err = -ENOENT;

	if (sr_sys_is_error(room))
		return (int)(intptr_t)room;
	argv = arguments(room);
	if (argv)
		err = sr_syscall(SYS_execve, SR_ARG(executable()), SR_ARG(argv), SR_ARG(environ), 0,
				 0, 0);
	sr_sys_munmap(room, TEXT_BYTES + VECTOR_BYTES);
	return (int)err;
}

void sr_restart_without_randomisation(void)
{
	long now = set_personality(CURRENT);

	if (now >= 0 && now & AGAIN)
		set_personality((unsigned int)now & ~AGAIN);
	/* Where an execve takes the switch back, as a set-user-ID program's does, a third one would, too. */
	if (now < 0 || now & (ADDR_NO_RANDOMIZE | AGAIN))
		return;
	/* Leave a privileged program as it is. */
	if (!there_is_a_daemon() || getauxval(AT_SECURE))
		return;
	if (set_personality((unsigned int)now | ADDR_NO_RANDOMIZE | AGAIN) < 0)
		return;
	sr_execute_again();
	set_personality((unsigned int)now);
}
