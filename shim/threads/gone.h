/* SPDX-License-Identifier: BSD-2-Clause */
/* gone.h: has the kernel removed a thread that was ending? */
#ifndef SHIM_THREADS_GONE_H
#define SHIM_THREADS_GONE_H

#include <stdbool.h>
#include <stdint.h>

bool sr_thread_is_gone(int32_t tid);

void sr_thread_wait_gone(int32_t tid);

#endif
