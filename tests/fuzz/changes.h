/* SPDX-License-Identifier: BSD-2-Clause */
/* changes.h: random changes to bytes, as a seed decides. For one thread. */
#ifndef TESTS_FUZZ_CHANGES_H
#define TESTS_FUZZ_CHANGES_H

#include <stddef.h>
#include <stdint.h>

void seed(uint64_t number);

/* Less than n; 0 if n is 0. */
size_t below(size_t n);

/*
 * Makes one change to size bytes, of which there are some: a bit, a byte, a number at the border of what fields can
 * hold, a piece that is missing, or a piece of `other`. Returns the new size, at most `room`.
 */
size_t change(uint8_t *data, size_t size, size_t room, const uint8_t *other, size_t other_size);

#endif
