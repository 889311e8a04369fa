/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/schema.h"

static char *put(char *to, uint8_t byte)
{
	if (byte < 128) {
		*to = (char)byte;
		return to + 1;
	}
	to = put(to, sr_schema_pairs[2 * (byte - 128)]);
	return put(to, sr_schema_pairs[2 * (byte - 128) + 1]);
}

void sr_schema_unpack(char *to)
{
	for (size_t i = 0; i < sr_schema_packed_size; i++)
		to = put(to, sr_schema_packed[i]);
}
