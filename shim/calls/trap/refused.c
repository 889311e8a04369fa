/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/trap/refused.h"

#if defined(__x86_64__)

#include <errno.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"

/* So large that few programs ask, and that one may be refused: a replay looks at the trace each time. */
#define LARGE (1ul << 30)

static uint32_t next_number(struct sr_thread *t)
{
	if (t->mapped.sn != t->sn)
		t->mapped.n = 0;
	t->mapped.sn = t->sn;
	return ++t->mapped.n;
}

static long refuse(const struct sr_trapped *c, const struct sr_asked_mapping *asked, long error)
{
	uint64_t a[] = {asked->number, asked->size, asked->protection, asked->flags, (uint64_t)error};

	sr_call(SR_CALL_mapping_refused, a, c->site);
	return -errno;
}

static bool is_refused_next(struct sr_thread *t, const struct sr_asked_mapping *asked)
{
	uint64_t a[] = {asked->number, asked->size, asked->protection, asked->flags, 0};

	return sr_engine->comes_next(t, SR_CALL_mapping_refused, a);
}

bool sr_mapping_is_refused(const struct sr_trapped *c, struct sr_asked_mapping *asked, long *result)
{
	*asked = (struct sr_asked_mapping){c->a[1], c->a[2], c->a[3], 0};
	if (asked->size < LARGE)
		return false;
	asked->number = next_number(c->t);
	if (!sr_engine_is_active() || !sr_engine->replays || !is_refused_next(c->t, asked))
		return false;
	*result = refuse(c, asked, 0);
	return true;
}

void sr_mapping_result(const struct sr_trapped *c, const struct sr_asked_mapping *asked, long result)
{
	if (asked->size < LARGE || !sr_sys_is_error((void *)result) || !sr_engine_is_active())
		return;
	if (sr_engine->replays)
		sr_say("the program is refused %lu bytes of memory that it had in the recording: give the replay more (ulimit -v, another machine)", asked->size);
	else
		refuse(c, asked, -result);
}

uint64_t sr_mapping_flags_to_ask(uint64_t flags)
{
	if (!sr_engine_is_active() || !sr_engine->replays)
		return flags;
	return (flags & ~(uint64_t)(MAP_LOCKED | MAP_POPULATE)) | (flags & MAP_PRIVATE ? MAP_NORESERVE : 0);
}

uint64_t sr_invoke_mapping_refused(const struct sr_call_desc *d, uint64_t *a)
{
	errno = (int)a[4];
	return (uint64_t)-1;
}

#else

uint64_t sr_invoke_mapping_refused(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)-1;
}

#endif
