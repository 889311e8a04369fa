/* SPDX-License-Identifier: BSD-2-Clause */
/* mentions.h: which general registers an instruction reads or writes. */
#ifndef SHIM_EXPOSED_X86_MENTIONS_H
#define SHIM_EXPOSED_X86_MENTIONS_H

#include <stdint.h>

#include "shim/exposed/x86/opcodes.h"

#define MENTIONS_ALL 0xffff

/* A bit for each, by their numbers; some more may be set.  MENTIONS_ALL for what the table does not have. */
uint32_t mentions_of(const uint8_t *code);

#endif
