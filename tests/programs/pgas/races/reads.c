/* SPDX-License-Identifier: BSD-2-Clause */
/* reads.c: a WRITE and a READ or an atomic, and atomics. */

#include "races.h"

static void write_read_racing(void)
{
	if (is(0))
		put(OWNER);
	else if (is(1))
		get(OWNER);
}

static void write_read_barrier(void)
{
	write_read_racing();
	pgas_barrier();
	if (is(0))
		get(OWNER);
}

static void write_read_ordered(void)
{
	if (is(0))
		put(OWNER);
	pgas_barrier();
	if (is(1))
		get(OWNER);
}

static void read_read(void)
{
	if (is(0) || is(1))
		get(OWNER);
}

static void atomic_atomic(void)
{
	pgas_fetch_add(OWNER, &shared->counter, 1);
}

static void atomic_write(void)
{
	if (is(0))
		pgas_fetch_add(OWNER, &shared->counter, 1);
	else if (is(1))
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
}

static void atomic_read_ordered(void)
{
	uint64_t value;

	if (is(0))
		pgas_fetch_add(OWNER, &shared->counter, 1);
	pgas_barrier();
	if (is(1))
		pgas_get(OWNER, &value, &shared->counter, sizeof(value));
}

static void write_read_flag(void)
{
	if (is(0)) {
		put(OWNER);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		get(OWNER);
	}
}

static void write_read_early_flag(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		get(OWNER);
	}
	pgas_quiet();
}

static void write_read_counter(void)
{
	if (is(0)) {
		put(OWNER);
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(1)) {
		wait_for_counter();
		get(OWNER);
	}
}

static void write_read_late_counter(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
		put(OWNER);
	} else if (is(1)) {
		wait_for_counter();
		get(OWNER);
	}
}

static void write_read_lock(void)
{
	if (is(OWNER))
		return;
	pgas_lock(OWNER, &shared->lock);
	if (is(0))
		put(OWNER);
	else
		get(OWNER);
	pgas_unlock(OWNER, &shared->lock);
}

static void atomic_write_barrier(void)
{
	if (is(0))
		pgas_fetch_add(OWNER, &shared->counter, 1);
	pgas_barrier();
	if (is(1))
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
}

static void atomic_write_flag(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
	}
}

static void write_read_socket(void)
{
	int fd = meet();

	if (is(0)) {
		put(OWNER);
		tell(fd);
	} else if (is(1)) {
		hear(fd);
		get(OWNER);
	}
}

static void write_read_early_socket(void)
{
	int fd = meet();

	if (is(0)) {
		tell(fd);
		put(OWNER);
	} else if (is(1)) {
		hear(fd);
		get(OWNER);
	}
}

const struct pgas_case reads_cases[] = {
    {"write-read-racing", write_read_racing},
    {"write-read-barrier", write_read_barrier},
    {"write-read-ordered", write_read_ordered},
    {"read-read", read_read},
    {"atomic-atomic", atomic_atomic},
    {"atomic-write", atomic_write},
    {"atomic-read-ordered", atomic_read_ordered},
    {"write-read-flag", write_read_flag},
    {"write-read-early-flag", write_read_early_flag},
    {"write-read-counter", write_read_counter},
    {"write-read-late-counter", write_read_late_counter},
    {"write-read-lock", write_read_lock},
    {"atomic-write-barrier", atomic_write_barrier},
    {"atomic-write-flag", atomic_write_flag},
    {"write-read-socket", write_read_socket},
    {"write-read-early-socket", write_read_early_socket},
    {0},
};
