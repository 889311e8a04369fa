/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/executing.h"

#include <string.h>

#include "shim/record/ending.h"
#include "shim/record/notes.h"
#include "shim/record/streams.h"

/*
 * The daemon empties the rings of this image as long as it needs: it has them mapped, too.  It ends
 * the streams when the next image introduces itself, or else when the process ends.
 */
bool sr_record_executes(struct sr_thread *t, const void *what, size_t size, void *site,
			struct sr_image_origin *next)
{
	if (!sr_record_is_process())
		return false;
	sr_record_note(t, SR_REC_EXEC, what, size);
	*next = (struct sr_image_origin){
	    .number = sr_recorder.image.number + 1,
	    .sns = sr_record_highest_sn(),
	};
	memcpy(next->before, sr_recorder.client.hello.process, sizeof(next->before));
	return sr_recorder.client.state == SR_CLIENT_LIVE;
}
