/* SPDX-License-Identifier: BSD-2-Clause */
/* stdio_order.h: the order of what the program's threads do to streams of stdio. */
#ifndef SHIM_THREADS_STDIO_ORDER_H
#define SHIM_THREADS_STDIO_ORDER_H

/* At the event that ends the process: what other threads print is out, or has not begun. */
void sr_stdio_settle(void);

#endif
