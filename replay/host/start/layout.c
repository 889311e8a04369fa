/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/layout.h"

#include <asm/prctl.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logd/base/page.h"
#include "replay/host/start/answer.h"
#include "replay/print/say.h"
#include "replay/host/start/vdso.h"

void sr_layout_wait(void)
{
	/* If ptrace is forbidden, the parent only finds a stopped process. */
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
}

#if defined(__x86_64__)

struct target {
	pid_t pid;
	int memory; /* /proc/PID/mem */
	struct user_regs_struct start;
};

static bool read_memory(const struct target *t, uint64_t at, void *to, size_t size)
{
	return pread(t->memory, to, size, (off_t)at) == (ssize_t)size;
}

static bool write_memory(const struct target *t, uint64_t at, const void *from, size_t size)
{
	return pwrite(t->memory, from, size, (off_t)at) == (ssize_t)size;
}

/* Makes the process do a system call at its entry point, and restores the code there. */
static long inject(const struct target *t, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	static const unsigned char code[] = {0x0f, 0x05, 0xcc}; /* syscall; int3 */
	unsigned char saved[sizeof(code)];
	struct user_regs_struct regs = t->start;
	long result = -EIO;
	int status;

	regs.orig_rax = (unsigned long long)-1;
	regs.rax = (unsigned long long)nr;
	regs.rdi = a;
	regs.rsi = b;
	regs.rdx = c;
	regs.r10 = d;
	regs.r8 = (unsigned long long)-1; /* of mmap: no file */
	regs.r9 = 0;
	if (!read_memory(t, regs.rip, saved, sizeof(saved)) ||
	    !write_memory(t, regs.rip, code, sizeof(code)))
		return -EIO;
	if (!ptrace(PTRACE_SETREGS, t->pid, NULL, &regs) &&
	    !ptrace(PTRACE_CONT, t->pid, NULL, NULL) && sr_traced_stops(t->pid, &status) &&
	    !ptrace(PTRACE_GETREGS, t->pid, NULL, &regs))
		result = (long)regs.rax;
	write_memory(t, t->start.rip, saved, sizeof(saved));
	return result;
}

#define VDSO_MOST 65536

/* Removes the kernel's own mappings; ld.so puts libraries below where they ended. */
struct kernel_mappings {
	uint64_t above;
	uint64_t vdso_size;
	uint8_t vdso[VDSO_MOST];
};

static void remove_kernel_mappings(const struct target *t, struct kernel_mappings *k)
{
	unsigned long long from, to;
	char path[32], line[512], name[256];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)t->pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		name[0] = 0;
		if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %255s", &from, &to, name) < 2)
			continue;
		if (strncmp(name, "[vvar", 5) && strcmp(name, "[vdso]"))
			continue;
		if (!strcmp(name, "[vdso]") && to - from <= sizeof(k->vdso) &&
		    read_memory(t, from, k->vdso, to - from) &&
		    sr_vdso_use_system_calls(k->vdso, to - from))
			k->vdso_size = to - from;
		if (inject(t, SYS_munmap, from, to - from, 0, 0))
			break;
		k->above = to;
	}
	if (maps)
		fclose(maps);
}

static bool place_vdso(const struct target *t, const struct kernel_mappings *k, uint64_t at)
{
	if (!at || at % PAGE || !k->vdso_size || at + k->vdso_size > k->above)
		return false;
	return inject(t, SYS_mprotect, at, k->above - at, PROT_READ | PROT_EXEC, 0) == 0 &&
	       write_memory(t, at, k->vdso, k->vdso_size);
}

static bool place_libraries(const struct target *t, const struct sr_layout *l)
{
	struct kernel_mappings k = {0};
	uint64_t below = l->libraries_below;

	remove_kernel_mappings(t, &k);
	if (!below || k.above <= below)
		return false;
	inject(t, SYS_mmap, below, k.above - below, PROT_NONE,
	       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE);
	return l->vdso > below && place_vdso(t, &k, l->vdso);
}

#define WORDS 65536 /* of arguments, environment and vector, at most */

static bool is_dispensable(uint64_t type)
{
	return type == AT_RSEQ_FEATURE_SIZE || type == AT_RSEQ_ALIGN;
}

