/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/access.h"
#include "shim/exposed/exposed.h"

static const struct sr_exposed_watched *watched;

void sr_exposed_watch_load(const struct sr_exposed_watched *w)
{
	watched = w;
}

/* The address is where the fault came: a word may begin before the range. */
bool is_watched_load(const ucontext_t *uc, uintptr_t addr)
{
	const struct sr_exposed_watched *w = watched;

	return w && !(((uintptr_t)uc->uc_mcontext.gregs[REG_RIP] ^ w->pc) & ~PAGE_MASK) &&
	       addr + VECTOR_MAX > w->begin && addr < w->end && !exposed_self.silent;
}

NO_VECTORS bool is_watched_page(uintptr_t addr)
{
	const struct sr_exposed_watched *w = watched;

	return w && (addr & PAGE_MASK) < w->end && (addr & PAGE_MASK) + PAGE > w->begin;
}

void watched_load_begins(const ucontext_t *uc, uintptr_t addr)
{
	watched->before((uintptr_t)uc->uc_mcontext.gregs[REG_RIP], addr);
}

void watched_load_ends(uintptr_t addr)
{
	watched->after(addr);
}
