/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * children.h: processes that the program makes.
 *
 * A child is not recorded: it runs as it would without the shim.  The parent's recording has
 * the calls that made it and that waited for it.  A replay makes no children: their numbers
 * and how they ended are in the trace.
 */
#ifndef SHIM_PROCESS_CHILDREN_H
#define SHIM_PROCESS_CHILDREN_H

/*
 * Called once, by the engine.  forget is called in the child of a fork, which has one thread,
 * and makes the engine leave that process alone.  Locks of the shim's heap are free then; other
 * locks may be held for ever.
 */
int sr_children_start(void (*forget)(void));

#endif
