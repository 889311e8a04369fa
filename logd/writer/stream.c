/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/service/log.h"
#include "logd/trace/file_io.h"
#include "logd/trace/frame.h"
#include "logd/writer/frame_writer.h"
#include "logd/writer/inputs.h"
#include "logd/writer/stream_file.h"
#include "logd/writer/stream_resume.h"

/* Fewer than one in so many bytes: a frame of records that are much alike. */
#define DENSE 16

/* ---- opening ---- */

/* For a new file, or one whose header is torn, which loses nothing by being written again. */
static int write_header(struct stream *s, const struct sr_stream_header *h)
{
	ssize_t n = pwrite(s->fd, h, sizeof(*h), 0);

	if (n != sizeof(*h))
		return n < 0 ? -errno : -ENOSPC;
	s->offset = sizeof(*h);
	s->next_sn = s->origin.sns + 1;
	return 0;
}

/* A torn frame at the end is cut off: its records are still in the ring. */
static int resume_file(struct stream *s, const struct sr_stream_header *mine)
{
	struct stream_end_found end;
	struct sr_stream_header h;
	ssize_t n = pread(s->fd, &h, sizeof(h), 0);
	int err;

	if (n < 0)
		return -errno;
	/* Records were released, but the file has none: it is another file. */
	if (n < (ssize_t)sizeof(h))
		return sr_ring_position(&s->ring) ? -ENOENT : write_header(s, mine);
	if (memcmp(&h, mine, sizeof(h)))
		return -EEXIST;
	end = (struct stream_end_found){.offset = sizeof(h), .next_sn = s->origin.sns + 1};
	err = stream_find_end(s->fd, &end);
	if (err)
		return err;
	/*
	 * All that was released from the ring had been written.  If the file has less, it is
	 * damaged and not torn, and is left as it is.
	 */
	if (end.ring_position < sr_ring_position(&s->ring))
		return -EBADMSG;
	if (ftruncate(s->fd, (off_t)end.offset))
		return -errno;
	s->offset = end.offset;
	s->next_sn = end.next_sn;
	s->open = end.open;
	s->exit = end.exit;
	s->mark = end.mark;
	s->records = end.records;
	/* The old daemon may have written more than it released, which must not come twice. */
	return sr_ring_resume_at(&s->ring, end.ring_position);
}

static int open_file(struct stream *s, const struct stream_origin *o)
{
	const char *file = strrchr(s->name, '/') + 1;
	struct sr_stream_header h;
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (s->resume ? 0 : O_EXCL), err;

	stream_file_header(&h, o->rank, o->thread, o->process);
	s->fd = openat(o->rank_fd, file, flags, 0600);
	if (s->fd < 0)
		return -errno;
	err = s->resume ? resume_file(s, &h) : write_header(s, &h);
	/* An earlier daemon may have been killed in between: a line may come twice. */
	return err || s->offset != sizeof(h) ? err : stream_file_list(o->rank_fd, o->thread);
}

/* The mark is to be written at once. */
static void stop_unmarked(struct stream *s, int error)
{
	s->stop_error = error;
	s->stop_why = strerrordesc_np(-error) ? strerrordesc_np(-error) : "an unknown error";
	s->mark_again_ms = 1;
}

struct stream *stream_new(const struct stream_origin *o, const struct sr_ring *ring, bool resume)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->fd = -1;
	s->origin = *o;
	s->resume = resume;
	s->ring = *ring;
	if (o->image)
		snprintf(s->name, sizeof(s->name), "rank-%d/" SR_IMAGE_DIR "/thread-%u.srs",
			 o->rank, o->image, o->thread);
	else
		snprintf(s->name, sizeof(s->name), "rank-%d/thread-%u.srs", o->rank, o->thread);
	s->written = sr_ring_position(&s->ring);
	return s;
}

int stream_begin(struct stream *s)
{
	int err = open_file(s, &s->origin);

	if (err) {
		log_trace(s->origin.trace_fd, "%s cannot be written: %s; this thread is not recorded",
			  s->name, strerror(-err));
		atomic_store(&s->stopped, true);
		sr_ring_stop(s->ring.shared, -err);
		return err;
	}
	s->written = sr_ring_position(&s->ring);
	/* The earlier daemon had stopped it: only the mark of that can follow. */
	if (s->resume && sr_ring_stopped(&s->ring)) {
		s->stopped = true;
		if (s->mark != SR_MARK_STOPPED)
			stop_unmarked(s, -sr_ring_stop_error(&s->ring));
	}
	return 0;
}

