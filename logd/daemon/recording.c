/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "logd/daemon/claim.h"
#include "logd/daemon/hello.h"
#include "logd/ring/request.h"
#include "logd/service/log.h"
#include "logd/writer/drain.h"
#include "logd/writer/files.h"
#include "logd/writer/served.h"

/* How long a daemon that ends waits for places that are being made. */
#define LAST_CLAIM_SECONDS 1

/* ---- beginning and end ---- */

static void recording_free(struct recording *r)
{
	for (struct served *a = r->areas, *next; a; a = next) {
		next = a->next_mine;
		served_free(a);
	}
	if (r->source.fd >= 0) {
		loop_unwatch(r->list->loop, &r->source);
		close(r->source.fd);
	}
	files_forget(r->files);
	trace_place_free(&r->place);
	free(r);
}

static void process_died(void *owner, struct source *source)
{
	struct recording *r = (struct recording *)source;
	struct recordings *list = r->list;

	loop_unwatch(list->loop, source);
	/* Before it counts as dead: serving a request may free recordings that are dead. */
	if (r->connection)
		list->events->last_words(list->owner, r->connection);
	r->dead = true;
	for (struct served *a = r->areas; a; a = a->next_mine)
		atomic_store(&a->gone, true);
	if (!r->claim)
		drain_kick(list->drain, r->doorbell);
	recordings_progress(list);
}

/* The process has executed another program, whose recording begins. */
static void process_replaced(struct recording *r)
{
	for (struct served *a = r->areas; a; a = a->next_mine)
		atomic_store(&a->replaced, true);
	process_died(r->list->owner, &r->source);
}

static int watch_process(struct recording *r)
{
	r->source.ready = process_died;
	r->source.fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	return r->source.fd < 0 ? -errno : loop_watch(r->list->loop, &r->source);
}

static struct recording *find_recording(const struct recordings *list, const uint8_t *process)
{
	for (struct recording *r = list->first; r; r = r->next) {
		if (!memcmp(r->process, process, sizeof(r->process)))
			return r;
	}
	return NULL;
}

struct recording *recording_of(const struct recordings *list, const struct connection *c)
{
	struct recording *r;

	for (r = list->first; r && r->connection != c; r = r->next)
		;
	return r;
}

void recordings_forget(struct recordings *list, const struct connection *c)
{
	struct recording *r = recording_of(list, c);

	if (r)
		r->connection = NULL;
}

static void answer_hello(struct recording *r)
{
	struct sr_message reply;

	sr_message_init(&reply, SR_MSG_HELLO);
	if (r->connection)
		connection_answer(r->connection, &r->hello, &reply,
				  drain_doorbell_fd(r->list->drain, r->doorbell));
}

static void refuse(struct connection *c, const struct sr_message *hello, int err, const char *why)
{
	log_line("process %d refused: %s", (int)c->pid, why[0] ? why : strerror(-err));
	connection_answer_error(c, hello, err, why);
}

/* False: the claim failed, and the recording is none. */
static bool take_place(struct recording *r)
{
	char error[sizeof(r->hello.text)] = "";
	int err = claim_finish(r->claim, &r->place, error, sizeof(error));

	r->claim = NULL;
	if (!err) {
		r->doorbell = drain_assign(r->list->drain, r->place.device);
		err = r->doorbell < 0 ? r->doorbell : 0;
	}
	if (!err)
		r->files = files_of_process(r->list->files, &(struct files_place){.device = r->place.device,
										    .trace_fd = r->place.trace_fd,
										    .rank_fd = r->place.rank_fd,
										    .busy = &r->files_busy});
	if (err && r->connection)
		refuse(r->connection, &r->hello, err, error);
	if (!err)
		answer_hello(r);
	return !err;
}

static int new_recording(struct recordings *list, struct connection *c,
			 const struct sr_message *hello, int body_fd)
{
	struct recording *r = calloc(1, sizeof(*r));
	struct sr_image_origin parent;
	int err;

	if (!r)
		return -ENOMEM;
	r->source.fd = r->place.trace_fd = r->place.rank_fd = -1;
	r->list = list;
	r->pid = c->pid;
	r->rank = hello->rank;
	r->is_late = hello->flags & SR_MESSAGE_LATE;
	r->is_further = hello_image(hello, &r->image);
	if (hello_parent(hello, &parent)) {
		r->is_further = true;
		r->image.sns = parent.sns;
	}
	r->hello = *hello;
	memcpy(r->process, hello->process, sizeof(r->process));
	memcpy(r->session, hello->session, sizeof(r->session));
	err = watch_process(r);
	if (!err)
		err = claim_start(&r->claim, r->pid, hello, body_fd, list->event_fd);
	if (err) {
		recording_free(r);
		return err;
	}
	r->connection = c;
	r->next = list->first;
	list->first = r;
	return 0;
}

/* It is known: only its connection was lost. */
static void reconnect(struct recording *r, struct connection *c, const struct sr_message *hello)
{
	r->connection = c;
	r->hello = *hello;
	if (!r->claim)
		answer_hello(r);
}

/* The image before that of this hello, of the same process, or NULL. */
static struct recording *image_before(struct recordings *list, const struct connection *c, const struct sr_message *hello)
{
	struct sr_image_origin image;
	struct recording *before;

