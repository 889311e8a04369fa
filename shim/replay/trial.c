/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/trial.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/exposed.h"
#include "shim/memory/heap.h"
#include "shim/replay/own.h"

/* A program that waits comes back to its load before it has made so many calls. */
#define CALLS_MOST 100000
/* Between two calls that show the time. */
#define STEP_NS 1000

static struct {
	struct sr_watch_trial asked; /* length 0: there is no question */
	char old[SR_WATCH_TRIAL_MOST];
	bool is_old_known, has_begun;
	uint64_t calls;
	struct timespec time;
	uint64_t counter;
	char (*pages)[PAGE]; /* two: values that were changed; the bytes lie in two pages at most */
} trial;

void sr_trial_start(const struct sr_watch_trial *question)
{
	void *pages = question->length ? sr_sys_mmap(sr_heap_place_mapping(2 * PAGE), 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				       : NULL;

	if (!pages || sr_sys_is_error(pages))
		return;
	trial.pages = pages;
	trial.asked = *question;
	if (question->wanted_pc) {
		memcpy(trial.old, question->bytes, sizeof(question->bytes));
		trial.is_old_known = question->length <= sizeof(question->bytes);
	}
}

bool sr_trial_has_begun(void)
{
	return trial.has_begun && !trial.asked.wanted_pc;
}

bool sr_trial_awaits_access(const struct sr_thread *t)
{
	return trial.has_begun && trial.asked.wanted_pc && t->number == trial.asked.thread;
}

void __attribute__((noreturn)) sr_trial_end(void)
{
	for (;;)
		sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_CUT, 0, 0, 0, 0, 0);
}

/* ------------------------------------------------------------------ the load */

static char *bytes_asked(void)
{
	return sr_exposed_backing((void *)trial.asked.address);
}

static bool overlaps(const struct sr_exposed_value *v)
{
	return v->addr < trial.asked.address + trial.asked.length && trial.asked.address < v->addr + v->length;
}

static void keep_old(const struct sr_exposed_value *values, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (overlaps(&values[i])) {
			memcpy(trial.old, bytes_asked(), trial.asked.length);
			trial.is_old_known = true;
			return;
		}
}

static bool is_load_asked(const struct sr_thread *t, uint64_t fault)
{
	return t->number == trial.asked.thread && t->sn == trial.asked.sn && fault == trial.asked.fault;
}

/* The value enters, but for the bytes in question. */
static void change_value(struct sr_exposed_value *v, char *copy)
{
	const uint64_t from = v->addr > trial.asked.address ? v->addr : trial.asked.address;
	const uint64_t v_end = v->addr + v->length, end = trial.asked.address + trial.asked.length;

	memcpy(copy, v->data, v->length);
	memcpy(copy + (from - v->addr), trial.old + (from - trial.asked.address), (v_end < end ? v_end : end) - from);
	v->data = copy;
}

void sr_trial_values(const struct sr_thread *t, uint64_t fault, struct sr_exposed_value *values, uint32_t values_n)
{
	int copies = 0;

	if (!trial.asked.length || sr_trial_has_begun())
		return;
	if (!trial.asked.wanted_pc)
		keep_old(values, values_n);
	if (!trial.has_begun && !is_load_asked(t, fault))
		return;
	/* Nothing is known to have been there before. */
	if (!trial.is_old_known)
		sr_trial_end();
	memcpy(bytes_asked(), trial.old, trial.asked.length);
	for (uint32_t i = 0; i < values_n; i++)
		if (overlaps(&values[i]) && copies < 2)
			change_value(&values[i], trial.pages[copies++]);
	trial.has_begun = true;
}

bool sr_trial_wants(const struct sr_watch_access *a)
{
	return trial.has_begun && a->pc == trial.asked.wanted_pc && a->thread == trial.asked.thread &&
	       a->address < trial.asked.wanted_end && trial.asked.wanted_begin < a->address + a->length;
}

bool sr_trial_asks(const struct sr_watch_access *load)
{
	return trial.has_begun && load->pc == trial.asked.pc && load->thread == trial.asked.thread &&
	       load->address < trial.asked.address + trial.asked.length && trial.asked.address < load->address + load->length;
}

/* ------------------------------------------------------------ calls behind it */

void sr_trial_clock(enum sr_call_number n, const uint64_t *a, uint64_t result)
{
	if (!trial.asked.length)
		return;
	if (n == SR_CALL_rdtsc)
		trial.counter = result;
	else if (n == SR_CALL_clock_gettime && !result && a[1])
		memcpy(&trial.time, (const void *)a[1], sizeof(trial.time));
	else if (n == SR_CALL_gettimeofday && !result && a[0])
		trial.time = (struct timespec){((const struct timeval *)a[0])->tv_sec, ((const struct timeval *)a[0])->tv_usec * 1000};
}

static void step(void)
{
	trial.counter += STEP_NS;
	trial.time.tv_nsec += STEP_NS;
	if (trial.time.tv_nsec >= 1000000000) {
		trial.time.tv_nsec -= 1000000000;
		trial.time.tv_sec++;
	}
}

uint64_t sr_trial_call(const struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	const struct sr_call_desc *d = &sr_calls[n];
	const bool pauses = d->flags & SR_CALL_PAUSES, is_poll = d->order & SR_ORDER_IDLE;

	if (t->number != trial.asked.thread)
		sr_replay_sleep();
	if (!(pauses || is_poll) || ++trial.calls > CALLS_MOST)
		sr_trial_end();
	step();
	if (n == SR_CALL_rdtsc)
		return trial.counter;
	if (n == SR_CALL_clock_gettime && a[1])
		memcpy((void *)a[1], &trial.time, sizeof(trial.time));
	else if (n == SR_CALL_gettimeofday && a[0])
		*(struct timeval *)a[0] = (struct timeval){trial.time.tv_sec, trial.time.tv_nsec / 1000};
	if (pauses)
		return 0;
	errno = EAGAIN;
	return (uint64_t)(int64_t)d->idle;
}
