/* SPDX-License-Identifier: BSD-2-Clause */
/* writes.c: two WRITEs of the same memory. */
#include <stdio.h>
#include <unistd.h>

#include "races.h"

static void write_write_racing(void)
{
	if (is(0) || is(1))
		put(OWNER);
}

/* Whose bytes stay is what the program puts out. */
static void write_write_shown(void)
{
	write_write_racing();
	pgas_barrier();
	if (is(OWNER))
		printf("rank %d's stay\n", (int)shared->data[0] - 1);
}

static void write_write_barrier(void)
{
	if (is(0))
		put(OWNER);
	pgas_barrier();
	if (is(1))
		put(OWNER);
}

static void write_write_flag(void)
{
	if (is(0)) {
		put(OWNER);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		put(OWNER);
	}
}

/* The flag goes to another rank than the data, whose completion nobody awaits. */
static void write_write_early_flag(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		put(OWNER);
	}
	pgas_quiet();
}

static void write_write_counter(void)
{
	if (is(0)) {
		put(OWNER);
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(1)) {
		while (!pgas_fetch_add(OWNER, &shared->counter, 0))
			;
		put(OWNER);
	}
}

static void write_write_late_counter(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
		put(OWNER);
	} else if (is(1)) {
		while (!pgas_fetch_add(OWNER, &shared->counter, 0))
			;
		put(OWNER);
	}
}

static void write_write_lock(void)
{
	if (is(OWNER))
		return;
	pgas_lock(OWNER, &shared->lock);
	put(OWNER);
	pgas_unlock(OWNER, &shared->lock);
}

/* Only who had the lock first puts the two in order. */
static void write_write_beside_locks(void)
{
	if (is(0))
		put(OWNER);
	if (is(1))
		usleep(50000);
	if (!is(OWNER)) {
		pgas_lock(OWNER, &shared->lock);
		pgas_unlock(OWNER, &shared->lock);
	}
	if (is(1))
		put(OWNER);
}

/* Rank 1 goes on when rank 0 has had the lock, which it finds in what the lock protects. */
static void write_write_lock_value(void)
{
	uint64_t found = 0;

	if (is(0)) {
		pgas_lock(OWNER, &shared->lock);
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
		put(OWNER);
		pgas_unlock(OWNER, &shared->lock);
	}
	while (is(1) && !found) {
		pgas_lock(OWNER, &shared->lock);
		pgas_get(OWNER, &found, &shared->counter, sizeof(found));
		pgas_unlock(OWNER, &shared->lock);
	}
	if (is(1))
		put(OWNER);
}

static void write_write_same_value(void)
{
	fill(mine, 7);
	if (is(0) || is(1))
		put(OWNER);
}

static void write_write_other_words(void)
{
	if (is(0) || is(1))
		pgas_put(OWNER, &shared->data[pgas.rank * WORDS / 2], mine, BYTES / 2);
}

static void write_write_pipelined(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		pgas_start_put(OWNER, shared->data, other, BYTES);
	}
	pgas_quiet();
}

static void write_write_socket(void)
{
	int fd = meet();

	if (is(0)) {
		put(OWNER);
		tell(fd);
	} else if (is(1)) {
		hear(fd);
		put(OWNER);
	}
}

static void write_write_early_socket(void)
{
	int fd = meet();

	if (is(0)) {
		tell(fd);
		put(OWNER);
	} else if (is(1)) {
		hear(fd);
		put(OWNER);
	}
}

const struct pgas_case writes_cases[] = {
    {"write-write-racing", write_write_racing},
    {"write-write-shown", write_write_shown},
    {"write-write-barrier", write_write_barrier},
    {"write-write-flag", write_write_flag},
    {"write-write-early-flag", write_write_early_flag},
    {"write-write-counter", write_write_counter},
    {"write-write-late-counter", write_write_late_counter},
    {"write-write-lock", write_write_lock},
    {"write-write-beside-locks", write_write_beside_locks},
    {"write-write-lock-value", write_write_lock_value},
    {"write-write-same-value", write_write_same_value},
    {"write-write-other-words", write_write_other_words},
    {"write-write-pipelined", write_write_pipelined},
    {"write-write-socket", write_write_socket},
    {"write-write-early-socket", write_write_early_socket},
    {0},
};
