/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sha1.h: the digest of a short message (FIPS 180-4). uts uses it for random numbers, not secrets.
 */
#ifndef PGAS_SHA1_H
#define PGAS_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_BYTES 20

/* The message has at most 55 bytes, which fit into one block. */
void sha1(uint8_t digest[SHA1_BYTES], const void *message, size_t bytes);

#endif
