/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/loader.h"

#if defined(__x86_64__)

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logd/base/page.h"

#define AT_CALL (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */

#define ALIGN_MOST (2ul << 20)

struct loader {
	const struct sr_stopped *s;
	const struct sr_layout *l;
	const struct sr_cpuid_tracer *cpuid;
	bool random, in_call, placed;
	int opened; /* the file that it has opened last, which it maps next; -1: none */
	struct user_regs_struct before; /* the registers with which the last call began */
};

/* Address ranges in which nothing can be put, in no order. */
struct taken {
	struct range {
		uint64_t from, to;
	} *range;
	size_t n;
};

/* False: there is no memory, or the mappings cannot be read. */
static bool find_taken(struct taken *taken, const struct loader *loader)
{
	const struct sr_layout *l = loader->l;
	struct sr_mappings m;

	if (!sr_mappings_read(&m, loader->s->pid))
		return false;
	*taken = (struct taken){.range = calloc(m.n + l->n_files, sizeof(*taken->range))};
	for (size_t i = 0; taken->range && i < m.n; i++)
		taken->range[taken->n++] = (struct range){m.list[i].from, m.list[i].to};
	sr_mappings_free(&m);
	return taken->range;
}

/* The room of the libraries that are yet to come: ld.so's cache, for one, may be larger than it was. */
static void take_libraries_room(struct taken *taken, const struct sr_layout *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		taken->range[taken->n++] = (struct range){l->files[i].start, l->files[i].end};
}

/* The highest range that is taken among those that overlap [from, to); NULL: it is free. */
static const struct range *find_overlap(const struct taken *taken, uint64_t from, uint64_t to)
{
	const struct range *found = NULL;

	for (size_t i = 0; i < taken->n; i++)
		if (taken->range[i].from < to && taken->range[i].to > from && (!found || taken->range[i].from > found->from))
			found = &taken->range[i];
	return found;
}

/* 0: there is none. */
static uint64_t highest_gap(const struct taken *taken, uint64_t below, uint64_t size)
{
	const struct range *overlap = NULL;

	for (uint64_t end = below; end > size; end = overlap->from) {
		overlap = find_overlap(taken, end - size, end);
		if (!overlap)
			return end - size;
	}
	return 0;
}

/* A path that begins in a packed trace, or in another mount of the same files, ends alike. */
static bool is_same_path(const char *here, const char *recorded)
{
	size_t n = strlen(here), length = strlen(recorded);

	return n >= length && recorded[0] == '/' && !strcmp(here + n - length, recorded);
}

/* Where this part of a file began; 0: it is not a recorded file. */
static uint64_t start_of_file(const struct loader *loader, int fd, uint64_t offset)
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
		if (l->files[i].offset == offset && is_same_path(path, l->files[i].path))
			return l->files[i].start;
	return 0;
}

/* 0: not a recorded file, or something is there. */
static uint64_t place_of_file(const struct loader *loader, const struct taken *taken, int fd, uint64_t offset, uint64_t size)
{
	const uint64_t start = start_of_file(loader, fd, offset);

	return start && !find_overlap(taken, start, start + size) ? start : 0;
}

/*
 * Room in which ld.so aligns a library by more than a page (OpenBLAS's has 32 KiB), at its first address that is aligned so; it gives back
 * the rest.  The recorded kernel put the room's end at what was above, which need not be aligned.
 */
static uint64_t place_of_room(const struct loader *loader, const struct taken *taken, uint64_t size)
{
	const uint64_t start = loader->opened < 0 ? 0 : start_of_file(loader, loader->opened, 0), align = start & -start;

	for (uint64_t at = start; at && at > start - align && start - at < ALIGN_MOST; at -= PAGE)
		if (!find_overlap(taken, at, at + size))
			return at;
	return 0;
}

static uint64_t choose(const struct loader *loader, const struct user_regs_struct *call)
{
	uint64_t size = sr_page_up(call->rsi), at = 0;
	struct taken taken;

	if (!size || size > loader->l->libraries_below || !find_taken(&taken, loader))
		return 0;
	if (!(call->r10 & MAP_ANONYMOUS))
		at = place_of_file(loader, &taken, (int)call->r8, call->r9, size);
	else if (call->rdx == PROT_NONE)
		at = place_of_room(loader, &taken, size);
	if (!at && loader->random) {
		take_libraries_room(&taken, loader->l);
		at = highest_gap(&taken, loader->l->libraries_below, size);
	}
	free(taken.range);
	return at;
}

/* The process is about to make a system call. */
static void enter_call(struct loader *loader)
{
	struct user_regs_struct regs;
	uint64_t at;

	loader->before.orig_rax = (unsigned long long)-1;
	if (ptrace(PTRACE_GETREGS, loader->s->pid, NULL, &regs))
		return;
	loader->before = regs;
	if (regs.orig_rax != SYS_mmap || regs.rdi || regs.r10 & MAP_FIXED)
		return;
	at = choose(loader, &regs);
	if (!at)
		return;
	regs.rdi = at;
	regs.r10 |= MAP_FIXED_NOREPLACE;
	loader->placed = !ptrace(PTRACE_SETREGS, loader->s->pid, NULL, &regs);
}

/* A system call leaves all registers of arguments as they were. */
static void leave_call(struct loader *loader)
{
	struct user_regs_struct regs;

	/* Most calls are of no interest, and asking costs as much as the stop. */
	if (!loader->placed && loader->before.orig_rax != SYS_openat)
		return;
	if (ptrace(PTRACE_GETREGS, loader->s->pid, NULL, &regs))
		return;
	if (loader->before.orig_rax == SYS_openat)
		loader->opened = (int)regs.rax;
	if (!loader->placed)
		return;
	loader->placed = false;
	regs.rdi = loader->before.rdi;
	regs.r10 = loader->before.r10;
	ptrace(PTRACE_SETREGS, loader->s->pid, NULL, &regs);
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
	if (status >> 16 || sr_cpuid_answer(loader->cpuid, signo))
		return 0;
	return signo;
}

void sr_follow_loader(const struct sr_stopped *s, const struct sr_layout *l, const struct sr_cpuid_tracer *cpuid, bool random)
{
	struct loader loader = {.s = s, .l = l, .cpuid = cpuid, .random = random, .opened = -1};
	int status, signo = 0;

	while (!ptrace(PTRACE_SYSCALL, s->pid, NULL, signo) && sr_stopped_wait(s->pid, &status)) {
		if (WSTOPSIG(status) == SIGSTOP)
			return;
		signo = handle(&loader, status);
	}
}

#endif
