/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_code.h: does a thread execute code in which threads may decide something by atomic instructions?
 *
 * What threads decide that way while they run beside each other is not recorded.  Code that has such instructions is told by
 * looking through the file that it is in, once for each file: an interpreter, or LLVM's OpenMP, has some; a compressor whose
 * threads meet under locks has none.  The code of libc, libstdc++ and GCC's OpenMP does not count: these are ordered by the
 * shim, or threads decide nothing by them.  Code that is in no file counts, since nothing is known about it.
 */
#ifndef SHIM_THREADS_SHARED_CODE_H
#define SHIM_THREADS_SHARED_CODE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The thread executes code at pc, and returns to those among the words from sp to top that are in code.  One thread at a time,
 * also in a handler of a signal.
 */
bool sr_code_is_shared(uintptr_t pc, uintptr_t sp, uintptr_t top);

#endif
