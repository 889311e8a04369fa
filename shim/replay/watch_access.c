/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/watch_access.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/decode.h"
#include "shim/exposed/x86/word.h"
#include "shim/replay/stacks.h"
#include "shim/replay/watch_pages.h"
#include "shim/signals/signals.h"
#include "shim/signals/stack.h"

#define ERR_WRITE 2

/* Accesses to a closed page between two calls that are reported; then it stays open. */
#define FAULTS_MAX 256

static struct sr_watch_access_user user;
static struct mapped_file libc_text, own_text;

static bool is_in(const struct mapped_file *f, uintptr_t pc)
{
	return pc - f->begin < f->end - f->begin;
}

/* ------------------------------------------------------------------ reports */

/* Of protected memory nothing is read: a fault here would wait for the lock that its handler holds. */
static bool read_plainly(void *to, uintptr_t from, size_t n)
{
	const struct iovec here = {to, n}, there = {(void *)from, n};

	return sr_sys_read_self(&here, &there, 1) == (long)n;
}

/* Is it the address behind a call instruction? */
static bool is_return_address(uintptr_t at)
{
	uint8_t code[6];

	if (at < 4096 || is_in(&libc_text, at) || !read_plainly(code, at - sizeof(code), sizeof(code)))
		return false;
	return code[1] == 0xe8 || code[0] == 0xff || code[3] == 0xff || code[4] == 0xff;
}

/* The C library's string functions have no frame: on top of the stack is where they return to. */
static uintptr_t caller_of(uintptr_t pc, uintptr_t sp)
{
	uintptr_t at;

	if (!is_in(&libc_text, pc) || !read_plainly(&at, sp, sizeof(at)))
		return 0;
	return is_return_address(at) ? at : 0;
}

void sr_watch_accessed(uintptr_t pc, uintptr_t sp, uintptr_t address, size_t length, bool is_store)
{
	const struct sr_thread *t = &sr_self;
	const struct sr_watch_access a = {.sn = t->sn,
					  .address = address,
					  .pc = pc,
					  .caller = caller_of(pc, sp),
					  .thread = t->number,
					  .length = (uint32_t)length,
					  .fault = (uint32_t)sr_exposed_faults(),
					  .kind = is_store ? SR_WATCH_STORE : SR_WATCH_LOAD};

	/* Without ranges to watch there is no user. */
	if (!user.take || !t->started || t->silent || t->ended)
		return;
	sr_stacks_code(pc);
	user.take(&a);
}

void sr_watch_unwatched(uintptr_t page)
{
	const struct sr_thread *t = &sr_self;
	const struct sr_watch_access from = {.sn = t->sn,
					     .address = page,
					     .thread = t->number,
					     .length = SR_WATCH_PAGE,
					     .fault = (uint32_t)sr_exposed_faults(),
					     .kind = SR_WATCH_UNSEEN};

	if (user.unseen)
		user.unseen(&from);
}

/* ------------------------------------------------------- pages that are closed */

static bool is_alone(const struct insn *insn)
{
	return insn->class != INSN_UNKNOWN && insn->class != INSN_STRING &&
	       insn->address / SR_WATCH_PAGE == (insn->address + insn->size - 1) / SR_WATCH_PAGE;
}

/* False: it is not an instruction that is done here. */
static bool do_access(ucontext_t *uc, const struct insn *insn)
{
	greg_t *g = uc->uc_mcontext.gregs;
	void *at = (void *)insn->address;
	char v[VECTOR_MAX];

	switch (insn->class) {
	case INSN_LOAD:
	case INSN_COMPARE:
		word_take(insn, decode_register(uc, insn->reg), &g[REG_EFL], word_load(at, insn->size));
		break;
	case INSN_VECTOR_LOAD:
		word_copy(v, at, insn->size);
		if (!vector_put(uc, insn->reg, v, insn->size, insn->vex))
			return false;
		break;
	case INSN_STORE:
		word_store(at, word_value(insn, *decode_register(uc, insn->reg)), insn->size);
		break;
	case INSN_VECTOR_STORE:
		if (!vector_get(uc, insn->reg, insn->from, v, insn->size))
			return false;
		word_copy(at, v, insn->size);
		break;
	default:
		return false;
	}
	g[REG_RIP] += insn->length;
	return true;
}