	if (!hello_image(hello, &image))
		return NULL;
	before = find_recording(list, image.before);
	return before && before->pid == c->pid && !before->dead ? before : NULL;
}

bool recording_hello(struct recordings *list, struct connection *c, const struct sr_message *hello,
		     int body_fd)
{
	struct recording *known = find_recording(list, hello->process);
	char error[sizeof(hello->text)] = "";
	int err = hello_check(hello, body_fd, error, sizeof(error));
	struct recording *before = err ? NULL : image_before(list, c, hello);

	/* A program that another user's process executes has no other connection. */
	if (before && before->connection == c)
		before->connection = NULL;
	if (!err && recording_of(list, c)) {
		snprintf(error, sizeof(error), "this process has introduced itself already");
		err = -EALREADY;
	}
	if (!err && known && known->pid == c->pid && !known->dead) {
		reconnect(known, c, hello);
		return false;
	}
	if (before)
		process_replaced(before);
	if (!err)
		err = new_recording(list, c, hello, body_fd);
	if (err)
		refuse(c, hello, err, error);
	return !err;
}

bool recordings_show_progress(struct recordings *list)
{
	bool some = false;

	for (struct recording *r = list->first; r; r = r->next) {
		if (!r->claim || !r->connection)
			continue;
		some = true;
		if (claim_steps(r->claim) != r->steps)
			connection_answer_error(r->connection, &r->hello, -EINPROGRESS, "");
		r->steps = claim_steps(r->claim);
	}
	return some;
}

/* ---- rings ---- */

static struct served *find_area(const struct recording *r, uint32_t number)
{
	struct served *a;

	for (a = r->areas; a && a->number != number; a = a->next_mine)
		;
	return a;
}

static int new_area(struct recording *r, const struct sr_area *area, uint32_t number, bool resume)
{
	const struct stream_origin origin = {
	    .rank_fd = r->place.rank_fd,
	    .trace_fd = r->place.trace_fd,
	    .rank = r->rank,
	    .process = r->process,
	    .image = r->image.number,
	    .sns = r->image.sns,
	    .layouts = r->place.layouts,
	    .files = r->files,
	};
	struct served *a = served_new(area, number, &origin, resume);

	if (!a)
		return -ENOMEM;
	a->gone = r->dead;
	a->next_mine = r->areas;
	r->areas = a;
	drain_add(r->list->drain, r->doorbell, a);
	return 0;
}

int recording_add_area(struct recording *r, const struct sr_message *m, int *fd)
{
	bool resume = m->flags & SR_MESSAGE_RESUME;
	struct sr_area area;
	int err;

	if (r->claim)
		return -EPROTO;
	if (find_area(r, m->thread)) {
		/* Only the connection was lost; or the program overwrote the doorbell. */
		drain_kick(r->list->drain, r->doorbell);
		return resume ? 0 : -EALREADY;
	}
	if (resume && *fd < 0)
		return -EBADF;
	err = resume ? sr_area_attach(&area, *fd) : sr_area_create(&area, m->value);
	if (err)
		return err;
	if (resume)
		*fd = -1; /* it is the area's */
	err = new_area(r, &area, m->thread, resume);
	if (err)
		sr_area_detach(&area);
	else if (!resume)
		*fd = area.fd;
	return err;
}

/* ---- files ---- */

int recording_add_file(struct recording *r, const struct sr_message *m, int fd)
{
	const struct file_note note = {
	    .fd = fd,
	    .path = m->text,
	    .number = m->value,
	    .keep = m->flags & SR_MESSAGE_KEEP,
	    .asker = r->connection,
	    .request = m,
	};

	if (r->claim)
		return -EPROTO;

	return r->files ? files_add(r->files, &note) : -ENOMEM;
}

int recording_await_held(struct recording *r, const struct sr_message *m)
{
	if (r->claim)
		return -EPROTO;
	return r->files ? files_await_held(r->files, r->connection, m) : -ENOMEM;
}

/* ---- progress ---- */

static void free_ended(struct recording *r)
{
	for (struct served **at = &r->areas; *at;) {
		struct served *a = *at;

		if (!atomic_load(&a->ended)) {
			at = &a->next_mine;
			continue;
		}
		*at = a->next_mine;
		served_add_up(a, &r->ended);
		served_free(a);
	}
}

/* Nothing of it is under way any more. */
static bool is_over(struct recording *r)
{
	if (!r->dead || r->claim || r->areas || atomic_load(&r->files_busy))
		return false;
	if (!r->files_ended)
		files_keep_replaced(r->files);
	r->files_ended = true;
	return !atomic_load(&r->files_busy);
}

void recordings_progress(struct recordings *list)
{
	for (struct recording **at = &list->first; *at;) {
		struct recording *r = *at;
		bool refused = r->claim && claim_is_done(r->claim) && !take_place(r);

		free_ended(r);
		if (!is_over(r) && !refused) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		list->ended += !refused;
		if (!refused)
			tally_add(&list->tallies, r->session, !r->is_further, r->is_late, (unsigned int)r->ended.unrecorded,
				  r->ended.stored);
		recording_free(r);
	}
	list->events->progressed(list->owner);
}

bool recordings_free(struct recordings *list)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LAST_CLAIM_SECONDS;
	while (list->first) {
		struct recording *r = list->first;

		if (r->claim && !claim_drop(r->claim, &until))
			return false;
		list->first = r->next;
		recording_free(r);
	}
	return true;
}
