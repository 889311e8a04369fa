/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.c: when requests are executed.
 *
 * With a model of time (SOFTDEV_TIME=LATENCY,BANDWIDTH in ns and bytes per us) a request has its
 * effect when it would have arrived, and its completion is there when the answer would have.  Calls
 * of any process execute what is due by then, and the driver process what is due while nobody
 * calls.  Without a model everything is due at once.
 *
 * With SOFTDEV_SEED=N or =time requests are executed later, a few at a time and from randomly
 * chosen queue pairs: completions of different queue pairs then come in any order.
 *
 * With SOFTDEV_THREAD=N a thread executes them, with random pauses between them, like a real
 * device: memory changes while the program makes no call.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "driver.h"
#include "fabric.h"
#include "raw.h"

static uint64_t faults; /* 0: none */
static bool has_thread; /* ... of the device's, that executes requests */

/* Callers do what is due within this time; the driver need not be woken for it. */
#define DRIVER_SLACK 500000u

/* --------------------------------------------------------------- settings */

static void *thread(void *unused);

void sd_read_settings(void)
{
	const char *seed = getenv("SOFTDEV_SEED"), *by_thread = getenv("SOFTDEV_THREAD"),
		   *time = getenv("SOFTDEV_TIME"), *link = getenv("SOFTDEV_LINK"), *arming = getenv("SOFTDEV_ARMING");
	struct sd_fabric *f = sd_fabric;
	pthread_t t;
	char *end;

	f->infiniband = link && !strcmp(link, SD_INFINIBAND);
	f->reports_later_only = arming && !strcmp(arming, "later");
	if (time && strcmp(time, "none")) {
		f->latency = strtoull(time, &end, 0);
		f->bytes_per_us = *end == ',' ? strtoull(end + 1, NULL, 0) : 0;
	}
	seed = by_thread ? by_thread : seed;
	if (!seed)
		return;
	f->latency = f->bytes_per_us = 0;
	f->random_state = strtoull(seed, NULL, 0);
	if (!strcmp(seed, "time") && getrandom(&f->random_state, sizeof(f->random_state), 0) < 0)
		f->random_state = 1;
	if (by_thread)
		has_thread = !pthread_create(&t, NULL, thread, NULL);
}

bool sd_fails(uint64_t name, uint64_t n, uint32_t one_in)
{
	static bool read;
	uint64_t h;

	if (!read) {
		const char *text = getenv("SOFTDEV_FAULTS");

		faults = text ? strtoull(text, NULL, 0) : 0;
		read = true;
	}
	/* The choice is random, but does not depend on other objects: the name is what the program
	 * calls the object. */
	h = (faults ^ name << 20 ^ n) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	return faults && !((uint32_t)(h >> 32) % one_in);
}

/* ------------------------------------------------------- active queue pairs */

static uint32_t place(const struct sd_qp *qp)
{
	return (uint32_t)(qp - sd_fabric->qps) + 1;
}

void sd_activate(struct sd_qp *qp)
{
	struct sd_fabric *f = sd_fabric;

	if (qp->active)
		return;
	qp->active = true;
	qp->prev = 0;
	qp->next = f->active;
	if (f->active)
		f->qps[f->active - 1].prev = place(qp);
	__atomic_store_n(&f->active, place(qp), __ATOMIC_RELAXED);
	f->next_due = 0; /* it is computed when somebody looks */
}

void sd_deactivate(struct sd_qp *qp)
{
	struct sd_fabric *f = sd_fabric;

	if (!qp->active)
		return;
	qp->active = false;
	if (qp->prev)
		f->qps[qp->prev - 1].next = qp->next;
	else
		__atomic_store_n(&f->active, qp->next, __ATOMIC_RELAXED);
	if (qp->next)
		f->qps[qp->next - 1].prev = qp->prev;
}

/* ------------------------------------------------------------------ times */

static uint64_t wire_time(uint64_t bytes)
{
	uint64_t rate = sd_fabric->bytes_per_us;

	return rate ? bytes * 1000 / rate : 0;
}

/* One request after the other leaves the port, or brings its answer back. */
static uint64_t occupy(uint64_t *until, uint64_t now, uint64_t bytes)
{
	*until = (*until > now ? *until : now) + wire_time(bytes);
	return *until;
}

