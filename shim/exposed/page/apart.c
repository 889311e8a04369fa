/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/apart.h"

#include <string.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/page/page.h"
#include "shim/exposed/page/states.h"

bool apart_begin(uintptr_t user, struct apart *a)
{
	struct page *p = page_at(user);
	char *memory = sr_sys_mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sr_sys_is_error(memory))
		return false;
	memcpy(memory, backing_of(p, user), PAGE);
	memcpy(memory + PAGE, memory, PAGE);
	/* One step: at no moment is nothing there. */
	if (sr_syscall(SYS_mremap, SR_ARG(memory + PAGE), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (long)user, 0) != (long)user) {
		sr_sys_munmap(memory, 2 * PAGE);
		return false;
	}
	*a = (struct apart){user, memory};
	p->apart = true;
	p->aliases++;
	page_tell_unwatched(user);
	if (hooks.went_pass_through)
		hooks.went_pass_through(user, memory);
	return true;
}

/* Others may have changed the bytes beside them meanwhile, and those that are what they were. */
static void store_changed(uintptr_t user, const char *was, const char *now)
{
	struct page *p = page_at(user);

	for (size_t from = 0, to; from < PAGE; from = to + 1) {
		for (to = from; to < PAGE && now[to] != was[to]; to++)
			;
		if (to == from)
			continue;
		memcpy(backing_of(p, user + from), now + from, to - from);
		p->own = true;
	}
}

void apart_end(const struct apart *a, bool keep)
{
	struct page *p = page_at(a->user);

	/* The program may have unmapped it. */
	if (page_is_exposed(a->user) && p->apart) {
		map_protect(a->user, PROT_READ);
		if (keep)
			store_changed(a->user, a->was, (const char *)a->user);
		if (hooks.was_pass_through)
			hooks.was_pass_through(a->user, (const char *)a->user);
		map_shadow(a->user);
		p->apart = false;
		p->aliases--;
	}
	sr_sys_munmap(a->was, PAGE);
}
