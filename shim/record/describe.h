/* SPDX-License-Identifier: BSD-2-Clause */
/* describe.h: the description of a recorded process in the manifest. */
#ifndef SHIM_RECORD_DESCRIBE_H
#define SHIM_RECORD_DESCRIBE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "logd/base/processor.h"
#include "shim/files/inherited.h"
#include "shim/record/record.h"

#define SR_DESCRIPTION_BYTES                                                                       \
	(2 * PATH_MAX + 512 + SR_INHERITED_TEXT + 2 * SR_CPUID_ENTRIES * sizeof(struct sr_cpuid))

/* Writes the description as JSON; false if the path of the executable is too long. */
bool sr_record_describe(char *extra, size_t size, const struct sr_settings *s,
			enum sr_record_from from);

#endif
