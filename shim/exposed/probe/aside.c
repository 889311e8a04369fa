/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/aside.h"

#include <asm/prctl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/relocate.h"
#include "shim/exposed/x86/word.h"

/* One page per thread: the stubs first, data in its second half. */
struct aside {
	uint8_t stub[32];    /* of an instruction that the thread is sent to */
	uint8_t routine[32]; /* of one that the handler calls */
	uint8_t pad[2048 - 64];
	_Alignas(64) char copy[64];
	bool under_way;
	uint64_t mask;
	uint64_t gs;
	uintptr_t next;
};

/* The pages of all threads, as far as they are remembered. */
#define PAGES_MAX 256

static _Atomic uintptr_t pages[PAGES_MAX];

static struct aside *the_page(void)
{
	struct exposed_thread *t = &exposed_self;
	void *page;

	if (t->aside)
		return t->aside;
	page = sr_sys_mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sr_sys_is_error(page))
		return NULL;
	for (int i = 0; i < PAGES_MAX; i++) {
		uintptr_t none = 0;

		if (atomic_compare_exchange_strong(&pages[i], &none, (uintptr_t)page))
			break;
	}
	return t->aside = page;
}

bool aside_has_page(uintptr_t at)
{
	for (int i = 0; i < PAGES_MAX; i++)
		if (atomic_load(&pages[i]) == at)
			return true;
	return false;
}

/* Since Linux 5.9 a program may set the base itself, where the processor can: that costs a tenth of a system call. */
static bool has_fsgsbase(void)
{
	return getauxval(AT_HWCAP2) & 2;
}

static void set_gs(uint64_t base)
{
	if (has_fsgsbase())
		__asm__ volatile("wrgsbase %0" : : "r"(base));
	else
		sr_syscall(SYS_arch_prctl, ARCH_SET_GS, (long)base, 0, 0, 0, 0);
}

static uint64_t get_gs(void)
{
	uint64_t base = 0;

	if (has_fsgsbase())
		__asm__ volatile("rdgsbase %0" : "=r"(base));
	else
		sr_syscall(SYS_arch_prctl, ARCH_GET_GS, SR_ARG(&base), 0, 0, 0, 0);
	return base;
}

/* Reads the operand in place of the program, which learns it unless the access is unseen. */
static void read_operand(const struct insn *insn, char *to, bool unseen)
{
	struct page *p = page_at(insn->address);

	if (!unseen)
		validate_shadow(insn->address & PAGE_MASK, p);
	word_copy(to, backing_of(p, insn->address), insn->size);
	if (!unseen)
		record_difference(insn->address, to, insn->size, 0);
}

/* The instruction with gs:[0] as its operand, then hlt. */
static bool write_stub(struct aside *a, const uint8_t *code, const struct insn *insn)
{
	size_t n = relocate_operand(a->stub, code, &insn->encoding, PREFIX_GS, 0);

	a->stub[n] = PROBE_TRAP;
	return n;
}

uintptr_t aside_write(const uint8_t *code, const struct insn *insn)
{
	struct aside *a = the_page();
	size_t n = a ? relocate_operand(a->routine, code, &insn->encoding, PREFIX_FS,
					distance_from_fs(exposed_self.probe.operand)) : 0;

	if (!n)
		return 0;
	a->routine[n] = OPCODE_RET;
	return (uintptr_t)a->routine;
}

/* Sends the thread into its stub, with the operand's copy at gs:0. */
static void enter_stub(struct aside *a, ucontext_t *uc)
{
	const uint64_t all = BLOCKED;

	a->gs = get_gs();
	set_gs((uintptr_t)a->copy);
	/* No handler of the program's may run in between: it could come back to the stub. */
	memcpy(&a->mask, &uc->uc_sigmask, sizeof(a->mask));
	memcpy(&uc->uc_sigmask, &all, sizeof(all));
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)a->stub;
	a->under_way = true;
}

bool aside_begin(ucontext_t *uc, const struct insn *insn, bool unseen)
{
	greg_t *g = uc->uc_mcontext.gregs;
	struct aside *a;

	/* The probe has a copy of the instruction, of which this is the operand. */
	if (exposed_self.by_jump) {
		read_operand(insn, exposed_self.probe.operand, unseen);
		g[REG_RIP] += insn->length;
		counts.exchanges++;
		return true;
	}
	a = the_page();
	if (!a || a->under_way || !write_stub(a, probes_code_at((uintptr_t)g[REG_RIP]), insn))
		return false;
	a->next = (uintptr_t)g[REG_RIP] + insn->length;
	read_operand(insn, a->copy, unseen);
	enter_stub(a, uc);
	return true;
}

bool aside_ended(const ucontext_t *uc)
{
	const struct aside *a = exposed_self.aside;

	return a && a->under_way &&
	       (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] - (uintptr_t)a->stub < sizeof(a->stub);
}

bool aside_goes_on(void)
{
	const struct aside *a = exposed_self.aside;

	return a && a->under_way;
}

void aside_end(ucontext_t *uc)
{
	struct aside *a = exposed_self.aside;

	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)a->next;
	memcpy(&uc->uc_sigmask, &a->mask, sizeof(a->mask));
	set_gs(a->gs);
	a->under_way = false;
	counts.exchanges++;
}
