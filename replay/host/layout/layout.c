/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/layout.h"

#include <asm/prctl.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "logd/base/page.h"
#include "replay/host/layout/cpuid.h"
#include "replay/host/layout/loader.h"
#include "replay/host/layout/moves.h"
#include "replay/host/layout/stack.h"
#include "replay/host/layout/stopped.h"
#include "replay/host/layout/vdso.h"
#include "replay/print/say.h"

void sr_layout_wait(void)
{
	/* If ptrace is forbidden, the parent only finds a stopped process. */
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
}

#if defined(__x86_64__)

#define VDSO_MOST 65536

struct vdso {
	uint64_t size; /* 0: none that can be used */
	uint8_t image[VDSO_MOST];
};

static void keep_vdso(const struct sr_stopped *s, const struct sr_mapping *m, struct vdso *vdso)
{
	uint64_t size = m->to - m->from;

	if (size <= sizeof(vdso->image) && sr_stopped_read(s, m->from, vdso->image, size) &&
	    sr_vdso_use_system_calls(vdso->image, size))
		vdso->size = size;
}

/* A program could read the time there, without a system call. */
static void remove_kernel_mappings(const struct sr_stopped *s, struct vdso *vdso)
{
	struct sr_mappings m;

	if (!sr_mappings_read(&m, s->pid))
		return;
	for (size_t i = 0; i < m.n; i++) {
		const struct sr_mapping *at = &m.list[i];

		if (strncmp(at->name, "[vvar", 5) && strcmp(at->name, "[vdso]"))
			continue;
		if (!strcmp(at->name, "[vdso]"))
			keep_vdso(s, at, vdso);
		sr_stopped_call(s, SYS_munmap, (uint64_t[6]){at->from, at->to - at->from});
	}
	sr_mappings_free(&m);
}

static bool place_vdso(const struct sr_stopped *s, const struct vdso *vdso, uint64_t at)
{
	const uint64_t a[6] = {at, vdso->size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			       (uint64_t)-1};

	return at && at % PAGE == 0 && vdso->size && sr_stopped_call(s, SYS_mmap, a) == (long)at &&
	       sr_stopped_write(s, at, vdso->image, vdso->size);
}

/* So that nothing else comes to be there, where the recorded kernel had its own mappings. */
static void fill(const struct sr_stopped *s, uint64_t from, uint64_t to)
{
	if (from && to > from)
		sr_stopped_call(s, SYS_mmap, (uint64_t[6]){from, to - from, PROT_NONE,
							   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
							   (uint64_t)-1});
}

/* Between the first library and ld.so. */
static void fill_around_vdso(const struct sr_stopped *s, const struct sr_layout *l, uint64_t vdso_size)
{
	const uint64_t vdso = vdso_size && l->vdso < l->loader ? l->vdso : l->loader;

	fill(s, l->libraries_below, vdso);
	fill(s, vdso + sr_page_up(vdso_size), l->loader);
}

static uint64_t distance(uint64_t recorded, uint64_t here)
{
	return recorded && here ? recorded - here : 0;
}

/* Everything that the kernel has mapped to its recorded place.  *random: it was elsewhere. */
static bool place_images(struct sr_stopped *s, struct sr_stack *stack, const struct sr_layout *l, bool *random)
{
	static struct vdso vdso;
	const struct sr_images here = {sr_stack_value(stack, AT_ENTRY), sr_stack_value(stack, AT_BASE), s->regs.rsp};
	const struct sr_moves by = {
	    .program = distance(l->program, here.program),
	    .loader = distance(l->loader, here.loader),
	    .stack = distance(l->stack_top, sr_stack_top(stack, s)),
	};
	bool has_vdso;

	vdso.size = 0;
	remove_kernel_mappings(s, &vdso);
	if (!sr_move_images(s, &here, &by))
		return false;
	*random = sr_moves_any(&by);
	has_vdso = place_vdso(s, &vdso, l->vdso);
	fill_around_vdso(s, l, has_vdso ? vdso.size : 0);
	return sr_stack_place(stack, s, l, &by, has_vdso) && sr_stack_tell_kernel(stack, s, l, &by);
}

static bool lay_out(pid_t child, const struct sr_layout *l, const struct sr_processor *recorded,
		    const struct sr_layout_answer *answer)
{
	struct sr_stopped s;
	static struct sr_cpuid_tracer cpuid;
	struct sr_stack stack;
	bool good, traps, random = false;
	uint64_t loader = 0;

	if (!sr_stopped_open(&s, child))
		return false;
	/* The execve has not returned yet: its end sets the result register, to read's number. */
	sr_stopped_call(&s, SYS_read, (uint64_t[6]){(uint64_t)-1});
	good = sr_stack_read(&stack, &s);
	if (good) {
		good = place_images(&s, &stack, l, &random);
		loader = sr_stack_value(&stack, AT_BASE);
		sr_stack_free(&stack);
	}
	traps = good && recorded->entries && !sr_stopped_call(&s, SYS_arch_prctl, (uint64_t[6]){ARCH_SET_CPUID, 0});
	atomic_store(answer->cpuid_traced, traps);
	atomic_store(answer->traced, good);
	ptrace(PTRACE_SETREGS, child, NULL, &s.regs);
	if (good) {
		sr_cpuid_trace(&cpuid, &s, recorded, traps, loader);
		sr_follow_loader(&s, l, &cpuid, random);
		sr_cpuid_leave(&cpuid);
	}
	sr_stopped_close(&s);
	return good;
}

#else

static bool lay_out(pid_t child, const struct sr_layout *l, const struct sr_processor *recorded,
		    const struct sr_layout_answer *answer)
{
	return true;
}

#endif

void sr_layout_apply(pid_t child, const struct sr_layout *layout, const struct sr_processor *recorded,
		     const struct sr_layout_answer *answer)
{
	int status;

	if (!sr_stopped_wait(child, &status))
		return;
	if (ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD)) {
		sr_note("the program cannot be stopped at its start (%s): addresses may be others than recorded",
			strerror(errno));
		kill(child, SIGCONT);
		return;
	}
	/* Lets it run to the end of its execve. */
	if (ptrace(PTRACE_CONT, child, NULL, NULL) || !sr_stopped_wait(child, &status))
		return;
	if (!lay_out(child, layout, recorded, answer)) {
		sr_fail("the program's memory cannot be laid out here as it was recorded");
		kill(child, SIGKILL);
	}
	ptrace(PTRACE_DETACH, child, NULL, NULL);
}
