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
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/timex.h>
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

static int told;

static void tell(union sigval unused)
{
	__atomic_store_n(&told, 1, __ATOMIC_SEQ_CST);
}

/* libc makes a thread for each expiry. */
static void event_thread(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell};
	struct itimerspec soon = {.it_value.tv_nsec = 1000000};
	timer_t timer;

	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &soon, NULL);
	usleep(20000);
	fprintf(out, "deleted: %d\n", timer_delete(timer));
}

/* What control calls of System V's queues and semaphores write, and the kernel's clock. */
static void queues(void)
{
	unsigned short values[3] = {1, 2, 3}, found[3] = {0};
	int queue = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 3, 0600);
	struct timex clock = {.modes = 0};
	struct msqid_ds of_queue;
	struct semid_ds of_set;

	msgctl(queue, IPC_STAT, &of_queue);
	semctl(set, 0, SETALL, values);
	semctl(set, 0, GETALL, found);
	semctl(set, 0, IPC_STAT, &of_set);
	fprintf(out, "%ld %ld %hu %hu %hu\n", (long)of_queue.msg_ctime, (long)of_set.sem_ctime, found[0], found[1], found[2]);
	msgctl(queue, IPC_RMID, NULL);
	semctl(set, 0, IPC_RMID);
	adjtimex(&clock);
	fprintf(out, "%ld\n", (long)clock.time.tv_usec);
}

/* Code that is written at one place and executed at another one, as just-in-time compilers do. */
static void two_views(void)
{
	static const unsigned char returns_42[] = {0xb8, 42, 0, 0, 0, 0xc3};
	int fd = memfd_create("code", 0), file = open("/etc/passwd", O_RDONLY);
	char *text, *code, *written;

	ftruncate(fd, 8192);
	text = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	written = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memcpy(written, returns_42, sizeof(returns_42));
	fprintf(out, "%p %c %p %p %d\n", (void *)text, text[0], (void *)code, (void *)written, ((int (*)(void))(uintptr_t)code)());
	close(fd);
	close(file);
}

/* What sreplay does not know writes to memory; the program looks at its result only. */
static void kernel_writes(void)
{
	char room[4096];
	int fd = open("/", O_RDONLY | O_DIRECTORY);

	fprintf(out, "entries: %d\n", syscall(SYS_getdents, fd, room, sizeof(room)) > 0);
	close(fd);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"terminal", terminal},           {"session", session},
    {"popen_writes", popen_writes},   {"popen_reads", popen_reads},
    {"raw_processes", raw_processes}, {"raw_thread", raw_thread},
    {"event_thread", event_thread},   {"queues", queues},
    {"two_views", two_views},         {"kernel_writes", kernel_writes},
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
