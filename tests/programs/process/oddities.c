/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oddities.c: what programs do to terminals, descriptors and processes past the usual functions.
 *
 *	oddities CASE OUTPUT     prints into the file OUTPUT; without arguments: names the cases
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

static FILE *out;

static void on_terminal(int fd)
{
	struct termios settings;
	struct winsize size;
	int queued = -1;

	fprintf(out, "%d: group %d session %d terminal %d %s\n", fd, tcgetpgrp(fd) == getpgrp(),
		tcgetsid(fd) == getsid(0), isatty(fd), isatty(fd) ? ttyname(fd) : "-");
	fprintf(out, "size %d settings %d queued %d %d", ioctl(fd, TIOCGWINSZ, &size),
		tcgetattr(fd, &settings), ioctl(fd, TIOCOUTQ, &queued), queued);
	fprintf(out, " set %d", tcsetpgrp(fd, getpgrp()));
	fprintf(out, " flush %d\n", tcflush(fd, TCIOFLUSH));
}

/* Each of its descriptors, and copies of them. */
static void terminal(void)
{
	on_terminal(0);
	on_terminal(2);
	on_terminal(dup(2));
	on_terminal(fcntl(1, F_DUPFD, 40));
}

static void session(void)
{
	fprintf(out, "%d", setpgid(0, 0));
	fprintf(out, " %d", setsid() == getpid());
	fprintf(out, " %d %d\n", getsid(0) == getpid(), getpgrp() == getpid());
}

static void popen_writes(void)
{
	FILE *child = popen("cat >/dev/null; exit 3", "w");

	fprintf(child, "hello\n");
	fprintf(out, "wrote: %x\n", pclose(child));
}

static void popen_reads(void)
{
	FILE *child = popen("date +%N; exit 4", "r");
	char line[64] = "";

	fgets(line, sizeof(line), child);
	fprintf(out, "read: %s", line);
	fprintf(out, "status: %x\n", pclose(child));
}

/* Processes made by the system call itself. */
static void raw_processes(void)
{
	int status = 0;
	pid_t child = (pid_t)syscall(SYS_fork);

	if (!child)
		_exit(getpid() % 100);
	fprintf(out, "%d %d", child, (int)syscall(SYS_wait4, child, &status, 0, NULL) == child);
	fprintf(out, " %x\n", status);
}

static int thread_id;

static int raw_body(void *unused)
{
	syscall(SYS_exit, 0);
	return 0;
}

static void raw_thread(void)
{
	char *stack = malloc(65536);

	clone(raw_body, stack + 65536,
	      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
		  CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID,
	      NULL, &thread_id, NULL, &thread_id);
	while (__atomic_load_n(&thread_id, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &thread_id, FUTEX_WAIT, thread_id, NULL, NULL, 0);
	fprintf(out, "it ended\n");
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"terminal", terminal},           {"session", session},
    {"popen_writes", popen_writes},   {"popen_reads", popen_reads},
    {"raw_processes", raw_processes}, {"raw_thread", raw_thread},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc < 3) {
			puts(cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			out = fopen(argv[2], "w");
			cases[i].run();
			fclose(out);
		}
	}
	return 0;
}
