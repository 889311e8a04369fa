/* SPDX-License-Identifier: BSD-2-Clause */
/* executing.c: the program executes another one, which is compared and not done; see own.h. */
#include <string.h>

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
	uint32_t outcome = 0;

	if (!sr_replay_peek(t) || t->stream->next.kind != SR_REC_REPLAY_END)
		return false;
	memcpy(&outcome, t->stream->next.payload, sizeof(outcome));
	return outcome == SR_REPLAY_EXECUTED;
}

bool sr_replay_executes(struct sr_thread *t, const void *what, size_t size, void *site,
			struct sr_image_origin *next)
{
	struct sr_replay_record r;
	size_t path = strlen(what);

	if (!t->started)
		sr_replay_start_thread(t);
	sr_replay_handlers_between(t);
	/* What the report shows if something else was recorded. */
	t->buf.len = 0;
	sr_put_raw(&t->buf, what, size);
	t->sn++;
	if (!t->silent)
		sr_replay_pass_exposed(t, SR_REC_EXEC, site);
	take_exec(t, &r, site);
	/* Earlier versions recorded the path only. */
	if ((r.size != size || memcmp(r.payload, what, size)) &&
	    (r.size != path || memcmp(r.payload, what, path)))
		find_other(t, &r, site);
	t->sn--;
	if (has_succeeded(t))
		sr_replay_stop(t, SR_REPLAY_EXECUTED, SR_REC_EXEC, site);
	return true;
}
