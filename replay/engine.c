/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.c: a call is answered from the trace.
 *
 * The arguments are encoded as the recorder encodes them and compared with the
 * record, byte for byte; then the recorded results are stored where the program
 * expects them.  The real function is not called.  The first difference ends
 * the process, with a report in the control page for `sreplay replay` to put
 * into words.
 */
#include "replay/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/rawsys.h"
#include "logd/ring.h"
#include "shim/call.h"
#include "shim/fds.h"
#include "shim/heap.h"
#include "shim/stdio_pin.h"
#include "shim/thread.h"

struct record {
	uint16_t kind;
	const uint8_t *payload;
	size_t size;
};

/* A thread's stream; in the shim's heap, behind sr_thread.stream. */
struct sr_replay_stream {
	size_t unreleased;     /* bytes of the ring that the last record occupies */
	struct sr_buf whole;   /* a record that came in pieces */
	uint64_t repeats_left; /* of the last call */
	uint16_t last_kind;
	struct sr_buf last;
};

static struct sr_replay_control *control;
static _Atomic uint32_t next_thread;

bool sr_replay_wanted(void)
{
	uint64_t magic = 0;

	return sr_syscall(SYS_pread64, SR_REPLAY_FD, SR_ARG(&magic), sizeof(magic), 0, 0, 0) ==
		   sizeof(magic) &&
	       magic == SR_REPLAY_MAGIC;
}

/* ---------------------------------------------------------------- the end */

