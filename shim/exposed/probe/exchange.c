/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/exchange.h"

#include <asm/prctl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/relocate.h"
#include "shim/exposed/x86/word.h"

/* One page per thread: the stub first, data in its second half. */
struct exchange {
	uint8_t stub[32];
	uint8_t pad[2048 - 32];
	_Alignas(64) uint8_t copy[64];
	uint8_t before[16];
	uintptr_t address;
	uint8_t size, at;
	bool under_way;
	bool reads; /* only */
	bool unseen;
	bool is_unregistered;
	uint64_t mask;
	uint64_t gs;
	gregset_t gregs;
	uintptr_t next;
};

/* The pages of all threads, as far as they are remembered. */
#define PAGES_MAX 256

static _Atomic uintptr_t pages[PAGES_MAX];

static struct exchange *the_page(void)
{
	struct exposed_thread *t = &exposed_self;
	void *page;

	if (t->exchange)
		return t->exchange;
	page = sr_sys_mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sr_sys_is_error(page))
		return NULL;
	for (int i = 0; i < PAGES_MAX; i++) {
		uintptr_t none = 0;

		if (atomic_compare_exchange_strong(&pages[i], &none, (uintptr_t)page))
			break;
	}
	return t->exchange = page;
}

bool exchange_has_page(uintptr_t at)
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

/* The instruction with gs:[0] as its operand, then hlt. */
static bool write_stub(struct exchange *x, const uint8_t *code, const struct insn *insn)
{
	size_t n = relocate_operand(x->stub, code, &insn->encoding, PREFIX_GS, 0);

	x->stub[n] = 0xf4;
	return n;
}

/* Within one aligned word of 8 or 16 bytes, which can be compared and exchanged. */
static unsigned int word_of(uintptr_t address, unsigned int size)
{
	if ((address & 7) + size <= 8)
		return 8;
	return !(address & 15) && size == 16 ? 16 : 0;
}

/* Another thread may have released the page meanwhile: then it is the program's own. */
static char *place_of(const struct page *p, uintptr_t addr)
{
	return p->state == PAGE_NONE ? (char *)addr : backing_of(p, addr);
}

static void take_copy(struct exchange *x)
{
	unsigned int word = word_of(x->address, x->size);
	uintptr_t begin = x->address & ~(uintptr_t)(word - 1);
	const char *from = place_of(page_at(begin), begin);

	/* 16 bytes may be torn: then the exchange fails and is tried again. */
	for (unsigned int i = 0; i < word; i += 8)
		*(uint64_t *)(x->before + i) = *(volatile const uint64_t *)(from + i);
	memcpy(x->copy, x->before, word);
	x->at = (uint8_t)(x->address - begin);
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

/* Sends the thread into its stub, with the operand's copy at gs:0. */
static void enter_stub(struct exchange *x, ucontext_t *uc)
{
	const uint64_t all = BLOCKED;

	x->gs = get_gs();
	set_gs((uintptr_t)x->copy + x->at);
	/* No handler of the program's may run in between: it could come back to the stub. */
	memcpy(&x->mask, &uc->uc_sigmask, sizeof(x->mask));
	memcpy(&uc->uc_sigmask, &all, sizeof(all));
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)x->stub;
	x->under_way = true;
}

static bool begin(ucontext_t *uc, const struct insn *insn, bool unseen)
{
	greg_t *g = uc->uc_mcontext.gregs;
	bool reads = insn->class == INSN_OPERAND;
	struct exchange *x;

	/* The probe has a copy of the instruction, of which this is the operand. */
	if (reads && exposed_self.by_jump) {
		read_operand(insn, exposed_self.probe.operand, unseen);
		g[REG_RIP] += insn->length;
		counts.exchanges++;
		return true;
	}
	x = the_page();
	if (!x || x->under_way || (!reads && !word_of(insn->address, insn->size)) ||
	    !write_stub(x, probes_code_at((uintptr_t)g[REG_RIP]), insn))
		return false;
	x->address = insn->address;
	x->size = insn->size;
	x->at = 0;
	x->reads = reads;
	x->unseen = unseen;
	x->is_unregistered = false;
	memcpy(x->gregs, g, sizeof(x->gregs));
	x->next = (uintptr_t)g[REG_RIP] + insn->length;
	if (reads) {
		read_operand(insn, (char *)x->copy, unseen);
	} else {
		if (!unseen)
			validate_shadow(insn->address & PAGE_MASK, page_at(insn->address));
		take_copy(x);
	}
	enter_stub(x, uc);
	return true;
}

bool exchange_begin(ucontext_t *uc, const struct insn *insn)
{
	return begin(uc, insn, exposed_self.silent);
}

bool exchange_unregistered(ucontext_t *uc, const struct insn *insn)
{
	if (!begin(uc, insn, true))
		return false;
	if (exchange_goes_on())
		exposed_self.exchange->is_unregistered = true;
	return true;
}

bool exchange_is_unseen(void)
{
	return exposed_self.exchange->unseen;
}

bool exchange_ended(const ucontext_t *uc)
{
	const struct exchange *x = exposed_self.exchange;

	return x && x->under_way &&
	       (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] - (uintptr_t)x->stub < sizeof(x->stub);
}

bool exchange_goes_on(void)
{
	const struct exchange *x = exposed_self.exchange;

	return x && x->under_way;
}

static bool exchange_words(void *at, const uint8_t *before, const uint8_t *after, unsigned int word)
{
	uint64_t b[2], a[2];
	bool done;

	memcpy(b, before, sizeof(b));
	memcpy(a, after, sizeof(a));
	if (word == 8)
		return __atomic_compare_exchange_n((uint64_t *)at, &b[0], a[0], false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(done), "+m"(*(char(*)[16])at), "+a"(b[0]), "+d"(b[1])
			 : "b"(a[0]), "c"(a[1])
			 : "memory");
	return done;
}

/* The program learns what it found there, and the shadow copy gets what is there now. */
static void record_exchange(const struct exchange *x)
{
	const void *stored = x->copy + x->at;

	if (!x->unseen)
		record_difference(x->address, (const char *)x->before + x->at, x->size, 0);
	if (!x->unseen || x->is_unregistered)
		memcpy(shadow_of(x->address), stored, x->size);
	if (!x->is_unregistered && hooks.stored)
		hooks.stored(x->address, stored, x->size);
}

void exchange_commit(ucontext_t *uc)
{
	struct exchange *x = exposed_self.exchange;
	greg_t *g = uc->uc_mcontext.gregs;
	unsigned int word = x->reads ? 8 : word_of(x->address, x->size);
	uintptr_t begin = x->address & ~(uintptr_t)(word - 1);
	struct page *p = page_at(begin);

	if (!x->reads && !exchange_words(place_of(p, begin), x->before, x->copy, word)) {
		memcpy(g, x->gregs, sizeof(x->gregs));
		g[REG_RIP] = (greg_t)x->stub;
		take_copy(x);
		return;
	}
	/* Without an exposed region there is no shadow copy, and nothing to record. */
	if (!x->reads && p->state != PAGE_NONE)
		record_exchange(x);
	g[REG_RIP] = (greg_t)x->next;
	memcpy(&uc->uc_sigmask, &x->mask, sizeof(x->mask));
	set_gs(x->gs);
	x->under_way = false;
	counts.exchanges++;
}
