/* SPDX-License-Identifier: BSD-2-Clause */
/* test_phases.c: threads part where they compute and others wait for that, not where they wait, nor for short phases. */
#include <stdio.h>

#include "shim/core/phases.h"

#define MS 1000000ll

static int tests, failed;

static void result(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, what);
	failed += !good;
}

static int64_t now = 1000 * MS;

/* So much of the time is lost. */
static void lose(uintptr_t site, int64_t ms)
{
	for (int64_t i = 0; i < 5 * ms; i++) {
		now += MS / 5;
		sr_phase_costs(site, MS / 5, now);
	}
}

/* So often a thread is stopped there, and computes; of the time, one part in `of` is lost. */
static void compute(uintptr_t site, int stops, int64_t ms, int64_t of)
{
	for (int i = 0; i < stops; i++) {
		lose(site, ms);
		now += (of - 1) * ms * MS;
		sr_phase_computes(site, now);
	}
}

int main(void)
{
	const uintptr_t known = 0x5000 | SR_PHASE_KNOWN;

	lose(0x1000, 100);
	result(!sr_phase_parts(0x1000) && !sr_phase_is_doubtful(0x1000), "no thread parts before that is begun");
	sr_phases_start();

	lose(0x1000, 100);
	result(!sr_phase_parts(0x1000) && sr_phase_is_doubtful(0x1000), "much is lost, but why is not known");
	sr_phase_computes(0x1000, now);
	result(!sr_phase_parts(0x1000), "one that was stopped and computed once may be slow: it does not part");
	compute(0x1000, 5, 10, 1);
	result(sr_phase_parts(0x1000), "where threads were stopped again and again, and computed, they part");
	result(!sr_phase_parts(0x2000), "not behind another call");

	lose(0x2000, 100);
	sr_phase_waits(0x2000);
	result(!sr_phase_parts(0x2000) && !sr_phase_is_doubtful(0x2000), "a thread that waits for others does not part");

	compute(0x3000, 1, 2, 1);
	result(!sr_phase_parts(0x3000), "a little computing is no reason");
	lose(0x3000, 50);
	result(!sr_phase_parts(0x3000) && sr_phase_is_doubtful(0x3000), "nor is much, of which nobody knows whether it still is computing");
	compute(0x3000, 30, 2, 3);
	result(sr_phase_parts(0x3000), "what is lost where threads compute adds up");
	sr_phase_waits(0x3000);
	lose(0x3000, 50);
	result(sr_phase_is_doubtful(0x3000), "until one was found waiting");

	compute(0x8000, 1000, 5, 100);
	result(!sr_phase_parts(0x8000), "where one part in a hundred of the time is lost, no thread parts, however long it goes on");

	for (int i = 0; i < 20; i++) {
		lose(0x9000, 10);
		sr_phase_is_ours(0x9000);
		lose(0x9000, 10);
		sr_phase_computes(0x9000, now);
	}
	result(!sr_phase_parts(0x9000), "nor where it is the shim that takes the time");

	for (int i = 0; i < 20; i++)
		sr_phase_took(0x1000, MS / 100, now);
	result(!sr_phase_parts(0x1000), "where phases are short, threads part no more");
	sr_phase_took(0x1000, 50 * MS, now);
	result(sr_phase_parts(0x1000), "where they are long, they do");

	lose(known, 10);
	result(sr_phase_parts(known), "where it is known that threads compute, it is not found out first");
	sr_phase_waits(known);
	result(!sr_phase_parts(known), "nor believed of one that waits");

	lose(0x6000, 10);
	sr_phase_shares(0x6000);
	lose(0x6000, 100);
	sr_phase_computes(0x6000, now);
	result(!sr_phase_parts(0x6000) && !sr_phase_is_doubtful(0x6000), "in code with atomics no thread parts, whatever is lost");
	result(!sr_phase_is_to_be_told(0x6000) && sr_phase_is_to_be_told(0x7000) && !sr_phase_is_to_be_told(known),
	       "that is found out once, and not where it is known that threads compute");
	printf("1..%d\n", tests);
	return failed > 0;
}