static void __attribute__((noreturn)) end(enum sr_replay_outcome outcome, int status)
{
	uint32_t running = SR_REPLAY_RUNNING;

	/* The first word stands.  Release: who sees the outcome sees the report. */
	atomic_compare_exchange_strong_explicit(&control->outcome, &running, outcome,
						memory_order_release, memory_order_relaxed);
	/* What the program printed before is part of what a developer wants to see. */
	if (outcome != SR_REPLAY_DIED)
		fflush(stdout);
	for (;;)
		sr_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static void __attribute__((noreturn))
diverge(struct sr_thread *t, enum sr_replay_outcome outcome, uint16_t expected, uint16_t found)
{
	control->report.thread = t->number;
	control->report.sn = t->sn;
	control->report.expected = expected;
	control->report.found = found;
	end(outcome, SR_REPLAY_EXIT_DIVERGED);
}

static void show(uint8_t *shown, uint32_t *size, const uint8_t *in, size_t in_size)
{
	*size = (uint32_t)in_size;
	memcpy(shown, in, in_size < SR_REPLAY_BYTES ? in_size : SR_REPLAY_BYTES);
}

/* ------------------------------------------------------------- the stream */

static void start_thread(struct sr_thread *t)
{
	int fd;

	t->started = true;
	t->number = atomic_fetch_add(&next_thread, 1);
	t->stream = sr_alloc_zeroed(sizeof(*t->stream));
	fd = t->number < control->threads ? control->stream_fd[t->number] : -1;
	if (!t->stream || fd < 0 || sr_ring_attach(&t->ring, fd, SR_RING_CONSUMER))
		t->silent = true; /* a thread that the recording does not have */
}

/* The ring's next record, one piece; false when the producer is gone. */
static bool next_piece(struct sr_thread *t, const struct sr_record **piece)
{
	const void *records;

	sr_ring_release(&t->ring, t->stream->unreleased);
	t->stream->unreleased = 0;
	while (!sr_ring_peek(&t->ring, &records))
		if (sr_ring_wait(&t->ring, -1) < 0)
			return false;
	*piece = records;
	t->stream->unreleased = sr_record_padded((*piece)->size);
	return true;
}

static bool next_record(struct sr_thread *t, struct record *r)
{
	struct sr_buf *whole = &t->stream->whole;
	const struct sr_record *piece;
	size_t n;

	whole->len = 0;
	do {
		if (!next_piece(t, &piece))
			return false;
		n = piece->size - sizeof(*piece);
		if (!whole->len && !(piece->flags & SR_RECORD_MORE)) {
			*r = (struct record){piece->kind, (const uint8_t *)(piece + 1), n};
			return true;
		}
		sr_put_raw(whole, piece + 1, n);
	} while (piece->flags & SR_RECORD_MORE);
	*r = (struct record){piece->kind, whole->p, whole->len};
	return true;
}

/* The record of the call that is under way; SR_REC_REPEAT stands for the last one again. */
static bool next_call(struct sr_thread *t, struct record *r)
{
	struct sr_replay_stream *s = t->stream;

	if (!s->repeats_left) {
		do {
			if (!next_record(t, r))
				return false;
		} while (r->kind == SR_REC_PAD || r->kind == SR_REC_CLOCK);
		if (r->kind == SR_REC_REPEAT && r->size == sizeof(struct sr_repeat_payload))
			s->repeats_left = ((const struct sr_repeat_payload *)r->payload)->count;
	}
	if (s->repeats_left) {
		s->repeats_left--;
		*r = (struct record){s->last_kind, s->last.p, s->last.len};
	} else if (r->size <= SR_REPEAT_MAX) {
		s->last_kind = r->kind;
		s->last.len = 0;
		sr_put_raw(&s->last, r->payload, r->size);
	}
	return true;
}

/* ---------------------------------------------------------------- a call */

static int32_t exit_status(const struct record *r)
{
	return r->size < sizeof(struct sr_exit_payload)
		   ? 0
		   : ((const struct sr_exit_payload *)r->payload)->status;
}

/* The recording has nothing more for this thread; the others may still have a way to go. */
static void wait_for_others(void)
{
	const struct timespec second = {.tv_sec = 1};
	uint64_t before;

	if (control->threads <= 1)
		return;
	do {
		before = atomic_load(&control->calls);
		sr_sys_nanosleep(&second);
	} while (atomic_load(&control->calls) != before);
}

/* A stream ends where the program was killed, where the trace is cut, or with the exit status. */
static void __attribute__((noreturn))
end_of_stream(struct sr_thread *t, const struct record *r, uint16_t found)
{
	uint32_t outcome = SR_REPLAY_CUT;

	if (r && r->kind == SR_REC_EXIT) {
		control->report.expected_status = exit_status(r);
		diverge(t, SR_REPLAY_LATE_CALL, 0, found);
	}
	wait_for_others();
	if (r && r->kind == SR_REC_REPLAY_END && r->size == sizeof(outcome))
		memcpy(&outcome, r->payload, sizeof(outcome));
	control->report.thread = t->number;
	control->report.sn = t->sn;
	control->report.found = found;
	end((enum sr_replay_outcome)outcome, SR_REPLAY_EXIT_CUT);
}

static void check_arguments(struct sr_thread *t, const struct record *r,
			    const struct sr_call_head *head, uint64_t *a, void *site)
{
	const struct sr_call_codec *codec = &sr_call_codecs[r->kind - SR_REC_CALL];
	const uint8_t *in = r->payload + sizeof(*head);
	struct sr_buf *b = &t->buf;

	b->len = 0;
	if (codec->put_in)
		codec->put_in(b, a);
	if (b->len == head->in_size && !memcmp(b->p ? b->p : in, in, b->len))
		return;
	control->report.expected_site = head->site;
	control->report.found_site = (uintptr_t)site;
	show(control->report.expected_in, &control->report.expected_size, in, head->in_size);
	show(control->report.found_in, &control->report.found_size, b->p, b->len);
	diverge(t, SR_REPLAY_DIVERGED, r->kind, r->kind);
}

static void deliver(struct sr_thread *t, const struct sr_call_desc *d, const struct record *r,
		    const struct sr_call_head *head, uint64_t *a)
{
	const struct sr_call_codec *codec = &sr_call_codecs[sr_call_number(d)];
	struct sr_cursor c = {
	    .p = r->payload + sizeof(*head) + head->in_size,
	    .end = r->payload + r->size,
	};

	if (codec->deliver)
		codec->deliver(&c, a, head->result);
	if (c.bad || c.p != c.end)
		diverge(t, SR_REPLAY_BAD_RECORD, r->kind, r->kind);
	if (d->flags & SR_CALL_NEWFD && (int)head->result >= 0)
		sr_fd_hold((int)head->result);
	if (d->replayed)
		d->replayed(d, a, head->result);
}

static uint64_t replay_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	const struct sr_call_desc *d = &sr_calls[n];
	enum sr_heap before = sr_enter(t);
	uint16_t found = (uint16_t)(SR_REC_CALL + n);
	struct sr_call_head head;
	struct record r;

	if (!t->started)
		start_thread(t);
	t->sn++;
	if (t->silent || !next_call(t, &r))
		end_of_stream(t, NULL, found);
	if (r.kind < SR_REC_CALL)
		end_of_stream(t, &r, found);
	if (r.size < sizeof(head))
		diverge(t, SR_REPLAY_BAD_RECORD, r.kind, found);
	memcpy(&head, r.payload, sizeof(head));
	if (r.kind != found) {
		control->report.expected_site = head.site;
		control->report.found_site = (uintptr_t)site;
		diverge(t, SR_REPLAY_DIVERGED, r.kind, found);
	}
	if (head.in_size > r.size - sizeof(head))
		diverge(t, SR_REPLAY_BAD_RECORD, r.kind, found);
	if (d->flags & SR_CALL_OPAQUE)
		diverge(t, SR_REPLAY_UNSUPPORTED, r.kind, found);
	check_arguments(t, &r, &head, a, site);
	deliver(t, d, &r, &head, a);
	atomic_fetch_add_explicit(&control->calls, 1, memory_order_relaxed);

	sr_leave(t, before);
	errno = head.error;
	return head.result;
}

