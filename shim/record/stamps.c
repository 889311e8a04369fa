/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/stamps.h"

#include <stdint.h>
#include <time.h>

#include "logd/base/rawsys.h"
#include "shim/core/thread.h"
#include "shim/kernel/vdso.h"

/* For so long the counter's rate is measured at first; later, since the start. */
#define MEASURED_NS 1000000
/* A few hundred milliseconds, after which the counter is compared with the clock again. */
#define SYNC_TICKS  (1u << 26)

#define BILLION 1000000000u

bool sr_stamps_on;

static bool native;
static int (*vdso_clock)(clockid_t, struct timespec *);
/* Counter and clock at the start, and the rate since. */
static uint64_t first_ticks, first_time;

static uint64_t ticks(void)
{
	return __builtin_ia32_rdtsc() >> SR_STAMP_SHIFT;
}

static uint64_t read_clock(clockid_t id)
{
	struct timespec now = {0};

	if (vdso_clock)
		vdso_clock(id, &now);
	else
		sr_sys_clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * BILLION + (uint64_t)now.tv_nsec;
}

/* How many ticks the counter has made in a second since the start. */
static uint64_t rate(uint64_t now_ticks, uint64_t now)
{
	return (uint64_t)((double)(now_ticks - first_ticks) * BILLION / (double)(now - first_time));
}

void sr_stamps_start(bool is_native)
{
	vdso_clock = sr_vdso_find_clock();
	native = is_native;
	if (native) {
		first_time = read_clock(CLOCK_REALTIME);
		first_ticks = ticks();
		while (read_clock(CLOCK_REALTIME) < first_time + MEASURED_NS)
			;
	}
	sr_stamps_on = true;
}

/* Says what time the counter shows. */
static uint32_t __attribute__((cold, noinline)) stamp_both(struct sr_thread *t, struct sr_stamp_sync *p)
{
	p->time = read_clock(CLOCK_REALTIME);
	p->ticks = ticks();
	p->hz = rate(p->ticks, p->time);
	t->stamp = t->stamp_sync = p->ticks;
	return sizeof(*p);
}

static uint32_t stamp_counter(struct sr_thread *t, union sr_stamp *p)
{
	uint64_t now = ticks();

	if (__builtin_expect(!t->stamp || now - t->stamp_sync > SYNC_TICKS, 0))
		return stamp_both(t, &p->sync);
	p->delta.ticks = (uint32_t)(now - t->stamp);
	t->stamp = now;
	return sizeof(p->delta);
}

static uint32_t stamp_clock(struct sr_thread *t, union sr_stamp *p)
{
	p->time.time = read_clock(CLOCK_REALTIME_COARSE);
	if (__builtin_expect(p->time.time == t->stamp, 1))
		return 0;
	t->stamp = p->time.time;
	return sizeof(p->time);
}

uint32_t sr_stamp(struct sr_thread *t, union sr_stamp *p)
{
	return native ? stamp_counter(t, p) : stamp_clock(t, p);
}
