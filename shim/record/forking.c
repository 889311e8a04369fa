/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/forking.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "logd/ring/protocol.h"
#include "logd/trace/format.h"
#include "shim/async/uring.h"
#include "shim/calls/trap/trap.h"
#include "shim/core/order.h"
#include "shim/core/run_token.h"
#include "shim/core/settings.h"
#include "shim/core/thread.h"
#include "shim/files/last_outputs.h"
#include "shim/files/write_order.h"
#include "shim/process/verbs_users.h"
#include "shim/record/creating.h"
#include "shim/record/queue_order.h"
#include "shim/record/ending.h"
#include "shim/record/heap_runs.h"
#include "shim/record/introduce.h"
#include "shim/record/notes.h"
#include "shim/record/serial.h"
#include "shim/record/streams.h"
#include "shim/signals/signals.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"

/* Of this process's image, absolute; empty: its children are not recorded. */
static char directory[PATH_MAX];
static _Atomic uint32_t children;

/* The directory of an image within the trace. */
static int add_image(char *path, size_t size, int32_t rank, const struct sr_image_origin *image)
{
	int n = snprintf(path, size, "/rank-%d", rank);

	if (image && (size_t)n < size)
		n += snprintf(path + n, size - (size_t)n, "/" SR_IMAGE_DIR, image->number);
	return n;
}

/* Otherwise those that inherit a ring of io_uring: it needs the shim. */
static bool are_all_recorded;

void sr_record_expect_forks(const struct sr_settings *s, const struct sr_image_origin *image)
{
	size_t n = 0;

	/* The program may have another working directory when it forks. */
	if (s->trace[0] != '/') {
		if (sr_syscall(SYS_getcwd, SR_ARG(directory), sizeof(directory), 0, 0, 0, 0) < 0)
			return;
		n = strlen(directory);
		directory[n++] = '/';
	}
	n += (size_t)snprintf(directory + n, sizeof(directory) - n, "%s", s->trace);
	if (n < sizeof(directory))
		n += (size_t)add_image(directory + n, sizeof(directory) - n, s->rank, image);
	/* A child's directory has to fit as well. */
	if (n + 64 > sizeof(directory) || s->children == SR_CHILDREN_OFF)
		directory[0] = 0;
	are_all_recorded = s->children == SR_CHILDREN_ON || sr_process_uses_verbs();
}

bool sr_record_all_children(void)
{
	return are_all_recorded;
}

/*
 * What the child needs is not there, or not as its replay would have it: another thread could be
 * anywhere in the program's code, and pages that a device writes are the parent's.
 */
uint32_t sr_record_forks(struct sr_thread *t)
{
	bool may = directory[0] && (are_all_recorded || sr_urings) && sr_trap_is_on && !sr_contexts_seen() &&
		   (!sr_threaded || sr_serial) && sr_record_is_process() && !t->silent &&
		   sr_recorder.client.state == SR_CLIENT_LIVE;
	struct sr_fork_payload fork = {0};

	if (!may)
		return 0;
	if (!t->started)
		sr_record_start_thread(t);
	if (sr_serial && sr_threaded)
		sr_serial_arrive(t, NULL);
	sr_uring_forks();
	fork.child = atomic_fetch_add(&children, 1) + 1;
	sr_record_note(t, SR_REC_FORK, &fork, sizeof(fork));
	return fork.child;
}

void sr_record_starts_unrecorded(void)
{
	if (sr_recorder.client.state == SR_CLIENT_LIVE && sr_record_is_process())
		sr_client_count_unrecorded(&sr_recorder.client);
}

/* The other threads are the parent's; what they held or had begun is nobody's here. */
static void be_alone(struct sr_thread *t)
{
	sr_record_keep_only(t);
	sr_record_heap_free();
	sr_outputs_forget(t);
	sr_creations_forget();
	sr_queues_forget();
	sr_writes_forget(t);
	if (sr_serial && sr_threaded)
		sr_token_forget_others(&t->run_token);
	sr_signals_continue_in_child();
	sr_clocks_forget_in_child();
	sr_uring_continue_in_child();
}

void sr_record_continues(struct sr_thread *t, uint32_t child)
{
	struct sr_image_origin parent = {
	    .number = child,
	    .thread = t->number,
	    .sns = t->sn + 1,
	};
	size_t n = strlen(directory);

	memcpy(parent.before, sr_recorder.client.hello.process, sizeof(parent.before));
	sr_client_abandon(&sr_recorder.client);
	be_alone(t);
	t->sn++; /* the fork */
	snprintf(directory + n, sizeof(directory) - n, "/" SR_CHILD_DIR, child);
	if (!sr_record_introduce_child(directory, &parent)) {
		directory[0] = 0;
		sr_record_forget();
		return;
	}
	n = strlen(directory);
	add_image(directory + n, sizeof(directory) - n, sr_recorder.rank, NULL);
	if (strlen(directory) + 64 > sizeof(directory))
		directory[0] = 0;
	atomic_store(&children, 0);
	sr_record_expect_end();
	sr_trap_dispatch(t);
	if (sr_serial && sr_threaded)
		sr_serial_go_on(t);
}
