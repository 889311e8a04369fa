/* SPDX-License-Identifier: BSD-2-Clause */
/* executing.c: the program executes another one, which is compared and not done; see own.h. */
#include <string.h>

#include "shim/process/image.h"
#include "shim/replay/own.h"

/* Takes the record of the exec.  If the next record is another one, the replay ends here. */
static void take_exec(struct sr_thread *t, struct sr_replay_record *r, void *site)
{
	if (t->silent || !sr_replay_next_call(t, r))
		sr_replay_end_of_stream(t, NULL, SR_REC_EXEC, site);
	if (sr_replay_is_end(r->kind) || r->kind == SR_REC_REPLAY_END)
		sr_replay_end_of_stream(t, r, SR_REC_EXEC, site);
	if (r->kind != SR_REC_EXEC)
		sr_replay_find_instead(t, r->kind, SR_REC_EXEC, site);
}

static void __attribute__((noreturn))
find_other(struct sr_thread *t, const struct sr_replay_record *r, void *site)
{
	size_t shown = r->size < SR_REPLAY_BYTES ? r->size : SR_REPLAY_BYTES;

	sr_replay_claim_report();
	memcpy(sr_replay_page->report.expected_in, r->payload, shown);
	sr_replay_page->report.expected_size = (uint32_t)r->size;
	sr_replay_find_instead(t, SR_REC_EXEC, SR_REC_EXEC, site);
}

/* If it failed, the record of the call "exec" follows. */
static bool has_succeeded(struct sr_thread *t)
{
	return sr_replay_peek(t) && t->stream->next.kind == SR_REC_REPLAY_END &&
	       sr_replay_outcome_of(&t->stream->next) == SR_REPLAY_EXECUTED;
}

/*
 * Is it what was recorded?  A recording of several threads has the event of the exec behind it; one
 * of an earlier version has the path only.
 */
static bool is_recorded(const struct sr_replay_record *r, const struct sr_buf *what,
			uint64_t *event)
{
	size_t path = strlen((const char *)what->p);

	*event = 0;
	if (r->size == path && !memcmp(r->payload, what->p, path))
		return true;
	if (r->size < what->len || memcmp(r->payload, what->p, what->len))
		return false;
	*event = sr_image_event(r->payload + what->len, r->size - what->len);
	return true;
}

bool sr_replay_executes(struct sr_thread *t, struct sr_buf *what, void *site,
			struct sr_image_origin *next)
{
	struct sr_replay_record r;
	uint64_t event;

	if (!t->started)
		sr_replay_start_thread(t);
	sr_replay_handlers_between(t);
	/* What the report shows if something else was recorded. */
	t->buf.len = 0;
	sr_put_raw(&t->buf, what->p, what->len);
	t->sn++;
	if (!t->silent)
		sr_replay_pass_exposed(t, SR_REC_EXEC, site);
	sr_replay_take_check(t);
	take_exec(t, &r, site);
	if (!is_recorded(&r, what, &event))
		find_other(t, &r, site);
	if (event) {
		sr_replay_await_ticket(t, event);
		sr_replay_go_on(t, event);
	}
	t->sn--;
	if (has_succeeded(t))
		sr_replay_stop(t, SR_REPLAY_EXECUTED, SR_REC_EXEC, site);
	return true;
}
