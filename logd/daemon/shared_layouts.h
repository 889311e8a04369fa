/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_layouts.h: layouts (logd/trace/layouts.h) of which there is one for each schema.
 *
 * The processes of a job have the same schema, of some 100 KB.  A daemon that takes over hundreds of them
 * at once must not read it hundreds of times, nor one that takes them one after the other.  For any thread.
 */
#ifndef LOGD_DAEMON_SHARED_LAYOUTS_H
#define LOGD_DAEMON_SHARED_LAYOUTS_H

#include <stddef.h>

struct sr_layouts;

/* Of this schema.  NULL: as sr_layouts_new. */
const struct sr_layouts *shared_layouts_take(const char *schema, size_t size);
/* NULL, or what shared_layouts_take has returned, once for each time. */
void shared_layouts_drop(const struct sr_layouts *layouts);

#endif
