/* SPDX-License-Identifier: BSD-2-Clause */
/* accesses.c: what the hooks in the program look at (shim/access/access.h). */
#include "shim/access/access.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/verbs/objects.h"

bool __attribute__((visibility("default"))) sreplay_access_view(struct sr_hooked_view *v)
{
	const struct sr_thread *t = &sr_self;

	if (!sr_engine || !sr_engine->active)
		return false;
	*v = (struct sr_hooked_view){.pages = sr_mr_pages(), .sn = &t->sn, .faults = sr_exposed_fault_counter()};
	return true;
}
