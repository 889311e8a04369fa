/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooked.h: loads and stores that the hooks of libsreplay_access.so have recorded (shim/access/access.h), as if a watched replay had
 * found them.  Code without hooks, that of libraries, may access the memory as well.
 */
#ifndef REPLAY_ANALYSIS_RACES_HOOKED_H
#define REPLAY_ANALYSIS_RACES_HOOKED_H

#include "replay/analysis/log/links.h"
#include "replay/analysis/races/watched.h"

/* *ranks: how many of them have hooks.  To be freed in any case.  0, or -errno and a sentence. */
int sr_race_watches_hooked(struct sr_race_watches *s, struct sr_trace *t, const struct sr_links *links, size_t *ranks, struct sr_error *err);

#endif
