/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/async/ends.h"

#include "shim/async/aio.h"
#include "shim/async/uring.h"
#include "shim/core/engine.h"
#include "shim/files/mapped_outputs.h"

void sr_requests_end(void)
{
	sr_uring_ends();
	sr_aio_ends();
}

void sr_process_ends(int status, void *site)
{
	sr_requests_end();
	sr_mapped_outputs_compare(site);
	sr_engine_exits(status);
}
