/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * children.h: processes that the program creates.
 *
 * The engine says which children are recorded (engine.h). The others run as they would without the
 * shim. The parent's recording contains the calls that created them and that waited for them. A
 * replay creates no children, because their process ids and how they ended are in the trace; but a
 * replay of a child replays its parent up to the fork, forks, and goes on as the child.
 */
#ifndef SHIM_PROCESS_CHILDREN_H
#define SHIM_PROCESS_CHILDREN_H

#include <sys/types.h>

/*
 * The engine calls this once. The child of a fork, which has one thread, calls forget,
 * which makes the engine leave that process alone. Locks of the shim's heap are free then;
 * other locks may be held for ever.
 */
int sr_children_start(void (*forget)(void));

/*
 * A process that is not recorded makes this call of a verbs library.  If it is a child of one that
 * is, its communication is missing in the trace: that is said, once for all children of that process.
 */
void sr_children_uses_verbs(const char *call);

/* The recording has ended: children have nothing to forget. */
void sr_children_stop(void);

/*
 * Called in the program's thread that forks, before the fork and in a child that is recorded or replayed,
 * outside of sections: they may make calls of their own.
 */
void sr_children_watch(void (*before)(void *site), void (*in_child)(void *site));

/* vfork of a recorded process. */
pid_t sr_children_vfork(void);

/* In a child that was made without fork: the same, and the call that made it is forgotten. */
void sr_children_become_program(void);

#endif
