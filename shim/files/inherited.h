/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inherited.h: the descriptors, besides 0 to 2, that a process has open when it starts: those that a
 * shell has opened for it, or the image before it.  A replay does not have their files, so what comes
 * through them is recorded: they are captured.  Those that lead to the same file as 0, 1 or 2 are
 * copies of these in a replay, too.
 *
 * Called once, before the shim has opened any descriptor.
 */
#ifndef SHIM_FILES_INHERITED_H
#define SHIM_FILES_INHERITED_H

#include "replay/abi/control.h"

/* Recording: finds them, and captures them. */
void sr_inherited_find(void);

/* As text: "5,6=1", where 6 is a copy of 1; in process.json. */
#define SR_INHERITED_TEXT (8 * SR_INHERITED_FDS)
const char *sr_inherited_text(void);

/* Replay: opens them; inherited: by number, as in the control page. */
void sr_inherited_open(const uint8_t inherited[SR_INHERITED_FDS]);

#endif
