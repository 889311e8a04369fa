/* SPDX-License-Identifier: BSD-2-Clause */
/* leaving.h: the end of a recording before that of the process. */
#ifndef SHIM_RECORD_LEAVING_H
#define SHIM_RECORD_LEAVING_H

/*
 * The program is about to forbid what a recording needs: all records are written, and from here on
 * the shim passes calls on and makes none of its own.  Called in the trap, outside of sections.
 */
void sr_record_leaves(const char *why);

#endif
