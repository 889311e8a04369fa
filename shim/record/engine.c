/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.c: the record engine's operations, and how it starts. */
#include "shim/record/record.h"
#include "shim/files/fds.h"
#include "logd/base/highfd.h"

#include <sys/single_threaded.h>

#include "shim/calls/trap/trap.h"
#include "shim/confirm/confirm.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/run_token.h"
#include "shim/files/inputs.h"
#include "shim/kernel/tsc.h"
#include "shim/process/children.h"
#include "shim/record/call.h"
#include "shim/record/counter.h"
#include "shim/record/creating.h"
#include "shim/record/ending.h"
#include "shim/record/executing.h"
#include "shim/record/forking.h"
#include "shim/record/introduce.h"
#include "shim/record/heap_runs.h"
#include "shim/record/leaving.h"
#include "shim/record/notes.h"
#include "shim/record/places.h"
#include "shim/record/serial.h"
#include "shim/record/signal.h"
#include "shim/record/stamps.h"
#include "shim/record/streams.h"
#include "shim/signals/signals.h"
#include "shim/threads/stdio_pin.h"
#include "shim/verbs/checked.h"
#include "shim/verbs/single.h"
#include "shim/verbs/waits.h"

static struct sr_engine record_engine = {
    .call = sr_record_call,
    .polled = sr_record_polled,
    .polls_again = sr_record_polls_again,
    .active = true,
    .note = sr_record_note,
    .clock = sr_record_clock,
    .own_fd_from = sr_record_own_fd_from,
    .heap_begin = sr_record_heap_begin,
    .heap_end = sr_record_heap_end,
    .signal = sr_record_signal,
    .passes = sr_record_passes,
    .handlers_at_heap = sr_record_handlers_at_heap,
    .thread_starts = sr_engine_ignore_start,
    .thread_begins = sr_creation_await,
    .thread_ends = sr_record_end_thread,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .exit_called = sr_record_exit_called,
    .exit_begins = sr_record_exit_begins,
    .exits = sr_record_exits,
    .executes = sr_record_executes,
    .leaves = sr_record_leaves,
    .forks = sr_record_forks,
    .starts_unrecorded = sr_record_starts_unrecorded,
    .continues = sr_record_continues,
};

/* Makes the threads run one at a time. Call before sr_engine is set. */
static void take_turns(void)
{
	sr_serial = true;
	record_engine.call = sr_record_serial_call;
	record_engine.thread_begins = sr_serial_thread_begins;
	record_engine.releases = sr_serial_releases;
	record_engine.resumes = sr_serial_resumes;
	record_engine.has_exposed = sr_serial_has_exposed;
	record_engine.regains = sr_serial_regains;
	record_engine.yields = sr_serial_yields;
}

void sr_record_start(const struct sr_settings *s, enum sr_record_from from,
		     const struct sr_image_origin *image)
{
	/* Only at the start: later the program may have written to standard output. */
	if (from == SR_RECORD_FROM_START)
		sr_stdio_pin_as_found();
	sr_recorder.ring_bytes = (size_t)s->ring_bytes;
	sr_recorder.lossy = s->lossy;
	sr_recorder.quiet = s->quiet;
	sr_recorder.ring_stopped = sr_record_ring_stopped;
	sr_recorder.rank = s->rank;
	if (image)
		sr_recorder.image = *image;
	if (!sr_record_introduce(s, from, image))
		return;
	/* A process whose recording starts when it opens a device may already have threads. */
	sr_threaded = from != SR_RECORD_FROM_START && !__libc_single_threaded;
	sr_fd_ordinary_below(sr_fd_floor());
	sr_files_start(&sr_recorder.client, s->record_files, s->of_job);
	sr_children_start(sr_record_forget);
	sr_waits_each_thread = sr_record_each_thread;
	if (from == SR_RECORD_FROM_START)
		sr_record_expect_forks(s, image);
	if (s->threads == SR_THREADS_SERIAL)
		take_turns();
	if (s->confirm) {
		record_engine.polled = NULL; /* and so no poll is noted */
		record_engine.call = sr_confirm_start(s->confirm, s->rank, record_engine.call);
	}
	if (s->stamps)
		sr_stamps_start(s->tsc == SR_TSC_NATIVE);
	sr_single_completions = s->single_completions;
	sr_checks_buffers = s->check_buffers;
	sr_record_expect_end();
	sr_engine = &record_engine;
	sr_signals_start(false);
	sr_confirm_watch();
	sr_places_record(sr_serial, s->threads_auto);
	sr_trap_begin(0);
	sr_tsc_begin(s->probes ? &sr_record_counter : NULL);
}
