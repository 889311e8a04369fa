/* SPDX-License-Identifier: BSD-2-Clause */
/* vector.h: the vector registers (SSE, AVX, AVX-512) in a signal's frame. */
#ifndef SHIM_EXPOSED_X86_VECTOR_H
#define SHIM_EXPOSED_X86_VECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "logd/base/compiler.h"

#define VECTOR_MAX 64

/* Of MXCSR: the exceptions that are no signals. */
#define MXCSR_MASKS 0x1f80

/* Asks cpuid for the frame's layout.  Call it before the program's cpuid is trapped and answered from a trace. */
void vector_start(void);

/* The register's bytes from `from` on.  False if the frame does not have them. */
bool vector_get(const ucontext_t *uc, unsigned int reg, unsigned int from, void *to, unsigned int size);

/* The mask register of that number.  False if the frame does not have it. */
bool vector_mask(const ucontext_t *uc, unsigned int reg, uint64_t *mask);

/* Puts size bytes, and clears those above up to the end of the register (vex) or of its first 16 bytes. */
bool vector_put(ucontext_t *uc, unsigned int reg, const void *from, unsigned int size, bool vex);

/* The frame, if xsave has written it and xrstor can read it; otherwise NULL. */
char *vector_xsave_frame(const ucontext_t *uc);

/* Has the program let floating-point exceptions come as signals? */
bool vector_may_signal(const ucontext_t *uc);

/* Makes uc's vector registers those that xsave has written to frame, which has size bytes. */
void vector_frame(ucontext_t *uc, char *frame, uint32_t size);

#endif
