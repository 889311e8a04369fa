/* SPDX-License-Identifier: BSD-2-Clause */
/* processes.c: children, what they answer and how they end. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared.h"

extern char **environ;

static void waits(struct self *s, pid_t child)
{
	int status = 0;
	pid_t got;

	while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR)
		;
	mix(s, (uint64_t)got);
	mix(s, (uint64_t)status);
}

static void forks(struct self *s)
{
	int pipe_of[2], answer[2] = {(int)decide(s, 1000), 0};
	pid_t child;

	if (pipe(pipe_of))
		return;
	child = fork();
	if (!child) {
		answer[1] = getpid();
		_exit(write(pipe_of[1], answer, sizeof(answer)) == sizeof(answer) ? answer[0] % 7
										  : 99);
	}
	close(pipe_of[1]);
	memset(answer, 0, sizeof(answer));
	mix(s, (uint64_t)read(pipe_of[0], answer, sizeof(answer)));
	mix_bytes(s, answer, sizeof(answer));
	close(pipe_of[0]);
	waits(s, child);
}

static void kills_child(struct self *s)
{
	pid_t child = fork();

	if (!child)
		for (;;)
			pause();
	mix(s, (uint64_t)kill(child, draw(s, 2) ? SIGKILL : SIGTERM));
	waits(s, child);
}

static void spawns(struct self *s)
{
	char *arguments[] = {"sh", "-c", draw(s, 2) ? "exit 5" : "kill -9 $$", NULL};
	pid_t child = 0;

	pthread_rwlock_rdlock(&environment_lock);
	mix(s, (uint64_t)posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ));
	pthread_rwlock_unlock(&environment_lock);
	waits(s, child);
}

static FILE *asked(const char *command, const char *mode)
{
	FILE *f;

	pthread_rwlock_rdlock(&environment_lock);
	f = popen(command, mode);
	pthread_rwlock_unlock(&environment_lock);
	return f;
}

static void asks_shell(struct self *s)
{
	FILE *f = asked("echo $$; date +%N", "r");
	char line[64];

	while (f && fgets(line, sizeof(line), f))
		mix_bytes(s, line, strlen(line));
	mix(s, f ? (uint64_t)pclose(f) : 1);
}

static void tells_shell(struct self *s)
{
	FILE *f = asked("cat >/dev/null; exit 3", "w");

	if (f)
		fprintf(f, "%x\n", decide(s, 1000));
	mix(s, f ? (uint64_t)pclose(f) : 1);
}

static void runs_command(struct self *s)
{
	pthread_rwlock_rdlock(&environment_lock);
	mix(s, (uint64_t)system(draw(s, 2) ? "exit 4" : "true"));
	pthread_rwlock_unlock(&environment_lock);
}

const struct step process_steps[] = {
    {"forks", forks, 3},
    {"kills_child", kills_child, 1},
    {"spawns", spawns, 1},
    {"asks_shell", asks_shell, 1},
    {"tells_shell", tells_shell, 1},
    {"runs_command", runs_command, 1},
    {0},
};
