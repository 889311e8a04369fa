/* SPDX-License-Identifier: BSD-2-Clause */
/* sha1.h: the digest of a short message (FIPS 180-4), for uts: as a random number, not as a secret.
 */
#ifndef PGAS_SHA1_H
#define PGAS_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_BYTES 20

/* Of at most 55 bytes: what fits into one block. */
void sha1(uint8_t digest[SHA1_BYTES], const void *message, size_t bytes);

#endif
