/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/rank/images.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/host/shared/control.h"
#include "replay/host/verdict/verdict.h"
#include "replay/print/say.h"

/* *goes_on: it came to its exec, as recorded.  Counts it in the options of the last image. */
static int replay_earlier(struct sr_trace *t, const struct sr_rank_options *o,
			  struct sr_rank_options *last, bool *goes_on)
{
	struct sr_rank_options alone = *o;
	struct sr_replay_control *control;
	int fd, status;

	control = sr_control_make(&fd);
	if (!control)
		return sr_fail("cannot make the control page: %s", strerror(errno));
	alone.tool = (struct sr_tool){.kind = SR_TOOL_NONE};
	alone.outsiders = NULL;
	alone.calls_before = last->calls_before;
	alone.children_before = last->children_before;
	status = sr_rank_replay(t, &alone, control, fd, NULL);
	last->calls_before += sr_replay_calls(control);
	last->children_before += atomic_load(&control->children);
	*goes_on = atomic_load(&control->outcome) == SR_REPLAY_EXECUTED;
	munmap(control, sizeof(*control));
	close(fd);
	return status;
}

int sr_images_replay(struct sr_trace *t, const struct sr_rank_options *o,
		     struct sr_replay_control *control, int control_fd, struct sr_group *group)
{
	uint32_t images = sr_trace_images(t, o->rank);
	struct sr_rank_options last = *o;
	struct sr_error err;

	if (o->last_image >= 0) {
		if (o->last_image >= (long)images)
			return sr_fail("rank %s has no image %ld, only 0 to %u",
				       sr_trace_rank_name(t, o->rank), o->last_image, images - 1);
		images = (uint32_t)o->last_image + 1;
	}
	if (group && images > 1)
		sr_note("rank %s: only its last image takes part in the group; the %u before are "
			"replayed by themselves",
			sr_trace_rank_name(t, o->rank), images - 1);
	for (uint32_t i = 0; i < images; i++) {
		bool goes_on = false;
		int status;

		if (sr_trace_choose_image(t, o->rank, i, &err))
			return sr_fail("%s", err.text);
		if (i + 1 == images)
			break;
		status = replay_earlier(t, o, &last, &goes_on);
		if (!goes_on)
			return status;
	}
	return sr_rank_replay(t, &last, control, control_fd, group);
}
