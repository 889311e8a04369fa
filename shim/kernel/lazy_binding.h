/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lazy_binding.h: what the first call of a function leaves on the stack.
 *
 * The first call of a function in another library goes through ld.so, which looks the function up.  Meanwhile ld.so keeps
 * the vector registers on the program's stack, below the caller.  It has the processor leave out the registers that are in
 * their initial state (XSAVEC); what the processor counts as that depends on when the kernel last gave the thread the processor.
 * So a later function finds other bytes there than in the recording, and programs send bytes that they never wrote
 * (core/stack_below.h).
 *
 * Ours does the same, and clears all that it has written.
 */
#ifndef SHIM_KERNEL_LAZY_BINDING_H
#define SHIM_KERNEL_LAZY_BINDING_H

/*
 * Puts ours in place of ld.so's, by a jump at its beginning.  Call it while there is one thread.  A loader in which it is not
 * found stays as it is.
 */
void sr_lazy_binding_start(void);

#endif
