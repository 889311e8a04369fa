/* SPDX-License-Identifier: BSD-2-Clause */
/* executing.h: the recorded process executes another program. */
#ifndef SHIM_RECORD_EXECUTING_H
#define SHIM_RECORD_EXECUTING_H

#include <stdbool.h>
#include <stddef.h>

struct sr_buf;
struct sr_image_origin;
struct sr_thread;

/* struct sr_engine's executes. */
bool sr_record_executes(struct sr_thread *t, struct sr_buf *what, void *site,
			struct sr_image_origin *next);

#endif
