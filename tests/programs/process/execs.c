/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * execs.c: a program that executes itself, by each way there is.
 *
 *     execs CASE      runs a case; the next image is "execs after WHAT"
 *     execs           lists the cases
 *
 * Both images print what enters them (the time), so that a replay which did not follow shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char self[4096];
static char *const environment[] = {"OWN=variable", NULL};
static char *after[] = {"execs", "after", "it", NULL};

static void say(const char *what)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	printf("%s in process %d at %ld.%09ld\n", what, (int)getpid(), (long)now.tv_sec, now.tv_nsec);
	fflush(stdout);
}

static void by_execve(void)
{
	execve(self, after, environment);
}

static void by_execv(void)
{
	execv(self, after);
}

/* The name is looked for in PATH. */
static void by_execvp(void)
{
	execvp("execs", after);
}

static void by_execvpe(void)
{
	execvpe("execs", after, environment);
}

static void by_execl(void)
{
	execl(self, "execs", "after", "it", NULL);
}

static void by_execlp(void)
{
	execlp("execs", "execs", "after", "it", NULL);
}

static void by_execle(void)
{
	execle(self, "execs", "after", "it", NULL, environment);
}

static void by_fexecve(void)
{
	fexecve(open(self, O_RDONLY | O_CLOEXEC), after, environment);
}

static void by_execveat(void)
{
	execveat(open("/", O_RDONLY | O_CLOEXEC), self + 1, after, environment, 0);
}

static void by_system_call(void)
{
	syscall(SYS_execve, self, after, environment);
}

static void without_environment(void)
{
	execve(self, after, NULL);
}

/* Its own settings are gone, and so is what it inherited of the recording. */
static void with_cleared_environment(void)
{
	clearenv();
	setenv("OWN", "variable", 1);
	execv(self, after);
}

static void with_own_preload(void)
{
	char *const own[] = {"LD_PRELOAD=libm.so.6", NULL};

	execve(self, after, own);
}

/* The old image's recording goes on. */
static void failing(void)
{
	static char *const none[] = {NULL};
	char text[512];

	for (int i = 0; i < 3; i++) {
		execv("/no/such/program", after);
		snprintf(text, sizeof(text), "errno %d", errno);
		say(text);
	}
	execve("/", after, none);
	say(strerrorname_np(errno));
	syscall(SYS_execve, "/no/such/program", after, none);
	say(strerrorname_np(errno));
	execve(self, after, environment);
}

static void dropping_output(void)
{
	fputs("in the buffer, and so never written", stdout);
	execv(self, after);
}

static void in_a_chain(void)
{
	char *const chain[] = {"execs", "chain", "5", NULL};

	execv(self, chain);
}

static void *speak(void *number)
{
	char text[32];

	for (int i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "thread %d, %d", (int)(long)number, i);
		say(text);
	}
	for (;;)
		pause();
	return NULL;
}

static void *execute(void *unused)
{
	struct timespec a_while = {.tv_nsec = 50000000};

	nanosleep(&a_while, NULL);
	execv(self, after);
	return NULL;
}

static void start(void *(*f)(void *), void *argument)
{
	pthread_t thread;

	pthread_create(&thread, NULL, f, argument);
}

static void among_threads(void)
{
	for (long i = 0; i < 3; i++)
		start(speak, (void *)i);
	execute(NULL);
}

static void in_another_thread(void)
{
	start(speak, NULL);
	start(execute, NULL);
	for (;;)
		pause();
}

/* What the program read of it in the recording, and reads now, may differ. */
static void with_mapped_argument(void)
{
	int fd = open("mapped", O_RDONLY);
	char *text = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	char *const own[] = {"execs", "after", text, NULL};

	execv(self, own);
}

static void with_blocked_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGUSR2, SIG_IGN);
	raise(SIGUSR1);
	execv(self, after);
}

/* A child's image is not this rank's. */
static void in_a_child(void)
{
	int status;
	pid_t pid = fork();

	/* What a child prints is not replayed. */
	if (!pid) {
		dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
		execv(self, after);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	say(WIFEXITED(status) && WEXITSTATUS(status) == 7 ? "the child ended" : "the child failed");
	execv(self, after);
}

static void with_files(void)
{
	FILE *f = fopen("written", "w");
	int out;

	fputs("by the first image\n", f);
	fclose(f);
	out = open("inherited", O_RDWR | O_CREAT | O_TRUNC, 0644);
	write(out, "a line to read\n", 15);
	lseek(out, 0, SEEK_SET);
	dup2(out, 9);
	dup2(STDOUT_FILENO, 8);
	execv(self, (char *[]){"execs", "files", "again", NULL});
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"execve", by_execve},
    {"execv", by_execv},
    {"execvp", by_execvp},
    {"execvpe", by_execvpe},
    {"execl", by_execl},
    {"execlp", by_execlp},
    {"execle", by_execle},
    {"fexecve", by_fexecve},
    {"execveat", by_execveat},
    {"system-call", by_system_call},
    {"no-environment", without_environment},
    {"cleared-environment", with_cleared_environment},
    {"own-preload", with_own_preload},
    {"failing", failing},
    {"dropped-output", dropping_output},
    {"chain", in_a_chain},
    {"threads", among_threads},
    {"other-thread", in_another_thread},
    {"signals", with_blocked_signals},
    {"child", in_a_child},
    {"files", with_files},
};

/* ---- the next image ---- */

/* The variables too, where the image before has chosen them. */
static int say_after(const char *what)
{
	stack_t stack = {0};
	sigset_t set;
	int n = 0;

	say(what);
	while (environ && environ[n])
		n++;
	for (char **at = environ; at && *at; at++)
		if (!strncmp(*at, "SREPLAY_IMAGE", 13) || n < 3)
			printf("variable %s\n", *at);
	sigaltstack(NULL, &stack);
	printf("a stack for signals: flags %x\n", (unsigned int)stack.ss_flags);
	sigpending(&set);
	printf("SIGUSR1 %s, SIGUSR2 %s\n", sigismember(&set, SIGUSR1) ? "pending" : "not pending",
	       signal(SIGUSR2, SIG_DFL) == SIG_IGN ? "ignored" : "not ignored");
	return 7;
}

static int chain(int left)
{
	char number[16];

	say("in the chain");
	snprintf(number, sizeof(number), "%d", left - 1);
	if (left > 1)
		execv(self, (char *[]){"execs", "chain", number, NULL});
	return say_after("at its end");
}

static int use_files(void)
{
	char line[64] = "";
	FILE *f = fopen("written", "r+");

	if (!fgets(line, sizeof(line), f))
		return 1;
	fputs("by the second\n", f);
	fclose(f);
	say(line);
	memset(line, 0, sizeof(line));
	read(9, line, sizeof(line) - 1);
	say(line);
	dprintf(9, "to a descriptor of the first image\n");
	dprintf(8, "to a copy of standard output\n");
	return say_after("after files");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return 1;
	self[n] = 0;
	if (argc == 3 && !strcmp(what, "after"))
		return say_after(argv[2]);
	if (argc == 3 && !strcmp(what, "chain"))
		return chain(atoi(argv[2]));
	if (argc == 3 && !strcmp(what, "files"))
		return use_files();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc == 1)
			puts(cases[i].name);
		if (strcmp(what, cases[i].name))
			continue;
		say("before");
		cases[i].run();
		return 1;
	}
	if (!strcmp(what, "mapped-argument"))
		with_mapped_argument();
	return argc > 1;
}
