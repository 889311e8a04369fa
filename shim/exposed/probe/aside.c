/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/aside.h"

#include <asm/prctl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/apart.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/length.h"
#include "shim/exposed/x86/relocate.h"
#include "shim/exposed/x86/word.h"

/* Pages that one instruction may need at once: a scatter of 16 elements, each of which lies over two. */
#define PAGES_OPEN 32

/* One page per thread: the stubs first, data in its second half. */
struct aside {
	uint8_t stub[32];    /* of an instruction that the thread is sent to */
	uint8_t routine[32]; /* of one that the handler calls */
	uint8_t pad[2048 - 64];
	_Alignas(64) char copy[64];
	bool under_way;
	bool whole;  /* the stub has an instruction that is not decoded, as it is */
	uintptr_t pc; /* the last instruction of this kind ... */
	uint64_t epoch; /* ... when it met its first page; 0: it has ended ... */
	uintptr_t open[PAGES_OPEN]; /* ... and the pages that are open for it */
	uint32_t open_n;
	struct apart apart[PAGES_OPEN]; /* ... or shown as copies */
	uint32_t apart_n;
	uint64_t mask;
	uint64_t gs;
	uintptr_t next;
};

_Static_assert(sizeof(struct aside) <= PAGE, "a thread has one page");

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

/* Sends the thread into its stub. */
static void enter_stub(struct aside *a, ucontext_t *uc)
{
	const uint64_t all = BLOCKED;

	/* No handler of the program's may run in between: it could come back to the stub. */
	memcpy(&a->mask, &uc->uc_sigmask, sizeof(a->mask));
	memcpy(&uc->uc_sigmask, &all, sizeof(all));
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)a->stub;
	a->under_way = true;
}

static void leave_stub(struct aside *a, ucontext_t *uc, uintptr_t to)
{
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)to;
	memcpy(&uc->uc_sigmask, &a->mask, sizeof(a->mask));
	a->under_way = false;
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
	a->whole = false;
	read_operand(insn, a->copy, unseen);
	a->gs = get_gs();
	set_gs((uintptr_t)a->copy);
	enter_stub(a, uc);
	return true;
}

/* ------------------------------------------------- instructions that are not decoded */

bool aside_has_begun(uintptr_t pc)
{
	const struct aside *a = exposed_self.aside;

	return a && a->epoch && a->pc == pc && a->epoch == thread_epoch();
}

/* Another thread may have taken it back meanwhile. */
static bool is_open_for_me(const struct page *p)
{
	return (p->state == PAGE_PASS_THROUGH || p->state == PAGE_SUSPENDED_PASS_THROUGH) && is_mine(p) && !p->silent && !p->pins;
}

static void protect_opened(struct aside *a)
{
	while (a->open_n) {
		uintptr_t user = a->open[--a->open_n];

		if (is_open_for_me(page_at(user)))
			page_protect(user);
	}
}

/* What copies the instruction has changed is stored; with forget, not where a replay has all of that from the trace. */
static void end_copies(struct aside *a, bool forget)
{
	for (uint32_t i = 0; i < a->apart_n; i++) {
		const struct page *p = page_at(a->apart[i].user);

		apart_end(&a->apart[i], !forget || !p->whole || p->meets);
	}
	a->apart_n = 0;
	exposed_self.shown_copies = false;
}

/* It meets a page.  Those of one that has not come to its end stay open until the next call. */
static void begin_whole(struct aside *a, uintptr_t pc)
{
	if (!aside_has_begun(pc)) {
		a->open_n = 0;
		end_copies(a, false);
	}
	a->pc = pc;
	a->epoch = thread_epoch();
}

bool aside_shows(uintptr_t pc, uintptr_t user)
{
	struct aside *a = the_page();

	if (!a)
		return false;
	begin_whole(a, pc);
	if (is_snapshot(page_at(user)))
		page_protect(user);
	if (a->apart_n == PAGES_OPEN || !apart_begin(user, &a->apart[a->apart_n]))
		return false;
	a->apart_n++;
	exposed_self.shown_copies = true;
	return true;
}

void aside_gives_up(void)
{
	if (!exposed_self.shown_copies)
		return;
	exposed_lock(NULL);
	end_copies(exposed_self.aside, false);
	exposed_unlock(NULL);
}

void aside_opens(uintptr_t pc, uintptr_t user)
{
	struct aside *a = the_page();

	if (!a)
		return;
	begin_whole(a, pc);
	/* A long string: it is done with most of them. */
	if (a->open_n == PAGES_OPEN)
		protect_opened(a);
	if (user)
		a->open[a->open_n++] = user;
}

#define OPCODE_GROUP_5 0xff /* calls, jumps, push */

/* False: it means something else at another place. */
static bool write_whole(struct aside *a)
{
	const uint8_t *code = probes_code_at(a->pc);
	struct shape s;

	if (!shape_of(code, INSN_BYTES_MAX, &s) || s.branches || s.relative || code[s.opcode_at] == OPCODE_GROUP_5)
		return false;
	memcpy(a->stub, code, s.length);
	a->stub[s.length] = PROBE_TRAP;
	a->next = a->pc + s.length;
	return true;
}

void aside_go_on(ucontext_t *uc)
{
	struct aside *a = exposed_self.aside;

	/* A signal in the stub would not find the program's code there. */
	if (!aside_has_begun((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]) || a->under_way || vector_may_signal(uc) || !write_whole(a))
		return;
	a->whole = true;
	enter_stub(a, uc);
}

static bool is_at_whole(const struct aside *a, const ucontext_t *uc)
{
	return a && a->under_way && a->whole && (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] == (uintptr_t)a->stub;
}

void aside_step_back(ucontext_t *uc)
{
	if (is_at_whole(exposed_self.aside, uc))
		leave_stub(exposed_self.aside, uc, exposed_self.aside->pc);
}

/*
 * A replay.  The trace has all that differed from what was known, the instruction's own stores included, but for those that a
 * peer has undone meanwhile.  Some bytes are not recorded: those of no region, and what other processes store.
 */
static void put_back_known(const struct aside *a)
{
	for (uint32_t i = 0; i < a->open_n; i++) {
		const struct page *p = page_at(a->open[i]);

		if (is_open_for_me(p) && p->whole && !p->meets)
			memcpy(backing_of(p, a->open[i]), shadow_of(a->open[i]), PAGE);
	}
}

static void record_copied(const struct apart *copied, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (page_is_exposed(copied[i].user))
			record_page(copied[i].user, SR_EXPOSED_ASYNC);
}

/* What is there now is behind the access: a replay puts it there when it has executed the instruction as well. */
static void end_whole(struct aside *a)
{
	const uint32_t copied = a->apart_n;

	end_copies(a, hooks.recorded && !exposed_self.silent);
	a->epoch = 0;
	if (exposed_self.silent)
		return;
	event_begin(exposed_self.fault, SR_EXPOSED_BEHIND, 0, 0);
	if (hooks.recorded)
		put_back_known(a);
	replay_values();
	protect_opened(a);
	record_copied(a->apart, copied);
	event_end();
}

/* --------------------------------------------------------------- the end of a stub */

bool aside_ended(const ucontext_t *uc)
{
	const struct aside *a = exposed_self.aside;

	return a && a->under_way && !is_at_whole(a, uc) &&
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

	leave_stub(a, uc, a->next);
	counts.exchanges++;
	if (a->whole)
		end_whole(a);
	else
		set_gs(a->gs);
}
