/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/executing.h"

#include <poll.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/core/codec.h"
#include "shim/process/image.h"
#include "shim/record/emit.h"
#include "shim/record/ending.h"
#include "shim/record/notes.h"
#include "shim/record/settling.h"
#include "shim/record/streams.h"

static bool is_daemon_gone(void)
{
	const struct timespec at_once = {0};
	struct pollfd p = {.fd = sr_recorder.client.socket};

	return p.fd < 0 || (sr_syscall(SYS_ppoll, SR_ARG(&p), 1, SR_ARG(&at_once), 0, 0, 0) > 0 &&
			    p.revents & (POLLHUP | POLLERR));
}

/*
 * What a forked child executes is not recorded: most are helpers, that a program starts in this way.
 * The daemon empties the rings of this image as long as it needs: it has them mapped, too.  It ends
 * the streams when the next image introduces itself, or else when the process ends.  If the
 * daemon has died, only this image can give its rings to the successor.
 */
bool sr_record_executes(struct sr_thread *t, struct sr_buf *what, void *site,
			struct sr_image_origin *next)
{
	if (!sr_record_is_process())
		return false;
	if (!t->started)
		sr_record_start_thread(t);
	sr_image_put_event(what, sr_record_settle(t, false));
	if (!t->silent)
		sr_emit_check(t);
	sr_record_note(t, SR_REC_EXEC, what->p, what->len);
	if (sr_recorder.is_child)
		return false;
	if (is_daemon_gone())
		sr_client_finish(&sr_recorder.client, -1);
	*next = (struct sr_image_origin){
	    .number = sr_recorder.image.number + 1,
	    .sns = sr_record_highest_sn(),
	};
	sr_image_pass_connection(sr_recorder.client.socket);
	memcpy(next->before, sr_recorder.client.hello.process, sizeof(next->before));
	return sr_recorder.client.state == SR_CLIENT_LIVE;
}
