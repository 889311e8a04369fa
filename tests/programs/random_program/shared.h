/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared.h: what the parts of random_program share.
 *
 * A program is a seed. Each thread draws its steps from a sequence of its own and mixes what each
 * step brings into its state, which the later steps depend on: what a replay gets wrong somewhere
 * shows in the output, in the files or in the exit status. Threads share data under locks only.
 */
#ifndef RANDOM_PROGRAM_SHARED_H
#define RANDOM_PROGRAM_SHARED_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

struct self {
	uint64_t steps; /* the sequence of what it does: depends on the seed alone */
	uint64_t state; /* what it got so far */
	int number, depth;
	FILE *file; /* its own */
	char name[64];
};

struct step {
	const char *name;
	void (*run)(struct self *s);
	int weight; /* how often, compared with others */
};

/* The tables of the parts end with a step without a name. */
extern const struct step memory_steps[], thread_steps[], file_steps[], libc_steps[], socket_steps[],
    signal_steps[], process_steps[], ring_steps[], event_steps[], ipc_steps[], life_steps[], move_steps[], newer_steps[];

/* The next number of its sequence, below n. */
unsigned int draw(struct self *s, unsigned int n);
/* A number that also depends on what it got so far. */
unsigned int decide(struct self *s, unsigned int n);
void mix(struct self *s, uint64_t value);
void mix_bytes(struct self *s, const void *bytes, size_t n);

/* Runs so many random steps. */
void run_steps(struct self *s, int n);
/* A thread that runs so many steps, and whose end brings its state. */
struct self *new_self(struct self *parent);

/* Held for writing by those that change the environment, for reading by those that start programs.
 */
extern pthread_rwlock_t environment_lock;

void prepare_threads(void);
void prepare_signals(void);
void prepare_sockets(void);
void prepare_newer(void);

#endif
