/* SPDX-License-Identifier: BSD-2-Clause */
/* table.c: the table of probes; where a thread is that has come to one. */
#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"

/* A thread that comes to the middle of a jump pays a fault for it, and may do so again and again. */
#define TRAPS_MAX 64

struct probe probes[PROBES_MAX];
uint32_t probes_n;
_Atomic uint32_t patched_n;
/* All stubs are in this range: most addresses are not. */
static uintptr_t stubs_begin = UINTPTR_MAX, stubs_end;

struct probe *probe_at(uintptr_t pc)
{
	for (uint32_t i = probes_n; i--;)
		if (probes[i].pc == pc)
			return &probes[i];
	return NULL;
}

bool overlaps_another(const struct probe *s)
{
	for (const struct probe *p = probes; p < probes + probes_n; p++)
		if (p != s && p->at - s->at + JUMP_BYTES - 1 < 2 * JUMP_BYTES - 1 &&
		    (p->state == PROBE_PATCHED || p->state == PROBE_CHANGING))
			return true;
	return false;
}

struct probe *probe_of_stub(uintptr_t at)
{
	if (at < stubs_begin || at >= stubs_end)
		return NULL;
	for (uint32_t i = 0; i < probes_n; i++)
		if (probes[i].stub && at >= probes[i].stub && at < probes[i].end)
			return &probes[i];
	return NULL;
}

void probe_note_stub(const struct probe *s)
{
	if (s->stub < stubs_begin)
		stubs_begin = s->stub;
	if (s->end > stubs_end)
		stubs_end = s->end;
}

/* Not libc's memcmp(): a thread that is in the middle of a jump in there would meet that jump again. */
static bool begins_with(uintptr_t pc, const uint8_t *bytes)
{
	const volatile uint8_t *code = (const volatile uint8_t *)pc;

	for (int i = 0; i < JUMP_BYTES; i++)
		if (code[i] != bytes[i])
			return false;
	return true;
}

bool probe_has_jump(const struct probe *s)
{
	return s->state == PROBE_PATCHED && begins_with(s->at, s->jump);
}

/* The bytes there are not the original ones, or will not be in a moment. */
static bool is_changed(const struct probe *s)
{
	return s->state == PROBE_CHANGING || probe_has_jump(s);
}

unsigned int under_begin(const struct group *g, uintptr_t at)
{
	for (unsigned int i = 1; i < g->n; i++)
		if (at == g->at[i])
			return i;
	return 0;
}

static unsigned int under_jump(const struct probe *s, uintptr_t pc)
{
	return under_begin(&s->group, pc - s->pc);
}

struct probe *probe_over(uintptr_t pc, unsigned int *k)
{
	for (uint32_t i = 0; i < probes_n; i++) {
		*k = under_jump(&probes[i], pc);
		if (*k && probes[i].copy.gaps >> *k & 1 && probe_has_jump(&probes[i]))
			return &probes[i];
	}
	return NULL;
}

static const uint8_t *original_code(uintptr_t pc)
{
	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return NULL;
	if (exposed_self.probe.inside && exposed_self.probe.current->pc == pc)
		return exposed_self.probe.current->code;
	for (uint32_t i = 0; i < probes_n; i++) {
		const struct probe *s = &probes[i];

		if (((pc == s->pc && s->at == pc) || under_jump(s, pc)) && is_changed(s))
			return s->code + (pc - s->pc);
	}
	return NULL;
}

const uint8_t *probes_code_at(uintptr_t pc)
{
	const uint8_t *original = original_code(pc);

	return original ? original : code_at(pc);
}

uintptr_t copy_of(const struct probe *s, unsigned int i)
{
	return s->copies + s->copy.at[i];
}

int copy_at(const struct probe *s, uintptr_t at)
{
	for (unsigned int i = 0; i <= s->group.n; i++)
		if (at == copy_of(s, i) || at == s->copies + copy_behind_gap(&s->copy, i))
			return (int)i;
	return -1;
}

void probes_enter(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	struct probe *s =
	    atomic_load_explicit(&patched_n, memory_order_acquire) ? probe_of_stub(at) : NULL;
	int i = s ? copy_at(s, at) : -1;

	if (i >= 0)
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(s->pc + s->group.at[i]);
}

/* At the first instruction the jump itself leads on, except at the moment when it is written. */
void probes_leave(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return;
	for (uint32_t i = 0; i < probes_n; i++) {
		const struct probe *s = &probes[i];
		unsigned int k = under_jump(s, at);

		if (k && is_changed(s)) {
			uc->uc_mcontext.gregs[REG_RIP] = (greg_t)copy_of(s, k);
			return;
		}
	}
}

/* The jump may have been taken back meanwhile; but what is mapped there now must be what it was made of. */
static bool has_copies_of(const struct probe *s)
{
	return s->stub && (is_changed(s) || begins_with(s->at, s->was));
}

/*
 * The shim's own code may come here as well, in libc's functions, with this lock held, or with one that the holder of
 * this lock waits for.  Then it is done the next time.
 */
bool try_to_give_up(struct probe *s)
{
	if (!exposed_try_lock())
		return false;
	give_up(s);
	exposed_unlock(NULL);
	return true;
}

bool probe_has_trapped(const struct probe *s)
{
	return s->traps >= TRAPS_MAX;
}

static void count_trap(struct probe *s)
{
	/* What is served by the jump would have been a fault, which costs as much as a trap. */
	s->traps++;
	if (!s->breaks && probe_has_trapped(s) && s->traps > s->served / 2 && s->state == PROBE_PATCHED)
		try_to_give_up(s);
}

bool probes_trapped(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return false;
	for (uint32_t i = 0; i < probes_n; i++) {
		struct probe *s = &probes[i];
		unsigned int k = under_jump(s, at);

		if ((k || at == s->at) && has_copies_of(s)) {
			uc->uc_mcontext.gregs[REG_RIP] = (greg_t)copy_of(s, k);
			count_trap(s);
			return true;
		}
	}
	return false;
}
