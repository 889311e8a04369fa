/* SPDX-License-Identifier: BSD-2-Clause */
/* suppress.h: races that the user does not want to hear of, from a file of --suppress. */
#ifndef REPLAY_COMMAND_SUPPRESS_H
#define REPLAY_COMMAND_SUPPRESS_H

#include <stdbool.h>

struct sr_suppressions;

/*
 * A line has one or two patterns, the second one behind " | ".  A pattern is a class, or is matched (fnmatch)
 * with the place of an access.  NULL after a message.
 */
struct sr_suppressions *sr_suppressions_read(const char *path);
void sr_suppressions_free(struct sr_suppressions *s);

/* s: NULL for none. */
bool sr_is_suppressed(const struct sr_suppressions *s, const char *class, const char *place, const char *other_place);

#endif
