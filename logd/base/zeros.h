/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LOGD_BASE_ZEROS_H
#define LOGD_BASE_ZEROS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool is_zeros(const void *p, size_t n)
{
	const char *c = p;

	return !n || (!c[0] && !memcmp(c, c + 1, n - 1));
}

#endif
