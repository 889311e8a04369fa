/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * children.h: processes that the program makes.
 *
 * A child is not recorded: it runs as it would without the shim, and the parent's
 * recording has the calls that made it and that waited for it.  In a replay there
 * are no children: who they were and how they ended is in the trace.
 */
#ifndef SHIM_PROCESS_CHILDREN_H
#define SHIM_PROCESS_CHILDREN_H

/*
 * Once, by the engine: the child of a fork is to be left alone by it.  forget is
 * called in the child, in which there is one thread; locks of the shim's heap are
 * free then, others may be held for ever.
 */
int sr_children_start(void (*forget)(void));

#endif