static const struct sr_engine replay_engine = {.call = replay_call};

/* The process has ended as recorded; a thread that still runs has nothing left to do. */
static uint64_t halt(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	const struct timespec long_time = {.tv_sec = 3600};

	do
		sr_sys_nanosleep(&long_time);
	while (true);
	return 0;
}

static const struct sr_engine halted_engine = {.call = halt};

/* A child of the program's was not recorded, and is not replayed: its calls are real. */
static void leave_child_alone(void)
{
	sr_engine = NULL;
}

void sr_replay_exit(int status)
{
	struct sr_thread *t = &sr_self;
	struct record r;

	if (sr_engine != &replay_engine)
		return;
	sr_enter(t);
	sr_engine = &halted_engine;
	if (!t->started)
		start_thread(t);
	control->report.found_status = status;
	t->sn++;
	if (t->silent || !next_call(t, &r))
		end_of_stream(t, NULL, 0);
	if (r.kind >= SR_REC_CALL)
		diverge(t, SR_REPLAY_EARLY_EXIT, r.kind, 0);
	if (r.kind != SR_REC_EXIT)
		end_of_stream(t, &r, 0);
	control->report.expected_status = exit_status(&r);
	if (control->report.expected_status != status)
		diverge(t, SR_REPLAY_EARLY_EXIT, 0, 0);
	atomic_store_explicit(&control->outcome, SR_REPLAY_EXACT, memory_order_release);
}

/* ------------------------------------------------------------------ start */

/*
 * The command leaves the rings at low numbers or high ones as it comes; the
 * program must find the numbers free that it had free in the recording.
 */
static int move_away(int fd)
{
	long high = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, SR_REPLAY_FD + 1);

	if (high < 0)
		return fd;
	sr_sys_close(fd);
	return (int)high;
}

void sr_replay_start(void)
{
	void *page = sr_sys_mmap(sr_heap_place_mapping(sizeof(*control)), sizeof(*control),
				 PROT_READ | PROT_WRITE, MAP_SHARED, SR_REPLAY_FD, 0);

	if (sr_sys_is_error(page) || pthread_atfork(NULL, NULL, leave_child_alone))
		for (;;)
			sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
	control = page;
	sr_sys_close(SR_REPLAY_FD);
	for (uint32_t i = 0; i < control->threads; i++)
		control->stream_fd[i] = move_away(control->stream_fd[i]);
	sr_stdio_pin(control->stdout_line_buffered);
	sr_engine = &replay_engine;
}
