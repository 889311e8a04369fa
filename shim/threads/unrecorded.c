/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/unrecorded.h"

#include <stdatomic.h>

#include "logd/base/say.h"
#include "shim/files/uncompared.h"

static const char *const whats[] = {
    [SR_UNRECORDED_CLONE] = "the program made a thread by clone itself",
    [SR_UNRECORDED_EVENT] = "the program asked libc for a thread for each event (SIGEV_THREAD)",
};

void sr_thread_is_unrecorded(enum sr_unrecorded why)
{
	static atomic_bool said[sizeof(whats) / sizeof(whats[0])];

	sr_output_is_uncompared(SR_UNCOMPARED_THREAD);
	if (!atomic_exchange(&said[why], true))
		sr_say("%s: what that thread does is neither recorded nor replayed", whats[why]);
}
