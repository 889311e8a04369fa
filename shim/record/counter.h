/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counter.h: records a read of the time-stamp counter by a jump (shim/exposed/probe/counter.h).
 *
 * What is written is what the general path of a call writes (call.c), in fewer instructions
 * and without vector registers, which are the program's. Whatever is not usual goes that way.
 */
#ifndef SHIM_RECORD_COUNTER_H
#define SHIM_RECORD_COUNTER_H

#include "shim/exposed/probe/counter.h"

extern const struct counter_handlers sr_record_counter;

#endif
