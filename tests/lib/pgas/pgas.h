/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pgas.h: a small runtime on plain verbs for programs with a partitioned global address space.
 *
 * Every rank has a heap that all ranks can reach. Allocation is symmetric: all ranks make the same
 * calls in the same order, and a rank names an object of another rank by the address of its own
 * copy. pgasrun starts the ranks; each process is one rank, has one thread, and calls the runtime
 * only between pgas_start and pgas_end.
 *
 * A program reads what peers write with plain loads; where it waits for a value it uses the
 * volatile accessors below. Words that atomics change are changed by atomics only, even by their
 * own rank: a device's atomics are not atomic with respect to the CPU's.
 */
#ifndef PGAS_H
#define PGAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PGAS_MAX_RANKS 64

/* Ends the process with a message on any failure, because a rank could not continue. */
void pgas_start(size_t shared_bytes, size_t private_bytes);
/*
 * Waits for all ranks; returns `right` as an exit status. Prints statistics if
 * PGAS_STATISTICS is set.
 */
int pgas_end(bool right);

int pgas_rank(void);
int pgas_ranks(void);

/* Zeroed, aligned to 64 bytes, never freed. */
void *pgas_shared(size_t bytes);
/* Registered, too, but other ranks cannot reach it. */
void *pgas_private(size_t bytes);

/* -------------------------------------------------------------- transfers */

/*
 * `shared` is this rank's address of a shared object. The local side may be any memory.
 * These return when the put is in place or the bytes of the get have arrived.
 */
void pgas_put(int rank, void *shared, const void *local, size_t bytes);
void pgas_get(int rank, void *local, const void *shared, size_t bytes);

/*
 * The same without waiting: complete after pgas_quiet(). The local side must be shared or
 * private memory of the runtime and must not change until then. Puts of a rank to one peer
 * arrive in order.
 */
void pgas_start_put(int rank, void *shared, const void *local, size_t bytes);
void pgas_start_get(int rank, void *local, const void *shared, size_t bytes);
void pgas_quiet(void);

/* These return the previous value. */
uint64_t pgas_fetch_add(int rank, uint64_t *shared, uint64_t number);
uint64_t pgas_compare_swap(int rank, uint64_t *shared, uint64_t expected, uint64_t desired);

/* -------------------------------------------------------- synchronisation */

/* A barrier in two halves: what a rank did before its notify is in place after any rank's wait. */
void pgas_notify(void);
void pgas_wait(void);
void pgas_barrier(void);

/* Lies in shared memory, zeroed, and belongs to the rank whose copy is used. */
struct pgas_lock {
	uint64_t holder;
};

void pgas_lock(int rank, struct pgas_lock *lock);
bool pgas_try_lock(int rank, struct pgas_lock *lock);
void pgas_unlock(int rank, struct pgas_lock *lock);

/*
 * State of a loop that polls something that another rank changes: spins for a while, then yields.
 */
struct pgas_patience {
	int spins;
};

void pgas_relax(struct pgas_patience *patience);

static inline uint64_t pgas_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void pgas_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Waits until a peer has put at least `value` there. */
void pgas_wait_for(const uint64_t *word, uint64_t value);

/* -------------------------------------------------------------- reductions */

/* All ranks call these and get the same result: contributions are added in the order of ranks. */
uint64_t pgas_sum(uint64_t mine);
uint64_t pgas_max(uint64_t mine);
double pgas_sum_double(double mine);
/* all[rank] becomes each rank's `mine`. */
void pgas_gather(uint64_t mine, uint64_t all[]);

/* ------------------------------------------------------------ for programs */

/*
 * Argument `n` as a number, or `preset`; ends the process with `usage` if it is not a valid
 * number.
 */
long pgas_argument(int argc, char **argv, int n, long preset, long least, const char *usage);

struct pgas_case {
	const char *name;
	void (*run)(void);
};

/*
 * The case that the first argument names.  Without an argument it prints the names of all and ends the process; with
 * another one it ends it with status 2.
 */
const struct pgas_case *pgas_case(int argc, char **argv, const struct pgas_case *cases, size_t n);

/* Prints a printf-formatted result followed by ": right" or ": wrong"; returns `right`. */
bool pgas_result(bool right, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A stream of numbers that a seed determines (splitmix64). */
uint64_t pgas_random(uint64_t *state);

_Noreturn void pgas_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
