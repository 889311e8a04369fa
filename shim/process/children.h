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

#include <stdbool.h>
#include <stdint.h>
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

/*
 * Around each fork by libc's fork, in the program's thread, outside of sections.  ends() comes in the parent and in the child,
 * where begins() returned true.
 */
void sr_children_order(bool (*begins)(void), void (*ends)(void));

/* fork, called from there. */
pid_t sr_children_fork(void *site);

/* vfork of a recorded process. */
pid_t sr_children_vfork(void);

/*
 * Around each copy that is made of the process, on the thread that makes it: no other thread must be changing the exposed
 * memory then.  In the child, after() comes when it is known whether the child is recorded.
 */
void sr_children_watch_memory(void (*before)(void), void (*after)(bool child));

/* Around a call that copies the process without libc's fork; the child calls sr_children_begin() instead of the second. */
void sr_children_copy_begins(void);
void sr_children_copy_ended(void);
/* Before either of them: the child's stack, if it is another one, must not be exposed. */
void sr_children_stack(uintptr_t end);
/* The call that made the child is forgotten there. */
void sr_children_begin(void);

#endif
