/* SPDX-License-Identifier: BSD-2-Clause */
/* libc_order.h: orders what threads do to what libc keeps for all of them. */
#ifndef SHIM_THREADS_LIBC_ORDER_H
#define SHIM_THREADS_LIBC_ORDER_H

/*
 * Finds all functions before the program runs: a later lookup would clear the message that
 * dlerror has for the program.  From here on forks are ordered, too.
 */
void sr_libc_order_look_up(void);

/* The thread is about to wait for a child, in pclose perhaps: others go on. */
void sr_libc_order_waits(void);

/*
 * Around pthread_create, which takes the dynamic linker's lock: that must not be held by a thread
 * in dlopen that comes later in the recorded order.
 */
void sr_libc_order_create_begins(void);
void sr_libc_order_create_ends(void);

/* What the lock of a call of libc_lock is for. */
const char *sr_libc_lock_name(int lock);

#endif
