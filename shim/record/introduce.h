/* SPDX-License-Identifier: BSD-2-Clause */
/* introduce.h: a process that is to be recorded introduces itself to the daemon. */
#ifndef SHIM_RECORD_INTRODUCE_H
#define SHIM_RECORD_INTRODUCE_H

#include <stdbool.h>

#include "shim/record/record.h"

/* False, after a line that says why: it is not recorded.  The settings must last. */
bool sr_record_introduce(const struct sr_settings *s, enum sr_record_from from,
			 const struct sr_image_origin *image);

/* A forked child of that process, which is recorded into this trace. */
bool sr_record_introduce_child(const char *trace, const struct sr_image_origin *parent);

/* A forked child that is not recorded: the rings belong to the parent. */
void sr_record_forget(void);

#endif
