/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/phases.h"

#include <stdatomic.h>
#include <stddef.h>

#define DOUBTFUL_NS 1000000ll
/* So much counts until a thread is stopped there again. */
#define UNPROVEN_NS 10000000ll
/* One part in so many of the time that passes may be lost. */
#define LEAK 50

/*
 * Threads part where others have waited for `enough`; not more than twice as much is remembered.  Of that, `forgotten`
 * is taken back for a phase that was too short to part for.
 */
static const struct limits {
	int64_t enough, brief, forgotten; /* ns */
} found_out = {40000000, 200000, 5000000}, known = {4000000, 30000, 100000};

#define SITES_LOG2 9
#define PROBES	   8

static struct site {
	_Atomic uintptr_t site;
	_Atomic int64_t pending; /* cost that is not known to be that of computing */
	_Atomic int64_t unproven; /* cost since a thread was last stopped there */
	_Atomic int64_t lost, lost_at; /* of that so much was left then */
	_Atomic bool computes; /* the last thread that was stopped there did */
	_Atomic bool shares;   /* it did so in code that has atomics */
} sites[1 << SITES_LOG2];

_Atomic bool sr_phases_any;
static bool on;

/* A thread's start has no call site. */
static struct site *find(uintptr_t address, bool add)
{
	const uintptr_t key = address ? address : 1;
	const size_t at = (size_t)((key * 0x9e3779b97f4a7c15ull) >> (64 - SITES_LOG2));

	for (size_t i = 0; i < PROBES; i++) {
		struct site *s = &sites[(at + i) & ((1 << SITES_LOG2) - 1)];
		uintptr_t there = atomic_load_explicit(&s->site, memory_order_relaxed);

		if (there == key || (!there && add && (atomic_compare_exchange_strong(&s->site, &there, key) || there == key)))
			return s;
	}
	return NULL;
}

void sr_phases_start(void)
{
	on = true;
}

bool sr_phase_is_doubtful(uintptr_t address)
{
	struct site *s = on ? find(address, false) : NULL;

	return s && (atomic_load(&s->pending) >= DOUBTFUL_NS || atomic_load(&s->unproven) >= UNPROVEN_NS);
}

void sr_phase_waits(uintptr_t address)
{
	struct site *s = on ? find(address, false) : NULL;

	if (!s)
		return;
	atomic_store(&s->pending, 0);
	atomic_store(&s->unproven, 0);
	atomic_store(&s->computes, false);
	if (address & SR_PHASE_KNOWN)
		atomic_store(&s->lost, 0);
}

void sr_phase_is_ours(uintptr_t address)
{
	struct site *s = on ? find(address, false) : NULL;
	int64_t before;

	if (!s || atomic_load(&s->shares))
		return;
	atomic_store(&s->pending, 0);
	before = atomic_exchange(&s->unproven, UNPROVEN_NS);
	if (atomic_load(&s->computes) && atomic_fetch_sub(&s->lost, before) < before)
		atomic_store(&s->lost, 0);
}

static const struct limits *limits_of(uintptr_t address)
{
	return address & SR_PHASE_KNOWN ? &known : &found_out;
}

static void add(struct site *s, int64_t ns, int64_t now)
{
	int64_t passed = now - atomic_exchange(&s->lost_at, now);
	int64_t lost = atomic_load(&s->lost) - passed / LEAK, enough = limits_of(atomic_load(&s->site))->enough;

	lost = (lost < 0 ? 0 : lost) + ns;
	lost = lost < 0 ? 0 : lost;
	atomic_store(&s->lost, lost > 2 * enough ? 2 * enough : lost);
	if (lost >= enough)
		atomic_store(&sr_phases_any, true);
}

static int64_t count_unproven(struct site *s, int64_t ns)
{
	int64_t before = atomic_load(&s->unproven), may = UNPROVEN_NS - before;

	ns = ns < may ? ns : may;
	atomic_store(&s->unproven, before + ns);
	return ns;
}

void sr_phase_costs(uintptr_t address, int64_t ns, int64_t now)
{
	struct site *s = on && ns > 0 ? find(address, true) : NULL;

	if (!s || atomic_load(&s->shares))
		return;
	if (!(address & SR_PHASE_KNOWN))
		ns = count_unproven(s, ns);
	if (address & SR_PHASE_KNOWN || atomic_load(&s->computes))
		add(s, ns, now);
	else
		atomic_fetch_add(&s->pending, ns);
}

void sr_phase_computes(uintptr_t address, int64_t now)
{
	struct site *s = on ? find(address, false) : NULL;

	if (!s || atomic_load(&s->shares))
		return;
	atomic_store(&s->computes, true);
	atomic_store(&s->unproven, 0);
	add(s, atomic_exchange(&s->pending, 0), now);
}

void sr_phase_shares(uintptr_t address)
{
	struct site *s = on ? find(address, true) : NULL;

	if (!s)
		return;
	atomic_store(&s->shares, true);
	atomic_store(&s->computes, false);
	atomic_store(&s->pending, 0);
	atomic_store(&s->unproven, 0);
	atomic_store(&s->lost, 0);
}

bool sr_phase_is_to_be_told(uintptr_t address)
{
	struct site *s = on && !(address & SR_PHASE_KNOWN) ? find(address, true) : NULL;

	return s && !atomic_load(&s->shares);
}

bool sr_phase_parts(uintptr_t address)
{
	struct site *s = atomic_load_explicit(&sr_phases_any, memory_order_relaxed) ? find(address, false) : NULL;

	return s && atomic_load(&s->lost) >= limits_of(address)->enough;
}

void sr_phase_took(uintptr_t address, int64_t ns, int64_t now)
{
	const struct limits *limits = limits_of(address);
	struct site *s = find(address, false);

	if (s)
		add(s, ns < limits->brief ? -limits->forgotten : ns, now);
}
