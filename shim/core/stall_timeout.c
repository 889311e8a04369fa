/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/stall_timeout.h"

#include <stdio.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"

/*
 * The limit if the thread neither computes, nor sleeps, nor waits for a processor: it waits for a disk, or there is no /proc.
 */
#define LONG_NS 5000000000ll
#define ASLEEP  3
/* Between two looks at it no more time counts: the machine, or the process, may have been stopped. */
#define STEP_NS 20000000ll
#define GONE    INT64_MAX /* the thread's time if it has ended */

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts = {0};

	if (sr_sys_clock_gettime(clock, &ts))
		return GONE;
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int64_t sr_stall_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t sr_stall_own_time(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The CPU time of a thread of this process; its clock is numbered as the kernel does it. */
static int64_t time_used(int32_t tid)
{
	return clock_ns((clockid_t)((~(uint32_t)tid << 3) | 6));
}

/* The thread's state in /proc; 0: not known. */
static char state_of(int32_t tid)
{
	char path[48], text[128];
	long fd, got;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return 0;
	got = sr_sys_read((int)fd, text, sizeof(text));
	sr_sys_close((int)fd);
	/* The state follows the name, which may contain any character. */
	for (long i = got - 2; i > 0; i--)
		if (text[i - 1] == ')' && text[i] == ' ')
			return text[i + 1];
	return 0;
}

void sr_stall_begin(struct sr_stall *p, int32_t tid)
{
	*p = (struct sr_stall){.checked = sr_stall_now(), .used = time_used(tid), .tid = tid};
}

int64_t sr_stall_used(const struct sr_stall *p)
{
	int64_t used = time_used(p->tid);

	return used == GONE ? 0 : used - p->used;
}

static void count_time(struct sr_stall *p)
{
	int64_t now = sr_stall_now(), passed = now - p->checked;

	p->checked = now;
	p->passed += passed < STEP_NS ? passed : STEP_NS;
}

bool sr_stall_ends(struct sr_stall *p, int64_t ns)
{
	int64_t used;

	count_time(p);
	if (p->passed < ns)
		return false;
	used = time_used(p->tid);
	p->computes = used != GONE && used - p->used >= ns;
	if (used != GONE && !p->computes && !sr_stall_sleeps(p) && (p->runs || p->passed < LONG_NS))
		return false;
	p->went_on = p->went_on ? p->went_on : used;
	return true;
}

bool sr_stall_sleeps(struct sr_stall *p)
{
	char state = state_of(p->tid);

	p->runs = state == 'R';
	/* One that waits for a disk goes on by itself, and so does one that waits for a lock of the shim's. */
	p->asleep = state == 'S' && !sr_lock_sleeps(p->tid) ? p->asleep + 1 : 0;
	return p->asleep >= ASLEEP;
}

bool sr_stall_goes_on(struct sr_stall *p, int64_t ns)
{
	int64_t used = time_used(p->tid);

	if (used - p->went_on < ns)
		return false;
	p->went_on = used;
	return true;
}

bool sr_stall_computes(const struct sr_stall *p)
{
	return p->computes;
}
