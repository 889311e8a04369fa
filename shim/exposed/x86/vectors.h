/* SPDX-License-Identifier: BSD-2-Clause */
/* vectors.h: the rows of vector, MMX and mask instructions, and of those of general registers that share their maps. */
#ifndef SHIM_EXPOSED_X86_VECTORS_H
#define SHIM_EXPOSED_X86_VECTORS_H

#include <stdbool.h>

#include "shim/exposed/x86/row.h"

/* prefix: 0 to 3 for none, 66, f3, f2.  It holds for the row's `encodings` only; {0}: not known. */
const struct opcode *vector_row(uint8_t map, uint8_t op, unsigned int prefix);

/* An instruction of vectors has a ModRM byte, and a byte of immediate behind its operand: which ones? */
bool vector_has_immediate(uint8_t map, uint8_t op);

/* Those behind 0f, in the legacy encoding. */
bool is_vector_0f(uint8_t op);

/* Behind 0f in VEX: vectors, and mask registers.  Some coprocessors had branches there (0f 84). */
bool is_vex_0f(uint8_t op);

#endif
