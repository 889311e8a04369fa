/* SPDX-License-Identifier: BSD-2-Clause */
/* gone.h: is a thread that ends out of the kernel's sight? */
#ifndef SHIM_THREADS_GONE_H
#define SHIM_THREADS_GONE_H

#include <stdbool.h>
#include <stdint.h>

bool sr_thread_is_gone(int32_t tid);

/* Waits until a thread that is about to end is gone. */
void sr_thread_wait_gone(int32_t tid);

#endif
