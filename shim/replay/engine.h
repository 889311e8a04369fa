/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.h: the replay engine, one of the two engines behind the wrappers. */
#ifndef SHIM_REPLAY_ENGINE_H
#define SHIM_REPLAY_ENGINE_H

#include <stdbool.h>

#include "replay/abi/control.h"

/* Was this process started by `sreplay replay`? */
bool sr_replay_wanted(void);

/* Takes over the control page and the streams and sets sr_engine; ends the process if it cannot. */
void sr_replay_start(void);

#endif
