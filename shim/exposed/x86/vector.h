/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vector.h: moves between memory and the vector registers of a signal's frame
 * (SSE, AVX, AVX-512), and string instructions: what memcpy and memset are made of.
 */
#ifndef SHIM_EXPOSED_X86_VECTOR_H
#define SHIM_EXPOSED_X86_VECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "logd/base/compiler.h"

#define VECTOR_MAX 64

struct insn;

/*
 * A move whose opcode byte is at p: `prefix` is 0, 0x66, 0xf3 or 0xf2, `wide` the
 * W bit, `bytes` the vector's length.  Its class, or INSN_UNKNOWN.
 */
void vector_move(struct insn *i, uint8_t opcode, uint8_t prefix, bool wide, uint8_t bytes);

/* False where the frame does not have the register. */
/* Learns where the frame has them, before the program's cpuid has another answer. */
void vector_start(void);

bool vector_get(const ucontext_t *uc, unsigned int reg, void *to, unsigned int size);

/* size bytes; what is above is cleared up to the end of the register (vex) or of 16 bytes. */
bool vector_put(ucontext_t *uc, unsigned int reg, const void *from, unsigned int size, bool vex);

/* What xsave has written there, in so many bytes, is what uc has of the vectors. */
void vector_frame(ucontext_t *uc, char *frame, uint32_t size);

#endif
