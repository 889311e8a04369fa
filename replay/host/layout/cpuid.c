/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/cpuid.h"

#if defined(__x86_64__)

#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>

#include "shim/exposed/x86/sought.h"

#define CPUID_BYTES    2
#define BREAKPOINT     0xcc
#define SEGMENT_MOST   (16ul << 20) /* ld.so has some 200 KiB of code */

static const uint8_t cpuid[CPUID_BYTES] = {0x0f, 0xa2};

/* ----------------------------------------------------------------- breakpoints */

static bool read_code(void *s, uintptr_t at, void *to, size_t n)
{
	return sr_stopped_read(s, at, to, n);
}

static void seek_in(struct sr_cpuid_tracer *c, struct sr_code_reader *r, const struct sr_code_image *image, uint64_t from,
		    size_t size)
{
	uint8_t *code = malloc(size);
	size_t readable = code && sr_stopped_read(c->s, from, code, size) ? size : 0;

	for (size_t at = sr_sought_find(r->sought, code, readable, 0); at < readable && c->n < SR_CPUID_SITES;
	     at = sr_sought_find(r->sought, code, readable, at + 1)) {
		uintptr_t begin = from + at;

		if (sr_sought_classify(r, image, &begin) == SR_OCCURRENCE_SITE)
			c->site[c->n++] = begin;
	}
	free(code);
}

static void seek(struct sr_cpuid_tracer *c, struct sr_code_reader *r, uint64_t loader)
{
	struct sr_code_image image;
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (!sr_code_image_at(r, loader, &image) || !sr_stopped_read(c->s, loader, &header, sizeof(header)))
		return;
	for (int i = 0; i < header.e_phnum; i++)
		if (sr_stopped_read(c->s, loader + header.e_phoff + (uint64_t)i * sizeof(segment), &segment, sizeof(segment)) &&
		    segment.p_type == PT_LOAD && segment.p_flags & PF_X && segment.p_memsz <= SEGMENT_MOST)
			seek_in(c, r, &image, loader + segment.p_vaddr, segment.p_memsz);
}

/* When all sites are known: what is found behind a breakpoint is other code. */
static void put_breakpoints(const struct sr_cpuid_tracer *c)
{
	const uint8_t breakpoint = BREAKPOINT;

	for (size_t i = 0; i < c->n; i++)
		sr_stopped_write(c->s, c->site[i], &breakpoint, 1);
}

/* --------------------------------------------------------------------- answers */

static bool is_site(const struct sr_cpuid_tracer *c, uint64_t at)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->site[i] == at)
			return true;
	return false;
}

/* A breakpoint traps behind its byte, the trap of cpuid at the instruction. */
static bool is_at_cpuid(const struct sr_cpuid_tracer *c, int signo, struct user_regs_struct *regs)
{
	uint8_t code[CPUID_BYTES];

	if (signo == SIGTRAP && is_site(c, regs->rip - 1)) {
		regs->rip--;
		return true;
	}
	return signo == SIGSEGV && sr_stopped_read(c->s, regs->rip, code, sizeof(code)) && code[0] == cpuid[0] &&
	       code[1] == cpuid[1];
}

bool sr_cpuid_answer(const struct sr_cpuid_tracer *c, int signo)
{
	struct user_regs_struct regs;
	uint32_t reg[4];

	if (!c->recorded->entries || ptrace(PTRACE_GETREGS, c->s->pid, NULL, &regs) || !is_at_cpuid(c, signo, &regs))
		return false;
	sr_processor_ask_for_libc(c->recorded, &c->here, (uint32_t)regs.rax, (uint32_t)regs.rcx, reg);
	regs.rax = reg[0];
	regs.rbx = reg[1];
	regs.rcx = reg[2];
	regs.rdx = reg[3];
	regs.rip += CPUID_BYTES;
	return !ptrace(PTRACE_SETREGS, c->s->pid, NULL, &regs);
}

void sr_cpuid_trace(struct sr_cpuid_tracer *c, const struct sr_stopped *s, const struct sr_processor *recorded, bool traps,
		    uint64_t loader)
{
	struct sr_code_reader *r;

	c->s = s;
	c->recorded = recorded;
	c->n = 0;
	if (!recorded->entries)
		return;
	sr_processor_read(&c->here);
	if (traps || !loader || sr_processors_are_the_same(recorded, &c->here))
		return;
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	r->sought = SR_SOUGHT_CPUID;
	r->read = read_code;
	r->argument = (void *)s;
	seek(c, r, loader);
	free(r);
	put_breakpoints(c);
}

void sr_cpuid_leave(struct sr_cpuid_tracer *c)
{
	while (c->n)
		sr_stopped_write(c->s, c->site[--c->n], cpuid, 1);
}

#endif
