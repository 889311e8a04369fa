/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rseq.h: takes restartable sequences from the program.
 *
 * The kernel writes into memory of each thread on which processor it runs, and lets a sequence of instructions begin
 * anew that it has interrupted. No call brings that into the process, so that no trace could have it. Without the
 * system call, as under older kernels, programs ask sched_getcpu(), which is recorded. New threads of libc do without
 * as soon as the first one does.
 */
#ifndef SHIM_KERNEL_RSEQ_H
#define SHIM_KERNEL_RSEQ_H

/* Call before main, while there is one thread. */
void sr_rseq_hide(void);

#endif
