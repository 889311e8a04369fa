/* SPDX-License-Identifier: BSD-2-Clause */
/* other_output.h: prints how what a call wrote differs from what it wrote in the recording. */
#ifndef REPLAY_HOST_OTHER_OUTPUT_H
#define REPLAY_HOST_OTHER_OUTPUT_H

#include "replay/abi/control.h"

void sr_say_other_output(const struct sr_replay_output *o);

#endif