static void set_times(struct sd_qp *qp, struct sd_send *s, uint64_t bytes, uint64_t now)
{
	struct sd_process *p = &sd_fabric->processes[qp->process - 1];
	uint64_t latency = sd_fabric->latency;

	s->effect = s->done = now;
	if (!now)
		return;
	if (s->opcode == IBV_WR_BIND_MW || s->opcode == IBV_WR_LOCAL_INV)
		return;
	if (s->opcode == IBV_WR_RDMA_READ) {
		s->done = occupy(&p->reads_until, now, bytes) + 2 * latency;
		return;
	}
	s->effect = occupy(&p->sends_until, now, bytes) + latency;
	s->done = qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND ? s->effect + latency
									 : s->effect - latency;
	if (s->done < s->effect)
		s->done = s->effect; /* unreliable ones complete when they have left; they have
					their effect then, too */
}

void sd_posted(struct sd_qp *qp, struct sd_send *s, uint64_t bytes, uint64_t now)
{
	struct sd_fabric *f = sd_fabric;
	uint64_t due;

	set_times(qp, s, bytes, now);
	sd_activate(qp);
	due = sd_due(qp);
	if (due < f->next_due)
		f->next_due = due;
	if (sd_has_driver && now + DRIVER_SLACK < f->driver_wakes_at)
		sd_wake_driver();
}

/* --------------------------------------------------------------- progress */

uint32_t sd_chance(uint32_t below)
{
	uint64_t *x = &sd_fabric->random_state;

	/* xorshift64 */
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return (uint32_t)(*x >> 32) % below;
}

static struct sd_qp *first(void)
{
	return sd_fabric->active ? &sd_fabric->qps[sd_fabric->active - 1] : NULL;
}

static struct sd_qp *after(const struct sd_qp *qp)
{
	return qp->next ? &sd_fabric->qps[qp->next - 1] : NULL;
}

static void rest_if_idle(struct sd_qp *qp)
{
	if (qp->sq_done == qp->sq_tail)
		sd_deactivate(qp);
}

/* Executes a step of a randomly chosen queue pair, or of the next one that can make one. */
static bool random_step(void)
{
	struct sd_qp *qp;
	uint32_t n = 0, skip;

	for (qp = first(); qp; qp = after(qp))
		n++;
	skip = n ? sd_chance(n) : 0;
	for (qp = first(); skip; skip--)
		qp = after(qp);
	for (; n; n--) {
		if (sd_step(qp, 0)) {
			rest_if_idle(qp);
			return true;
		}
		qp = after(qp) ? after(qp) : first();
	}
	return false;
}

void sd_random_steps(uint32_t n)
{
	while (n && random_step())
		n--;
}

/* One round over the active queue pairs; true if anything was done. next_due becomes right. */
static bool go_round(uint64_t now)
{
	uint64_t next = SD_NEVER, due;
	bool any = false;
	struct sd_qp *qp = first(), *following;

	for (; qp; qp = following) {
		while (sd_step(qp, now))
			any = true;
		/* What follows is read now: a step may end other queue pairs, and this one. */
		following = after(qp);
		if (!qp->active)
			continue;
		rest_if_idle(qp);
		due = sd_due(qp);
		if (due < next)
			next = due;
	}
	__atomic_store_n(&sd_fabric->next_due, next, __ATOMIC_RELAXED);
	return any;
}

void sd_finish(void)
{
	while (go_round(0))
		;
}

void sd_progress(uint64_t now)
{
	struct sd_fabric *f = sd_fabric;

	if (!f->active || has_thread)
		return;
	if (f->random_state) {
		if (!sd_has_driver)
			sd_random_steps(sd_chance(4));
		return;
	}
	/* Without times one queue pair's progress may be what another one waits for. */
	if (!now)
		sd_finish();
	else if (now >= f->next_due)
		go_round(now);
}

/* This thread belongs to the device, and its system calls must not look like the program's. */
static void *thread(void *unused)
{
	struct timespec pause = {0};

	for (;;) {
		sd_lock();
		sd_random_steps(sd_chance(6));
		pause.tv_nsec = sd_chance(4) ? sd_chance(3000) : sd_chance(200000);
		sd_unlock();
		syscall(SYS_nanosleep, &pause, NULL);
	}
	return NULL;
}
