/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/stopped.h"

#if defined(__x86_64__)

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

bool sr_stopped_wait(pid_t pid, int *status)
{
	siginfo_t info = {0};

	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT))
		if (errno != EINTR)
			return false;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
		return false;
	return waitpid(pid, status, WUNTRACED) == pid && WIFSTOPPED(*status);
}

bool sr_stopped_open(struct sr_stopped *s, pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	*s = (struct sr_stopped){.pid = pid, .memory = open(path, O_RDWR | O_CLOEXEC)};
	if (s->memory < 0)
		return false;
	if (ptrace(PTRACE_GETREGS, pid, NULL, &s->regs)) {
		sr_stopped_close(s);
		return false;
	}
	s->code = s->regs.rip;
	return true;
}

void sr_stopped_close(struct sr_stopped *s)
{
	close(s->memory);
}

bool sr_stopped_read(const struct sr_stopped *s, uint64_t at, void *to, size_t size)
{
	return pread(s->memory, to, size, (off_t)at) == (ssize_t)size;
}

bool sr_stopped_write(const struct sr_stopped *s, uint64_t at, const void *from, size_t size)
{
	return pwrite(s->memory, from, size, (off_t)at) == (ssize_t)size;
}

static bool run_to_trap(const struct sr_stopped *s, struct user_regs_struct *regs)
{
	int status;

	return !ptrace(PTRACE_SETREGS, s->pid, NULL, regs) && !ptrace(PTRACE_CONT, s->pid, NULL, NULL) &&
	       sr_stopped_wait(s->pid, &status) && !ptrace(PTRACE_GETREGS, s->pid, NULL, regs);
}

long sr_stopped_call(const struct sr_stopped *s, long nr, const uint64_t a[6])
{
	static const unsigned char code[] = {0x0f, 0x05, 0xcc}; /* syscall; int3 */
	unsigned char saved[sizeof(code)];
	struct user_regs_struct regs = s->regs;
	long result = -EIO;

	regs.orig_rax = (unsigned long long)-1;
	regs.rip = s->code;
	regs.rax = (unsigned long long)nr;
	regs.rdi = a[0];
	regs.rsi = a[1];
	regs.rdx = a[2];
	regs.r10 = a[3];
	regs.r8 = a[4];
	regs.r9 = a[5];
	if (!sr_stopped_read(s, s->code, saved, sizeof(saved)) || !sr_stopped_write(s, s->code, code, sizeof(code)))
		return -EIO;
	if (run_to_trap(s, &regs))
		result = (long)regs.rax;
	sr_stopped_write(s, s->code, saved, sizeof(saved));
	return result;
}

static bool append(struct sr_mappings *m, size_t *room, const char *line)
{
	unsigned long long from, to;
	struct sr_mapping *more;
	char name[256] = "";

	if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %255[^\n]", &from, &to, name) < 2)
		return true;
	if (m->n == *room) {
		*room = *room ? 2 * *room : 64;
		more = realloc(m->list, *room * sizeof(*more));
		if (!more)
			return false;
		m->list = more;
	}
	m->list[m->n] = (struct sr_mapping){.from = from, .to = to};
	memcpy(m->list[m->n++].name, name, sizeof(name));
	return true;
}

bool sr_mappings_read(struct sr_mappings *m, pid_t pid)
{
	char path[32], *line = NULL;
	size_t room = 0, size = 0;
	bool good = true;
	FILE *maps;

	*m = (struct sr_mappings){0};
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && good && getline(&line, &size, maps) > 0)
		good = append(m, &room, line);
	free(line);
	if (maps)
		fclose(maps);
	if (!good || !m->n) {
		sr_mappings_free(m);
		return false;
	}
	return true;
}

void sr_mappings_free(struct sr_mappings *m)
{
	free(m->list);
	*m = (struct sr_mappings){0};
}

#endif
