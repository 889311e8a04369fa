/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * direct.c: direct verbs (mlx5dv_*, efadv_*, ...) in a recorded process, and verbs that are newer than this recorder.
 *
 * They give the device's own queues and registers to the program, which then uses them without
 * any call that can be intercepted: a recording would be silently wrong.  So they fail as they do
 * on a device of another vendor, and programs that can do without them fall back.  With
 * --allow-direct they are let through: the trace has their names where they were called, and a
 * replay ends at the first.
 */
#include "shim/calls/direct.h"

#include <errno.h>
#include <stdatomic.h>

#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "logd/base/say.h"
#include "shim/core/thread.h"

static enum sr_direct mode;
static atomic_bool said[SR_CALL_COUNT];

void sr_direct_set(enum sr_direct what)
{
	mode = what;
}

/* Of libibverbs or librdmacm, but newer than what is described. */
static bool is_new(const struct sr_call_desc *d)
{
	return d->source == SR_SOURCE_IBVERBS || d->source == SR_SOURCE_RDMACM;
}

static const char *way_out(const struct sr_call_desc *d)
{
	switch ((enum sr_source)d->source) {
	case SR_SOURCE_MLX5:
	case SR_SOURCE_MLX4:
		return "run it over plain verbs (UCX: UCX_TLS=rc_verbs,ud_verbs,self,sm)";
	case SR_SOURCE_EFA:
		return "run it over plain verbs, or over TCP (libfabric: FI_PROVIDER=verbs or tcp)";
	case SR_SOURCE_IBVERBS:
	case SR_SOURCE_RDMACM:
		return "run it without that, as on a device that cannot do it";
	default:
		return "run it over plain verbs";
	}
}

/*
 * UCX and libfabric call such a function for each device.  If the real one says no because the device is of
 * another vendor, nothing is refused and no message is printed.
 */
static bool is_so_anyway(const struct sr_call_desc *d, const uint64_t *a)
{
	/* What a query finds, or its first bytes, not for the program: it is refused if there is any. */
	uint64_t found[512] = {0}, asked[SR_MAX_ARGS] = {a[0], (uintptr_t)found, sizeof(found)};
	const bool query = d->fails == SR_FAILS_QUERY;
	struct sr_thread *t = &sr_self;
	enum sr_heap before;
	uint64_t answer;

	if ((d->fails != SR_FAILS_FALSE && !query) || mode == SR_DIRECT_REFUSE_QUIETLY)
		return false;
	before = sr_enter(t);
	answer = sr_real(d, query ? asked : a);
	sr_leave(t, before);
	return query ? (int)answer != 0 : !(uint8_t)answer;
}

bool sr_direct_refuses(const struct sr_call_desc *d, const uint64_t *a)
{
	/* Neither a process outside the group nor a library's own call is refused. */
	if (!sr_engine && !(sr_waiting && sr_wake()))
		return false;
	if (sr_self.depth || mode == SR_DIRECT_ALLOW)
		return false;
	if (is_so_anyway(d, a))
		return true;
	if (mode == SR_DIRECT_REFUSE && !atomic_exchange(&said[sr_call_number(d)], true))
		sr_say("%s is refused: %s; %s, or let it through "
		       "unrecorded with --allow-direct (SREPLAY_ALLOW_DIRECT=on)",
		       d->name, is_new(d) ? "this recorder does not know it" : "direct verbs cannot be recorded", way_out(d));
	return true;
}

uint64_t sr_direct_failure(const struct sr_call_desc *d)
{
	switch ((enum sr_failure)d->fails) {
	case SR_FAILS_NULL:
		errno = EOPNOTSUPP;
		return 0;
	case SR_FAILS_ERRNO:
	case SR_FAILS_QUERY:
		return EOPNOTSUPP;
	case SR_FAILS_MINUS:
		errno = EOPNOTSUPP;
		return (uint64_t)-1;
	case SR_FAILS_NEGATIVE:
		return (uint64_t)-EOPNOTSUPP;
	case SR_FAILS_FALSE:
		break;
	}
	return 0;
}

uint64_t sr_direct_call(enum sr_call_number n, uint64_t *a, void *site)
{
	if (sr_direct_refuses(&sr_calls[n], a))
		return sr_direct_failure(&sr_calls[n]);
	return sr_call(n, a, site);
}
