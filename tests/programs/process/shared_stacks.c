/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_stacks.c: stacks that lie in memory which the program shares.
 *
 *     shared_stacks coroutine|coroutines|handler|thread|clone
 *
 * coroutine: a coroutine makes calls; coroutines: several of them, on 32 KiB each, take turns and leave words for each other
 * in the same mapping; handler: a signal's handler runs there; thread: a thread that was given its stack; clone: a child
 * that shares the memory runs there, as stress-ng's do.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES (32ul << 10)
#define COROUTINES  4
#define BYTES	    (8 * STACK_BYTES)

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

static char *shared;
static unsigned long sum;

/* What a program does anywhere: calls of which some go to the kernel, some use much of the stack. */
static void work(int n)
{
	volatile char deep[3000];
	struct timespec t;
	unsigned char drawn[8];
	char *block, line[40];

	for (int i = 0; i < n; i++) {
		memset((char *)deep, i, sizeof(deep));
		must(!clock_gettime(CLOCK_REALTIME, &t) && getrandom(drawn, sizeof(drawn), 0) == sizeof(drawn), "getrandom");
		block = malloc(100 + drawn[0]);
		must(block && snprintf(line, sizeof(line), "%ld %d", t.tv_nsec, drawn[1]) > 0, "malloc");
		strcpy(block, line);
		sum = sum * 31 + (unsigned long)strlen(block) + drawn[2] + (unsigned long)deep[drawn[3]];
		free(block);
	}
}

static ucontext_t scheduler, coroutines[COROUTINES];

static void yield_to_scheduler(int which)
{
	must(!swapcontext(&coroutines[which], &scheduler), "swapcontext");
}

/* Their words lie at the end of the mapping, in which peers could store. */
static void coroutine(int which)
{
	volatile unsigned long *words = (volatile unsigned long *)(shared + BYTES - 4096);

	for (int turn = 0; turn < 50; turn++) {
		work(2);
		words[which] = sum + words[(which + 1) % COROUTINES];
		yield_to_scheduler(which);
	}
}

static void alone(void)
{
	work(100);
}

static void make(ucontext_t *c, char *stack, size_t size, void (*f)(void), int which)
{
	must(!getcontext(c), "getcontext");
	c->uc_stack.ss_sp = stack;
	c->uc_stack.ss_size = size;
	c->uc_link = &scheduler;
	makecontext(c, f, 1, which);
}

static void run_coroutine(void)
{
	make(&coroutines[0], shared, BYTES, alone, 0);
	must(!swapcontext(&scheduler, &coroutines[0]), "swapcontext");
}

static void run_coroutines(void)
{
	for (int i = 0; i < COROUTINES; i++)
		make(&coroutines[i], shared + (size_t)i * STACK_BYTES, STACK_BYTES, (void (*)(void))coroutine, i);
	for (int turn = 0; turn < 50; turn++)
		for (int i = 0; i < COROUTINES; i++)
			must(!swapcontext(&scheduler, &coroutines[i]), "swapcontext");
}

static void handle(int n)
{
	(void)n;
	work(5);
}

static void run_handler(void)
{
	const stack_t stack = {.ss_sp = shared, .ss_size = BYTES / 2};
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};

	must(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &action, NULL), "sigaltstack");
	for (int i = 0; i < 20; i++)
		must(!raise(SIGUSR1), "raise");
}

static void *thread(void *unused)
{
	work(100);
	return unused;
}

static void run_thread(void)
{
	pthread_attr_t attr;
	pthread_t id;

	must(!pthread_attr_init(&attr) && !pthread_attr_setstack(&attr, shared, BYTES / 2), "pthread_attr_setstack");
	must(!pthread_create(&id, &attr, thread, NULL) && !pthread_join(id, NULL), "pthread_create");
}

static int child(void *unused)
{
	(void)unused;
	work(20);
	return 7;
}

static void run_clone(void)
{
	int status, pid = clone(child, shared + BYTES / 2, SIGCHLD, NULL);

	must(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7, "clone");
	work(3);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"coroutine", run_coroutine}, {"coroutines", run_coroutines}, {"handler", run_handler}, {"thread", run_thread}, {"clone", run_clone},
};

int main(int argc, char **argv)
{
	char name[] = "/dev/shm/sreplay-stacks-XXXXXX";
	int fd = mkstemp(name);

	must(fd >= 0 && !unlink(name) && !ftruncate(fd, BYTES), name);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(shared != MAP_FAILED, "mmap");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (argc == 2 && !strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			printf("%s %lx\n", cases[i].name, sum);
			return 0;
		}
	fprintf(stderr, "usage: shared_stacks coroutine|coroutines|handler|thread|clone\n");
	return 2;
}