/* What it accesses within the page: all that is known of other instructions is where they faulted. */
static void report(const ucontext_t *uc, const struct insn *insn, uintptr_t fault, bool is_store)
{
	const greg_t *g = uc->uc_mcontext.gregs;
	bool is_known = is_alone(insn) && fault - insn->address < insn->size;

	sr_watch_accessed((uintptr_t)g[REG_RIP], (uintptr_t)g[REG_RSP], is_known ? insn->address : fault,
			  is_known ? insn->size : 1, is_store);
}

/* -------------------------------------------------- instructions done by themselves */

/* The page that is open for one instruction, which is not done here. */
static struct {
	struct sr_watched *p; /* NULL: a page of exposed memory */
	uintptr_t page;
	bool is_open;
} stepping;

/* With threads, others would access the page meanwhile. */
static bool start_step(ucontext_t *uc, struct sr_watched *p, uintptr_t page)
{
	greg_t *g = uc->uc_mcontext.gregs;

	if (!user.take || sr_threaded || stepping.is_open || g[REG_EFL] & FLAG_STEP || sr_self.depth ||
	    is_in(&own_text, (uintptr_t)g[REG_RIP]))
		return false;
	stepping.p = p;
	stepping.page = page;
	stepping.is_open = true;
	g[REG_EFL] |= FLAG_STEP;
	return true;
}

bool sr_watch_step(void *uc, uintptr_t page)
{
	return start_step(uc, NULL, page);
}

static bool end_step(siginfo_t *info, ucontext_t *uc)
{
	if (info->si_code != TRAP_TRACE || !stepping.is_open)
		return false;
	uc->uc_mcontext.gregs[REG_EFL] &= ~FLAG_STEP;
	stepping.is_open = false;
	if (stepping.p)
		sr_watch_close(stepping.p);
	else
		sr_exposed_hide(stepping.page);
	return true;
}

/*
 * Opens the page.  False: it was open.  Another thread may have opened it since this thread met it closed: then the access is
 * done again, once.
 */
static bool open_page(struct sr_watched *p, uintptr_t pc, bool *is_again)
{
	static __thread uintptr_t tried SR_INITIAL_EXEC;
	bool was_closed;

	sr_watch_lock();
	was_closed = p->is_closed;
	sr_watch_open(p);
	sr_watch_list(p);
	if (p->patience < SR_WATCH_PATIENCE)
		p->patience *= 2;
	sr_watch_unlock();
	*is_again = !was_closed && sr_threaded && tried != pc;
	tried = was_closed ? 0 : pc;
	return was_closed && !p->is_closed;
}

/* Done by itself, so that others of the page are seen as well; with threads, others could access the page meanwhile. */
static void close_again(struct sr_watched *p)
{
	if (!sr_threaded)
		sr_watch_close(p);
}

static bool fault(siginfo_t *info, ucontext_t *uc)
{
	struct sr_watched *p = info->si_code == SEGV_ACCERR ? sr_watch_page_at((uintptr_t)info->si_addr) : NULL;
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	bool is_store = uc->uc_mcontext.gregs[REG_ERR] & ERR_WRITE, is_again;
	struct insn insn;

	if (!p)
		return false;
	if (!open_page(p, pc, &is_again))
		return is_again;
	/* The handler for exposed memory does an instruction that accesses this page, too. */
	if (is_in(&own_text, pc) || sr_self.depth)
		return true;
	decode(probes_code_at(pc), uc, &insn);
	report(uc, &insn, (uintptr_t)info->si_addr, is_store);
	if (is_store)
		p->stored_by = pc;
	if (++p->faults < FAULTS_MAX && !is_store && !is_alone(&insn) && start_step(uc, p, p->address))
		return true;
	if (p->faults < FAULTS_MAX && is_alone(&insn) && do_access(uc, &insn)) {
		if (is_store && p->has_copy)
			memcpy(p->copy + insn.address % SR_WATCH_PAGE, (void *)insn.address, insn.size);
		close_again(p);
	}
	return true;
}

void sr_watch_access_start(const struct sr_watch_access_user *u)
{
	user = *u;
	if (!map_file_of((uintptr_t)memmove, &libc_text))
		libc_text.end = libc_text.begin = 0;
	if (!map_file_of((uintptr_t)sr_watch_access_start, &own_text))
		own_text.end = own_text.begin = 0;
	sr_signals_claim(SIGSEGV, fault);
	sr_signals_claim(SIGTRAP, end_step);
}
