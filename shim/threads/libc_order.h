/* SPDX-License-Identifier: BSD-2-Clause */
/* libc_order.h: orders what threads do to what libc keeps for all of them. */
#ifndef SHIM_THREADS_LIBC_ORDER_H
#define SHIM_THREADS_LIBC_ORDER_H

/*
 * Finds all functions before the program runs: a later lookup would clear the message that
 * dlerror has for the program.
 */
void sr_libc_order_look_up(void);

/* What the lock of a call of libc_lock is for. */
const char *sr_libc_lock_name(int lock);

#endif
