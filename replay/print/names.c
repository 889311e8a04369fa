/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/names.h"

#include <stddef.h>

#include <sreplay/trace.h>

const char *sr_record_name(uint16_t kind)
{
	static const char *const names[] = {
	    [SR_REC_PAD] = "pad",
	    [SR_REC_REPEAT] = "repeat",
	    [SR_REC_CYCLE] = "cycle",
	    [SR_REC_EXIT] = "exit",
	    [SR_REC_MARK] = "mark",
	    [SR_REC_HEAP] = "heap",
	    [SR_REC_CLOCK] = "clock",
	    [SR_REC_SIGNAL] = "signal",
	    [SR_REC_EXEC] = "exec",
	    [SR_REC_EXPOSED] = "exposed",
	    [SR_REC_REGION] = "region",
	    [SR_REC_EXPOSED_COUNTS] = "exposed_counts",
	    [SR_REC_RUN_TOKEN] = "run_token",
	    [SR_REC_CONNECTION] = "connection",
	    [SR_REC_EXIT_BEGINS] = "exit_begins",
	    [SR_REC_STAMP] = "stamp",
	    [SR_REC_FORK] = "fork",
	    [SR_REC_INPUT] = "input",
	    [SR_REC_PLACE] = "place",
	    [SR_REC_CHECK] = "check",
	    [SR_REC_BEHIND] = "behind",
	    [SR_REC_PICKED] = "picked",
	    [SR_REC_CHANGED] = "changed",
	    [SR_REC_PASSED] = "passed",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}
