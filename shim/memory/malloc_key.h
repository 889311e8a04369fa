/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * malloc_key.h: makes a random number in libc's malloc the same in a recording and in its replay.
 *
 * free() writes a number into each block that it caches, and compares it, to find blocks that are freed twice.  libc
 * takes it from the kernel at its first allocation, which is before anything can be recorded.  Else a place in a loop
 * that frees memory (shim/threads/place.h), where the number is in a register, on the stack or among the words that are
 * compared, would never be found again.
 */
#ifndef SHIM_MEMORY_MALLOC_KEY_H
#define SHIM_MEMORY_MALLOC_KEY_H

/*
 * Derives the number from the random bytes that the kernel gives each new program (AT_RANDOM of getauxval(3)), which a
 * replay has from its recording.  A libc without such a number stays as it is.  Call once, before there are threads.
 */
void sr_malloc_pin_key(void);

#endif
