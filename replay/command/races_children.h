/* SPDX-License-Identifier: BSD-2-Clause */
/* races_children.h: `sreplay races` looks at the ranks, not at what they have forked. */
#ifndef REPLAY_COMMAND_RACES_CHILDREN_H
#define REPLAY_COMMAND_RACES_CHILDREN_H

/* Says which processes of the trace took part in what the ranks do to each other, and are left out.  A trace that cannot be read has none. */
void sr_races_say_children(const char *dir);

#endif
