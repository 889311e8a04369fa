/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/loader.h"

#if defined(__x86_64__)

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logd/base/page.h"

#define AT_CALL (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */

struct loader {
	const struct sr_stopped *s;
	const struct sr_layout *l;
	const struct sr_processor *recorded;
	struct sr_processor here;
	bool in_call, placed;
	struct user_regs_struct before; /* the registers of the call that was given an address */
};

static bool is_free(const struct sr_mappings *m, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->list[i].from < to && m->list[i].to > from)
			return false;
	return true;
}

/* The end of the highest gap of that size. */
static uint64_t highest_gap(const struct sr_mappings *m, uint64_t below, uint64_t size)
{
	uint64_t end = below;

	for (size_t i = m->n; i-- > 0;) {
		if (m->list[i].from >= below)
			continue;
		if (m->list[i].to + size <= end)
			break;
		end = m->list[i].from;
	}
	return end > size ? end - size : 0;
}

/* A path that begins in a packed trace, or in another mount of the same files, ends alike. */
static bool is_same_path(const char *here, const char *recorded)
{
	size_t n = strlen(here), length = strlen(recorded);

	return n >= length && recorded[0] == '/' && !strcmp(here + n - length, recorded);
}

/* 0: not a recorded file, or something is there. */
static uint64_t place_of_file(const struct loader *loader, const struct sr_mappings *m, int fd, uint64_t offset, uint64_t size)
{
	const struct sr_layout *l = loader->l;
	char link[48], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)loader->s->pid, fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return 0;
	path[n] = 0;
	for (size_t i = 0; i < l->n_files; i++)
		if (l->files[i].offset == offset && is_same_path(path, l->files[i].path) &&
		    is_free(m, l->files[i].start, l->files[i].start + size))
			return l->files[i].start;
	return 0;
}

static uint64_t choose(const struct loader *loader, const struct user_regs_struct *call)
{
	uint64_t size = sr_page_up(call->rsi), at = 0;
	struct sr_mappings m;

	if (!size || size > loader->l->libraries_below || !sr_mappings_read(&m, loader->s->pid))
		return 0;
	if (!(call->r10 & MAP_ANONYMOUS))
		at = place_of_file(loader, &m, (int)call->r8, call->r9, size);
	if (!at)
		at = highest_gap(&m, loader->l->libraries_below, size);
	sr_mappings_free(&m);
	return at;
}

/* The process is about to make a system call. */
static void enter_call(struct loader *loader)
{
	struct user_regs_struct regs;
	uint64_t at;

	if (ptrace(PTRACE_GETREGS, loader->s->pid, NULL, &regs) || regs.orig_rax != SYS_mmap || regs.rdi ||
	    regs.r10 & MAP_FIXED)
		return;
	at = choose(loader, &regs);
	if (!at)
		return;
	loader->before = regs;
	regs.rdi = at;
	regs.r10 |= MAP_FIXED_NOREPLACE;
	loader->placed = !ptrace(PTRACE_SETREGS, loader->s->pid, NULL, &regs);
}

/* A system call leaves all registers of arguments as they were. */
static void leave_call(struct loader *loader)
{
	struct user_regs_struct regs;

	if (!loader->placed || ptrace(PTRACE_GETREGS, loader->s->pid, NULL, &regs))
		return;
	loader->placed = false;
	regs.rdi = loader->before.rdi;
	regs.r10 = loader->before.r10;
	ptrace(PTRACE_SETREGS, loader->s->pid, NULL, &regs);
}

static bool answer_cpuid(const struct loader *loader)
{
	const struct sr_stopped *s = loader->s;
	struct user_regs_struct regs;
	uint32_t reg[4];
	uint8_t code[2];

	if (ptrace(PTRACE_GETREGS, s->pid, NULL, &regs) || !sr_stopped_read(s, regs.rip, code, sizeof(code)) ||
	    code[0] != 0x0f || code[1] != 0xa2)
		return false;
	sr_processor_ask_for_libc(loader->recorded, &loader->here, (uint32_t)regs.rax, (uint32_t)regs.rcx, reg);
	regs.rax = reg[0];
	regs.rbx = reg[1];
	regs.rcx = reg[2];
	regs.rdx = reg[3];
	regs.rip += sizeof(code);
	return !ptrace(PTRACE_SETREGS, s->pid, NULL, &regs);
}

/* The signal that the process gets. */
static int handle(struct loader *loader, int status)
{
	int signo = WSTOPSIG(status);

	if (signo == AT_CALL) {
		loader->in_call = !loader->in_call;
		(loader->in_call ? enter_call : leave_call)(loader);
		return 0;
	}
	if (status >> 16 || (signo == SIGSEGV && loader->recorded->entries && answer_cpuid(loader)))
		return 0;
	return signo;
}

void sr_follow_loader(const struct sr_stopped *s, const struct sr_layout *l, const struct sr_processor *recorded)
{
	struct loader loader = {.s = s, .l = l, .recorded = recorded};
	int status, signo = 0;

	sr_processor_read(&loader.here);
	while (!ptrace(PTRACE_SYSCALL, s->pid, NULL, signo) && sr_stopped_wait(s->pid, &status)) {
		if (WSTOPSIG(status) == SIGSTOP)
			return;
		signo = handle(&loader, status);
	}
}

#endif
