/* SPDX-License-Identifier: BSD-2-Clause */
/* checksum_variants.h: XXH3 by several kinds of instructions, each compiled in a file of its own.  All agree. */
#ifndef LOGD_BASE_CHECKSUM_VARIANTS_H
#define LOGD_BASE_CHECKSUM_VARIANTS_H

#include <stddef.h>
#include <stdint.h>

uint64_t sr_checksum_avx2(const void *p, size_t n, uint64_t seed);
uint64_t sr_checksum_scalar(const void *p, size_t n, uint64_t seed);

#endif
