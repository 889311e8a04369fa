/* SPDX-License-Identifier: BSD-2-Clause */
/* images.h: replays all images of a rank, one after the other. */
#ifndef REPLAY_HOST_RANK_IMAGES_H
#define REPLAY_HOST_RANK_IMAGES_H

#include "replay/host/rank/rank.h"

/*
 * As sr_rank_replay, for all images of the rank: the first that does not do what was recorded is the
 * last.  The group, the tool and the control page are for the last image.  The earlier ones are
 * replayed by themselves.
 */
int sr_images_replay(struct sr_trace *t, const struct sr_rank_options *o,
		     struct sr_replay_control *control, int control_fd, struct sr_group *group);

#endif
