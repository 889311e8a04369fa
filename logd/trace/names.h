/* SPDX-License-Identifier: BSD-2-Clause */
/* names.h: the names in the directory of a trace.  Any thread. */
#ifndef LOGD_TRACE_NAMES_H
#define LOGD_TRACE_NAMES_H

#include <stdbool.h>
#include <string.h>

/* May sreplay have made this in the directory of a trace, or in one that is about to be a trace? */
static inline bool sr_is_name_in_trace(const char *name)
{
	return name[0] == '.' || !strncmp(name, "rank-", 5) || !strcmp(name, "manifest.json") ||
	       !strcmp(name, "daemon.log") || !strcmp(name, "files");
}

#endif
