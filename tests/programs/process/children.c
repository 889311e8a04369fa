/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * children.c: processes that a program makes, and what it finds of them.
 *
 *	children CASE
 *
 * Whatever a child does, it is not recorded, and does its parent's recording no
 * harm.  What children do is written to files in the working directory: in a replay
 * there are none.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

extern char **environ;

static volatile sig_atomic_t ended;

static long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000l + ts.tv_nsec;
}

static void touch(const char *name)
{
	int fd = open(name, O_CREAT | O_WRONLY | O_APPEND, 0600);

	if (write(fd, "x", 1) != 1)
		abort();
	close(fd);
}

/* Much that is recorded of a recorded process. */
static void do_much(void)
{
	struct timespec a_moment = {.tv_nsec = 1000};
	struct ibv_device **devices = ibv_get_device_list(NULL);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (devices)
		ibv_free_device_list(devices);
	for (int i = 0; i < 200; i++) {
		now();
		free(malloc((size_t)i * 50));
		nanosleep(&a_moment, NULL);
	}
	close(fd);
	raise(SIGCONT);
}

static void *in_thread(void *argument)
{
	do_much();
	return argument;
}

static void told(pid_t pid, int status)
{
	printf("%d ended with %x at %ld\n", pid, (unsigned int)status, now());
}

static void forks(void)
{
	struct rusage usage;
	siginfo_t info;
	int status = 0;
	pid_t pid;

	for (int i = 0; i < 10; i++) {
		pid = fork();
		if (!pid) {
			pthread_t id;

			do_much();
			pthread_create(&id, NULL, in_thread, NULL);
			pthread_join(id, NULL);
			touch("forks");
			_exit(i);
		}
		printf("made %d at %ld\n", pid, now());
		switch (i % 5) {
		case 0:
			told(wait(&status), status);
			break;
		case 1:
			told(waitpid(pid, &status, 0), status);
			break;
		case 2:
			while (!(pid = waitpid(-1, &status, WNOHANG)))
				usleep(100);
			told(pid, status);
			break;
		case 3:
			pid = wait4(pid, &status, 0, &usage);
			told(pid, status);
			printf("usage %ld\n", usage.ru_maxrss);
			break;
		default:
			memset(&info, 0, sizeof(info));
			printf("%d", waitid(P_PID, (id_t)pid, &info, WEXITED));
			printf(" %d %d %d\n", info.si_pid, info.si_status, info.si_code);
		}
	}
	printf("%d", wait(NULL));
	printf(" %s\n", strerror(errno));
}

/* By exit, past the handlers that the parent has registered as well. */
static void child_exits(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		touch("exits");
		exit(6);
	}
	waitpid(pid, &status, 0);
	told(pid, status);
}

static void child_is_killed(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		raise(SIGSEGV);
	waitpid(pid, &status, 0);
	told(pid, status & ~0x80);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	told(pid, status);
}

static void vforks(void)
{
	char *argv[] = {"sh", "-c", "echo x >> vforks; exit 4", NULL};
	int status;
	pid_t pid = vfork();

	if (!pid) {
		execv("/bin/sh", argv);
		_exit(9);
	}
	waitpid(pid, &status, 0);
	told(pid, status);
	pid = _Fork();
	if (!pid) {
		touch("vforks");
		_exit(8);
	}
	waitpid(pid, &status, 0);
	told(pid, status);
}

static int cloned(void *argument)
{
	do_much();
	touch("clones");
	return 7;
}

static void clones(void)
{
	char *stack = malloc(1 << 16);
	int status;
	pid_t pid = clone(cloned, stack + (1 << 16), SIGCHLD, NULL);

	do_much();
	waitpid(pid, &status, 0);
	told(pid, status);
}

static void spawns(void)
{
	char *argv[] = {"sh", "-c", "echo x >> spawns; exit 3", NULL};
	int status;
	pid_t pid;

	printf("%d\n", posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ));
	waitpid(pid, &status, 0);
	told(pid, status);
	printf("%d\n", posix_spawnp(&pid, "sh", NULL, NULL, argv, environ));
	waitpid(pid, &status, 0);
	told(pid, status);
	printf("%d\n", posix_spawn(&pid, "/no/such/file", NULL, NULL, argv, environ));
	printf("system %x\n", (unsigned int)system("echo x >> spawns; exit 2"));
	printf("system %d\n", system(NULL) != 0);
}

static void child_ended(int signo)
{
	int saved = errno, status;

	while (waitpid(-1, &status, WNOHANG) > 0)
		ended++;
	errno = saved;
}

/* Many that end at any time. */
static void storm(void)
{
	struct sigaction act = {.sa_handler = child_ended, .sa_flags = SA_RESTART};

	sigaction(SIGCHLD, &act, NULL);
	for (int i = 0; i < 60; i++) {
		if (!fork()) {
			usleep((useconds_t)(i % 7) * 300);
			_exit(0);
		}
		now();
	}
	while (ended < 60)
		usleep(1000);
	printf("%d at %ld\n", (int)ended, now());
}