void stream_free(struct stream *s)
{
	sr_ring_detach(&s->ring);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/* ---- writing ---- */

uint64_t stream_committed(const struct stream *s)
{
	return atomic_load(&s->ring.shared->head);
}

bool stream_is_asked(const struct stream *s)
{
	return !atomic_load(&s->stopped) &&
	       atomic_load(&s->ring.shared->flush_to) > atomic_load(&s->written);
}

size_t stream_waiting(struct stream *s)
{
	const void *records;

	return s->stopped ? 0 : sr_ring_peek(&s->ring, &records);
}

/* Writes a frame of one record, which does not come through the ring. */
static int write_one(struct stream *s, struct frame_writer *w, const struct sr_record *record, uint64_t skipped)
{
	struct frame_job job = {.fd = s->fd, .offset = s->offset, .records = record};

	job.h.raw_bytes = sr_record_padded(record->size);
	job.h.first_sn = s->next_sn;
	job.h.sns = skipped;
	job.h.ring_begin = s->written;
	job.h.records = 1;
	frame_write(w, &job, 1);
	if (job.result < 0)
		return (int)job.result;
	s->offset += (uint64_t)job.result;
	s->next_sn += skipped;
	s->open = false;
	s->records++;
	return 0;
}

static int write_mark(struct stream *s, struct frame_writer *w, enum sr_mark reason,
		      uint64_t argument, uint64_t skipped, const char *text)
{
	_Alignas(8) unsigned char data[512] = {0};
	struct sr_record *record = (struct sr_record *)data;
	struct sr_mark_payload *mark = (struct sr_mark_payload *)(record + 1);
	size_t length = strlen(text), most = sizeof(data) - sizeof(*record) - sizeof(*mark);
	int err;

	if (length > most)
		length = most;
	record->size = (uint32_t)(sizeof(*record) + sizeof(*mark) + length);
	record->kind = SR_REC_MARK;
	mark->reason = reason;
	if ((reason == SR_MARK_DIED || reason == SR_MARK_ENDED) && sr_ring_writing(&s->ring))
		mark->flags = SR_MARK_WRITING;
	mark->argument = argument;
	mark->skipped_sns = skipped;
	memcpy(mark->text, text, length);
	err = write_one(s, w, record, skipped);
	if (!err)
		s->mark = reason;
	return err;
}

/* The process ended without a word: what it had not finished is written as it is.  The mark of its end follows. */
static void write_unfinished(struct stream *s, struct frame_writer *w)
{
	struct {
		struct sr_record record;
		uint64_t word[SR_RING_UNFINISHED_WORDS];
	} r = {.record.size = sizeof(r)};

	if (s->open)
		return; /* nor has it finished a longer one, which nothing may follow */
	for (int i = 0; i < SR_RING_UNFINISHED; i++) {
		const struct sr_ring_unfinished *u = &s->ring.shared->unfinished[i];

		r.record.kind = (uint16_t)atomic_load_explicit(&u->kind, memory_order_acquire);
		for (int word = 0; word < SR_RING_UNFINISHED_WORDS; word++)
			r.word[word] = atomic_load_explicit(&u->word[word], memory_order_relaxed);
		/* The program may have overwritten it. */
		if (r.record.kind && r.record.kind < SR_REC_CALL)
			write_one(s, w, &r.record, 0);
	}
}

#define MARK_AGAIN_MS 1000

static int mark_stop(struct stream *s, struct frame_writer *w)
{
	char text[300];
	int err;

	snprintf(text, sizeof(text), "recording of this thread ended: %s", s->stop_why);
	err = write_mark(s, w, SR_MARK_STOPPED, (uint64_t)-s->stop_error, 0, text);
	s->mark_again_ms = err ? sr_sys_now_ms() + MARK_AGAIN_MS : 0;
	return err;
}

void stream_mark_again(struct stream *s, struct frame_writer *w, int64_t now)
{
	if (s->mark_again_ms && now >= s->mark_again_ms)
		mark_stop(s, w);
}

/* The program goes on; its records are dropped from here on.  why: a constant, or NULL. */
static void stop(struct stream *s, struct frame_writer *w, int error, const char *why)
{
	int err;

	s->stop_error = error;
	s->stop_why = why ? why : "an unknown error";
	err = mark_stop(s, w);
	log_trace(s->origin.trace_fd,
		  "%s: recording of this thread ended: %s; the program goes on "
		  "unrecorded%s",
		  s->name, s->stop_why,
		  err ? " (and the mark that says so could not be written yet)" : "");
	atomic_store(&s->stopped, true);
	sr_ring_stop(s->ring.shared, -error);
}

/* Writing to a removed file succeeds, but the records are lost. */
static bool is_removed(const struct stream *s)
{
	struct stat st;

	return fstat(s->fd, &st) || st.st_nlink == 0;
}

bool stream_prepare(struct stream *s, struct frame_writer *w, struct frame_job *job)
{
	struct sr_count count;
	const void *records;
	size_t waiting = sr_ring_peek(&s->ring, &records);

	if (s->stopped || !waiting)
		return false;
	if (sr_count_records(&count, records, waiting, s->dense ? STREAM_FRAME_DENSE : STREAM_FRAME_TARGET, s->open) ||
	    count.bytes > STREAM_FRAME_MOST) {
		stop(s, w, -EINVAL,
		     "its ring does not hold records any more: the program overwrote it");
		return false;
	}
	if (is_removed(s)) {
		stop(s, w, -ENOENT, "its file was removed");
		return false;
	}
	if (count.inputs)
		inputs_take(&(struct inputs_place){s->origin.rank_fd, s->origin.trace_fd, s->origin.files, s->origin.rank},
			    (void *)records, count.bytes);
	s->exit_next = count.exit;
	*job = (struct frame_job){
	    .fd = s->fd,
	    .offset = s->offset,
	    .records = records,
	    .layouts = s->origin.layouts,
	    .habit = &s->habit,
	    .refers = count.refers,
	    .h =
		{
		    .flags = count.open ? SR_FRAME_OPEN : 0,
		    .raw_bytes = (uint32_t)count.bytes,
		    .first_sn = s->next_sn,
		    .sns = count.sns,
		    .ring_begin = sr_ring_position(&s->ring),
		    .ring_bytes = (uint32_t)count.bytes,
		    .records = count.records,
		},
	};
	return true;
}

void stream_complete(struct stream *s, struct frame_writer *w, const struct frame_job *job)
{
	if (job->result < 0) {
		stop(s, w, (int)job->result, strerrordesc_np((int)-job->result));
		return;
	}
	s->offset += (uint64_t)job->result;
	s->next_sn += job->h.sns;
	s->open = job->h.flags & SR_FRAME_OPEN;
	s->dense = job->h.stored_bytes < job->h.raw_bytes / DENSE;
	s->exit = s->exit_next;
	s->mark = 0;
	s->active_ms = sr_sys_now_ms();
	atomic_fetch_add_explicit(&s->records, job->h.records, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->stored_bytes, (uint64_t)job->result, memory_order_relaxed);
	/* Only now that the file has the records. */
	sr_ring_release(&s->ring, job->h.ring_bytes);
	atomic_store(&s->written, sr_ring_position(&s->ring));
}

void stream_write(struct stream *s, struct frame_writer *w)
{
	struct frame_job job;

	if (!stream_prepare(s, w, &job))
		return;
	frame_write(w, &job, 1);
	stream_complete(s, w, &job);
}

static bool is_last_mark(uint32_t mark)
{
	return mark == SR_MARK_DIED || mark == SR_MARK_ENDED || mark == SR_MARK_STOPPED;
}

/* How long the process lived after its last record, about. */
static uint64_t quiet_ms(const struct stream *s)
{
	return s->active_ms ? (uint64_t)(sr_sys_now_ms() - s->active_ms) : 0;
}

/* The process goes on as another image, whose recording has begun. */
static bool is_replaced(const struct stream *s)
{
	return atomic_load(&s->replaced);
}

/* A daemon that was killed within this may have written some of the marks. */
static void write_last_marks(struct stream *s, struct frame_writer *w)
{
	uint64_t sns, records = sr_ring_unmarked(&s->ring, &sns);

	if (is_last_mark(s->mark))
		return;
	if (records && s->mark != SR_MARK_DROPPED)
		write_mark(s, w, SR_MARK_DROPPED, records, sns, "");
	if (s->exit)
		return;
	write_unfinished(s, w);
	if (sr_ring_stopped(&s->ring))
		write_mark(s, w, SR_MARK_STOPPED, (uint64_t)sr_ring_stop_error(&s->ring), 0,
			   sr_ring_stop_error(&s->ring) == ECANCELED
			       ? "the program forbade what a recording needs"
			       : "the process gave up waiting for sreplay-logd");
	else if (atomic_load(&s->gone) && !sr_ring_closed(&s->ring) && !is_replaced(s))
		write_mark(s, w, SR_MARK_DIED, quiet_ms(s), 0, "the process ended without a word");
	else
		write_mark(s, w, SR_MARK_ENDED, 0, 0, "");
}

void stream_end(struct stream *s, struct frame_writer *w)
{
	while (!s->stopped && stream_waiting(s))
		stream_write(s, w);
	if (!s->stopped)
		write_last_marks(s, w);
	else if (s->mark_again_ms)
		mark_stop(s, w);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
