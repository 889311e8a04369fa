/* SPDX-License-Identifier: BSD-2-Clause */
/* encodings.h: random bytes, most of which are instructions. */
#ifndef TESTS_EXPOSED_ENCODINGS_H
#define TESTS_EXPOSED_ENCODINGS_H

#include <stdint.h>

#define ENCODING_BYTES 32

/* From the same seed come the same ones. */
void encodings_begin(uint64_t seed);
void encodings_next(uint8_t bytes[ENCODING_BYTES]);

/* More from the same source; below n. */
uint64_t random_bits(void);
unsigned int below(unsigned int n);

#endif