static volatile int stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument)
{
	void *block[50];
	int go_on = 1;

	while (go_on) {
		for (int i = 0; i < 50; i++)
			block[i] = malloc((size_t)(10 + i * 3));
		for (int i = 0; i < 50; i++)
			free(block[i]);
		pthread_mutex_lock(&lock);
		now();
		go_on = !stop;
		pthread_mutex_unlock(&lock);
		/* Children are many, and a busy machine slow to make them. */
		usleep(100);
	}
	return NULL;
}

/* While other threads hold whatever locks there are. */
static void with_threads(void)
{
	pthread_t ids[3];
	int status;

	for (int i = 0; i < 3; i++)
		pthread_create(&ids[i], NULL, work, NULL);
	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();

		if (!pid) {
			do_much();
			_exit(i);
		}
		waitpid(pid, &status, 0);
		told(pid, status);
	}
	pthread_mutex_lock(&lock);
	stop = 1;
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 3; i++)
		pthread_join(ids[i], NULL);
}

/* A child has the dispositions and masks that the parent set, and its own signals. */
static void noted(int signo)
{
	ended = signo;
}

static void signals_of_a_child(void)
{
	sigset_t set, now_set;
	int status;
	pid_t pid;

	signal(SIGUSR1, noted);
	signal(SIGSEGV, noted);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pid = fork();
	if (!pid) {
		struct sigaction act;

		raise(SIGUSR2);
		raise(SIGUSR1);
		sigprocmask(SIG_BLOCK, NULL, &now_set);
		sigaction(SIGSEGV, NULL, &act);
		if (ended != SIGUSR1 || !sigismember(&now_set, SIGSEGV) ||
		    !sigismember(&now_set, SIGALRM) || sigismember(&now_set, SIGTERM) ||
		    act.sa_handler != noted)
			_exit(1);
		touch("signals_of_a_child");
		raise(SIGSEGV);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		_exit(ended == SIGSEGV ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	told(pid, status);
}

/* The last word of this process is another program's. */
static void executes(void)
{
	char *argv[] = {"sh", "-c", "exit 3", NULL};

	now();
	printf("%d", execv("/no/such/file", argv));
	printf(" %s\n", strerror(errno));
	fflush(stdout);
	execv("/bin/sh", argv);
}

/* Between guards; what the child stores there is found by its parent. */
static void guarded_memory(void)
{
	const size_t page = 4096, pages = 6;
	char *all = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long *counters = (long *)(all + page);
	pid_t child;

	mprotect(all, page, PROT_NONE);
	mprotect(all + (pages - 1) * page, page, PROT_NONE);
	counters[0] = now();
	child = fork();
	if (!child) {
		for (int i = 1; i < 1000; i++)
			counters[i] = now() + counters[i - 1];
		_exit(0);
	}
	waitpid(child, NULL, 0);
	for (int i = 0; i < 1000; i += 100)
		printf("%ld\n", counters[i]);
}

/* A child whose parent has memory that is watched costs it little: it has few pages to touch. */
static void shared_memory(void)
{
	long *found = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rusage used;

	for (int i = 0; i < 3; i++) {
		pid_t child = fork();

		if (!child) {
			getrusage(RUSAGE_SELF, &used);
			found[i] = used.ru_minflt < 1000;
			_exit(0);
		}
		waitpid(child, NULL, 0);
		printf("few faults: %ld\n", found[i]);
	}
}

static int handled; /* by the handlers of fork, in both processes */

static void before_fork(void)
{
	handled += 1;
	printf("before a fork %d\n", handled);
}

static void behind_fork(void)
{
	handled += 10;
	printf("behind a fork %ld\n", now());
}

static void in_child(void)
{
	handled += 100;
}

static void fork_handlers(void)
{
	int status;
	pid_t child;

	pthread_atfork(before_fork, behind_fork, in_child);
	pthread_atfork(NULL, NULL, in_child);
	for (int i = 0; i < 2; i++) {
		child = fork();
		if (!child)
			_exit(handled % 256);
		waitpid(child, &status, 0);
		printf("handled %d, the child %d\n", handled, WEXITSTATUS(status));
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"forks", forks},
    {"child_exits", child_exits},
    {"child_is_killed", child_is_killed},
    {"vforks", vforks},
    {"clones", clones},
    {"spawns", spawns},
    {"storm", storm},
    {"with_threads", with_threads},
    {"signals_of_a_child", signals_of_a_child},
    {"executes", executes},
    {"guarded_memory", guarded_memory},
    {"shared_memory", shared_memory},
    {"fork_handlers", fork_handlers},
};

int main(int argc, char **argv)
{
	struct ibv_device **devices = argc > 1 ? ibv_get_device_list(NULL) : NULL;

	if (devices)
		ibv_free_device_list(devices);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc == 1) {
			printf("%s\n", cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			setvbuf(stdout, NULL, _IOLBF, 0);
			cases[i].run();
			printf("after it %ld\n", now());
			return 3;
		}
	}
	return 0;
}
