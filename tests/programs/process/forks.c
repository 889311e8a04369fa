/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forks: processes that a program forks, and that go on as the program.
 *
 *   forks            the names of the cases, a line
 *   forks CASE
 *
 * Each process prints lines that begin with its name, and values that no other run has.  Verbs are
 * called once, so that the program counts as one that uses them.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

static const char *name = "parent";

static void say(const char *what)
{
	struct timespec now;
	unsigned int random;
	char *block = malloc(100);

	clock_gettime(CLOCK_REALTIME, &now);
	getrandom(&random, sizeof(random), 0);
	printf("%s: %s: process %d of %d, %ld, %u, %p\n", name, what, getpid(), getppid(), now.tv_nsec, random,
	       (void *)block);
	fflush(stdout);
}

static void await(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	printf("%s: a child ended: %#x\n", name, status);
	fflush(stdout);
}

static pid_t begin(const char *child)
{
	pid_t pid = fork();

	if (!pid)
		name = child;
	return pid;
}

static void two(void)
{
	pid_t first, second;

	say("before");
	first = begin("child 1");
	if (!first) {
		say("first");
		exit(5);
	}
	second = begin("child 2");
	if (!second) {
		say("second");
		_exit(6);
	}
	await(first);
	await(second);
	say("after");
}

