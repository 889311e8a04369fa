/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/untrapped.h"

#include <stdbool.h>

#include "shim/core/thread.h"
#include "shim/kernel/cpuid_trap.h"
#include "shim/kernel/random.h"

#if defined(__x86_64__)

static const struct kind {
	enum sr_sought sought;
	bool (*is_needed)(void);
	void (*act)(const struct sr_tsc_site *site, ucontext_t *uc);
} kinds[] = {
    {SR_SOUGHT_RANDOM, sr_random_is_sought, sr_random_draw},
    {SR_SOUGHT_CPUID, sr_cpuid_is_sought, sr_cpuid_site},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static bool replaced[SR_SOUGHT_KINDS];

void sr_untrapped_begin(void)
{
	for (size_t i = 0; i < KINDS; i++) {
		replaced[kinds[i].sought] = kinds[i].is_needed();
		if (replaced[kinds[i].sought])
			sr_untrapped_sites_find(kinds[i].sought);
	}
}

void sr_untrapped_searches(uintptr_t begin, size_t size)
{
	for (size_t i = 0; i < KINDS; i++) {
		enum sr_heap before;

		if (!replaced[kinds[i].sought] || !sr_tsc_sites_may_be_in(kinds[i].sought, begin, size))
			continue;
		before = sr_enter(&sr_self);
		sr_untrapped_sites_find(kinds[i].sought);
		sr_leave(&sr_self, before);
	}
}

void sr_untrapped_stop(void)
{
	bool any = false;

	for (size_t i = 0; i < KINDS; i++) {
		any |= replaced[kinds[i].sought];
		replaced[kinds[i].sought] = false;
	}
	if (any)
		sr_untrapped_sites_restore();
}

void sr_untrapped_do(const struct sr_tsc_site *site, ucontext_t *uc)
{
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].sought == site->kind)
			kinds[i].act(site, uc);
}

#endif
