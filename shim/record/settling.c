/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/settling.h"

#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/files/last_outputs.h"
#include "shim/record/serial.h"
#include "shim/record/streams.h"
#include "shim/threads/stdio_order.h"
#include "shim/files/small_inputs.h"

/*
 * Others may need the run token to end what they print, so this thread releases it meanwhile.
 */
static void settle_stdio(struct sr_thread *t, bool serial)
{
	if (serial)
		sr_serial_releases(t);
	sr_stdio_settle();
	if (serial)
		sr_serial_resumes(t);
}

/*
 * The gate is closed by who has the run token: a thread that finds it open releases the token
 * briefly, after which nobody is woken who waits for it.
 */
uint64_t sr_record_settle(struct sr_thread *t, bool stdio)
{
	bool serial = sr_serial && sr_threaded && !t->ended;
	uint64_t event = 0;

	sr_small_input_end(t);
	if (stdio)
		settle_stdio(t, serial);
	if (!sr_threaded)
		return 0;
	if (serial)
		sr_serial_arrive(t, NULL);
	sr_outputs_close(t);
	if (serial)
		sr_serial_release(t, SR_TOKEN_FOR_LONG);
	sr_outputs_await(t);
	if (serial)
		event = sr_serial_regain(t);
	return event ? event : sr_draw_event();
}