static void nested(void)
{
	pid_t child = begin("child 1"), grandchild;

	if (child) {
		await(child);
		return;
	}
	say("before");
	grandchild = begin("child 1/1");
	say("both");
	if (!grandchild)
		exit(7);
	await(grandchild);
	exit(8);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *take_turns(void *number)
{
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&lock);
		while (turn % 3 != (int)(long)number)
			pthread_cond_wait(&changed, &lock);
		turn++;
		say("turn");
		free(malloc(50 + (size_t)turn));
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t t[3];

	for (long i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, take_turns, (void *)i);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static void threads_in_child(void)
{
	pid_t child = begin("child 1");

	if (!child) {
		run_threads();
		exit(9);
	}
	await(child);
}

static void *work(void *unused)
{
	for (int i = 0; i < 200; i++) {
		free(malloc(10 + (size_t)i));
		usleep(100);
	}
	return NULL;
}

/* Other threads work meanwhile, and the child starts some, too. */
static void threads_in_both(void)
{
	pthread_t t[2];
	pid_t child;

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, work, NULL);
	usleep(2000);
	child = begin("child 1");
	if (!child) {
		run_threads();
		exit(10);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	await(child);
	say("after");
}

static volatile sig_atomic_t handled;

static void handle(int signo)
{
	handled += signo;
}

static void signals(void)
{
	pid_t child;

	signal(SIGUSR1, handle);
	signal(SIGALRM, handle);
	raise(SIGUSR1);
	child = begin("child 1");
	if (!child) {
		kill(getpid(), SIGUSR1);
		alarm(1);
		while (handled < 2 * SIGUSR1 + SIGALRM)
			;
		say("handled");
		exit(handled);
	}
	await(child);
}

static void files(void)
{
	FILE *f = fopen("read", "r");
	char line[80] = "";
	pid_t child;

	fgets(line, sizeof(line), f);
	printf("parent: %s", line);
	fflush(stdout);
	child = begin("child 1");
	/* Both read on from where the one file was. */
	if (!child) {
		FILE *own = fopen("written", "w+");

		fgets(line, sizeof(line), f);
		printf("child 1: %s", line);
		fputs(line, own);
		rewind(own);
		fgets(line, sizeof(line), own);
		printf("child 1: again %s", line);
		exit(11);
	}
	await(child);
}

static void killed(void)
{
	pid_t child = begin("child 1");

	if (!child) {
		say("computes");
		for (;;)
			;
	}
	usleep(300000);
	kill(child, SIGKILL);
	await(child);
}

/* These are helpers, whose programs are not recorded. */
static void executes(void)
{
	pid_t child = begin("child 1");

	if (!child) {
		say("executes");
		execlp("true", "true", (char *)NULL);
	}
	await(child);
	child = vfork();
	if (!child) {
		execlp("false", "false", (char *)NULL);
		_exit(1);
	}
	await(child);
	printf("parent: %#x\n", system("exit 3"));
}

static void without_handlers(void)
{
	pid_t child = _Fork();

	if (!child) {
		name = "child 1";
		say("_Fork");
		_exit(12);
	}
	await(child);
}

/* Its parent ends in the call. */
static void daemonizes(void)
{
	int end[2];
	char c;

	if (pipe(end))
		return;
	if (!fork()) {
		close(end[0]);
		name = "child 1/1";
		if (daemon(0, 1))
			_exit(1);
		say("daemon");
		_exit(15);
	}
	/* Until the daemon ends. */
	close(end[1]);
	if (read(end[0], &c, 1) == 0)
		wait(NULL);
}

/* The child is recorded until its parent is to trace it: each trapped call would stop it. */
static void traced(void)
{
	pid_t child = begin("child 1");
	int status;

	if (!child) {
		say("is to be traced");
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(14);
	}
	waitpid(child, &status, 0);
	printf("parent: the child has stopped: %#x\n", status);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	waitpid(child, &status, 0);
	if (!WIFEXITED(status)) {
		kill(child, SIGKILL);
		exit(1);
	}
	printf("parent: it has ended: %#x\n", status);
	fflush(stdout);
}

/* What the two tell each other is in memory that only they have. */
static void shared(void)
{
	struct timespec now;
	struct {
		_Atomic int turn;
		long values[40];
	} *both = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int self;

	both->values[39] = 5;
	child = begin("child 1");
	self = !child;
	for (int i = 0; i < 20; i++) {
		while (atomic_load(&both->turn) % 2 != self)
			usleep(50);
		printf("%s: found %ld\n", name, both->values[i]);
		clock_gettime(CLOCK_REALTIME, &now);
		both->values[i + 1] = now.tv_nsec;
		atomic_fetch_add(&both->turn, 1);
	}
	fflush(stdout);
	if (!child)
		exit(13);
	await(child);
}

#define BESIDE 200

/* Memory that a fork makes known to another process, beside a thread that loads it. */
struct beside {
	_Atomic int *shared[BESIDE];
	_Atomic bool began, ends;
};

static void *load_beside(void *argument)
{
	struct beside *b = argument;
	int sum = 0;

	while (!b->ends) {
		sched_yield();
		for (int i = 0; i < BESIDE; i++)
			sum += *b->shared[i];
		b->began = true;
	}
	printf("%s: a thread found %d\n", name, sum);
	fflush(stdout);
	return NULL;
}

static void shared_beside(void)
{
	struct beside b = {.began = false};
	pthread_t thread;
	pid_t child;

	for (int i = 0; i < BESIDE; i++) {
		b.shared[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		*b.shared[i] = i;
	}
	pthread_create(&thread, NULL, load_beside, &b);
	while (!b.began)
		sched_yield();
	child = begin("child 1");
	if (!child)
		_exit(14);
	b.ends = true;
	pthread_join(thread, NULL);
	await(child);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"two", two},
    {"nested", nested},
    {"threads-in-child", threads_in_child},
    {"threads-in-both", threads_in_both},
    {"signals", signals},
    {"files", files},
    {"killed", killed},
    {"executes", executes},
    {"without-handlers", without_handlers},
    {"shared", shared},
    {"shared-beside", shared_beside},
    {"daemon", daemonizes},
    {"traced", traced},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

int main(int argc, char **argv)
{
	int n;

	ibv_get_device_list(&n);
	for (size_t i = 0; i < CASES; i++) {
		if (argc < 2)
			printf("%s%c", cases[i].name, i + 1 < CASES ? ' ' : '\n');
		else if (!strcmp(argv[1], cases[i].name))
			cases[i].run();
	}
	return 4;
}
