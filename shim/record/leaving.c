/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/leaving.h"

#include <errno.h>

#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/inputs.h"
#include "shim/kernel/tsc.h"
#include "shim/kernel/user_dispatch.h"
#include "shim/process/children.h"
#include "shim/record/emit.h"
#include "shim/record/ending.h"
#include "shim/record/forking.h"
#include "shim/record/streams.h"
#include "shim/signals/signals.h"

static void ignore_end(int status)
{
}

/* As after the end of the process's recording, but that the end itself is nothing special. */
static struct sr_engine left_engine;

void sr_record_leaves(const char *why)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);

	if (!sr_recorder.is_child || sr_record_all_children())
		sr_say("rank %d is recorded up to here: %s; the rest of it is lost", sr_recorder.rank, why);
	if (t->started && !t->silent)
		sr_flush_repeats(t);
	left_engine = *sr_record_passing_engine();
	left_engine.exit_called = sr_engine_ignore;
	left_engine.exit_begins = left_engine.exits = ignore_end;
	sr_engine = &left_engine;
	sr_files_stop();
	sr_children_stop();
	/* In this order: a closed ring that is stopped has been cut off. */
	sr_client_stop(&sr_recorder.client, ECANCELED);
	sr_record_close_streams();
	sr_client_leave(&sr_recorder.client);
	sr_record_disarm_threads();
	/* It may have no stream yet, and then it is not among them. */
	sr_trap_disarm_thread(t);
	/* Other threads still need the shim's handlers, for what they trap into. */
	if (!sr_threaded) {
		sr_signals_forget_in_child();
		sr_tsc_forget_in_child();
	}
	sr_leave(t, before);
}
