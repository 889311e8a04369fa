/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/engine.h"

const struct sr_engine *sr_engine;
bool sr_waiting;

void sr_engine_no_note(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
}

void sr_engine_no_clock(struct sr_clock_moment moment, const struct sr_order *orders, uint32_t n)
{
}

int sr_engine_no_fd(int fd)
{
	return -1;
}

bool sr_engine_no_heap(struct sr_thread *t)
{
	return false;
}

bool sr_engine_any_signal(struct sr_thread *t, struct sr_signal_payload *signal)
{
	return true;
}

void sr_engine_ignore(struct sr_thread *t)
{
}

void sr_engine_ignore_start(void)
{
}
