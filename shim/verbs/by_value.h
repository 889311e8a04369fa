/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * by_value.h: exposed memory of which record --order leaves nothing out (--by-value): where several ranks write over each
 * other, and nothing orders their writes, a replay could not tell what was found there.
 */
#ifndef SHIM_VERBS_BY_VALUE_H
#define SHIM_VERBS_BY_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* list: of core/ranges.h; NULL: there are none.  Before the program runs. */
void sr_by_value_start(const char *list);

/* Does any of it lie in such a range? */
bool sr_is_by_value(uint64_t addr, uint64_t length);

#endif
