/* SPDX-License-Identifier: BSD-2-Clause */
/* names.h: what records that are no calls are named, in what sreplay prints and in docs/format. */
#ifndef REPLAY_PRINT_NAMES_H
#define REPLAY_PRINT_NAMES_H

#include <stdint.h>

/* "unknown": it is of a later build. */
const char *sr_record_name(uint16_t kind);

#endif