/* Words up to the vector. */
static size_t words_before_vector(const uint64_t *words, size_t n)
{
	size_t i = 1 + words[0];

	while (i < n && words[i])
		i++;
	i++;
	while (i < n && words[i])
		i++;
	return i + 1;
}

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* Drops the entries that are not needed; returns the words left.  AT_RANDOM's bytes follow them. */
static size_t shorten(uint64_t *words, size_t vector, size_t n, const struct sr_layout *l,
		      bool has_vdso, uint64_t *random)
{
	size_t to = vector;

	for (size_t i = vector; i + 1 < n; i += 2) {
		if (words[i] == AT_RANDOM)
			*random = words[i + 1];
		if (words[i] == AT_MINSIGSTKSZ && l->signal_frame)
			words[i + 1] = l->signal_frame;
		if (words[i] == AT_SYSINFO_EHDR && has_vdso)
			words[i + 1] = l->vdso;
		if (is_dispensable(words[i]) || (words[i] == AT_SYSINFO_EHDR && !has_vdso))
			continue;
		words[to++] = words[i];
		words[to++] = words[i + 1];
		if (words[to - 2] == AT_NULL)
			break;
	}
	return to;
}

static void place_stack(struct target *t, const struct sr_layout *l, bool has_vdso)
{
	uint64_t *words = calloc(WORDS, sizeof(*words)), random = 0;
	uint64_t at = l->stack ? l->stack : t->start.rsp;
	ssize_t bytes =
	    words ? pread(t->memory, words, WORDS * sizeof(*words), (off_t)t->start.rsp) : 0;
	size_t n = bytes > 0 ? (size_t)bytes / sizeof(*words) : 0, vector, end;

	if (!n || words[0] >= n)
		goto out;
	vector = words_before_vector(words, n);
	if (vector >= n)
		goto out;
	end = shorten(words, vector, n, l, has_vdso, &random);
	/* The strings are above it.  A stack that is far away cannot be moved there. */
	if (at + end * sizeof(*words) > random || at + PAGE < t->start.rsp || at % 16)
		at = t->start.rsp;
	if (!write_memory(t, at, words, end * sizeof(*words)))
		goto out;
	t->start.rsp = at;
	if (l->stack && random)
		write_memory(t, random, l->random, sizeof(l->random));
out:
	free(words);
}

static void lay_out(struct target *t, const struct sr_layout *l,
		    const struct sr_processor *recorded, _Atomic bool *cpuid_traced)
{
	char path[32];
	bool traps, has_vdso;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->pid);
	t->memory = open(path, O_RDWR | O_CLOEXEC);
	if (t->memory < 0 || ptrace(PTRACE_GETREGS, t->pid, NULL, &t->start))
		return;
	/* The execve has not returned yet: its end sets the result register, to read's number. */
	inject(t, SYS_read, (uint64_t)-1, 0, 0, 0);
	has_vdso = place_libraries(t, l);
	place_stack(t, l, has_vdso);
	traps = recorded->entries && !inject(t, SYS_arch_prctl, ARCH_SET_CPUID, 0, 0, 0);
	atomic_store(cpuid_traced, traps);
	ptrace(PTRACE_SETREGS, t->pid, NULL, &t->start);
	if (traps)
		sr_answer_cpuid(t->pid, t->memory, recorded);
	close(t->memory);
}

#else

struct target {
	pid_t pid;
};

static void lay_out(struct target *t, const struct sr_layout *l,
		    const struct sr_processor *recorded, _Atomic bool *cpuid_traced)
{
}

#endif

void sr_layout_apply(pid_t child, const struct sr_layout *layout,
		     const struct sr_processor *recorded, _Atomic bool *cpuid_traced)
{
	struct target t = {.pid = child};
	int status;

	if (!sr_traced_stops(child, &status))
		return;
	if (ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)) {
		sr_note("the program cannot be stopped at its start (%s): addresses of libraries "
			"may be "
			"others than recorded",
			strerror(errno));
		kill(child, SIGCONT);
		return;
	}
	/* Lets it run to the end of its execve. */
	if (ptrace(PTRACE_CONT, child, NULL, NULL) || !sr_traced_stops(child, &status))
		return;
	lay_out(&t, layout, recorded, cpuid_traced);
	ptrace(PTRACE_DETACH, child, NULL, NULL);
}
