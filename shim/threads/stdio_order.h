/* SPDX-License-Identifier: BSD-2-Clause */
/* stdio_order.h: orders what the program's threads do to stdio streams. */
#ifndef SHIM_THREADS_STDIO_ORDER_H
#define SHIM_THREADS_STDIO_ORDER_H

/*
 * Call at the event that ends the process: makes sure that each print of another thread is
 * complete or has not begun.
 */
void sr_stdio_settle(void);

#endif
