/* SPDX-License-Identifier: BSD-2-Clause */
/* control.h: the control page of a replayed process (abi/control.h), on the command's side. */
#ifndef REPLAY_HOST_SHARED_CONTROL_H
#define REPLAY_HOST_SHARED_CONTROL_H

#include "replay/abi/control.h"

/* Makes and maps a page that no process uses yet.  NULL with errno. */
struct sr_replay_control *sr_control_make(int *fd);

#endif
