/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * races.h: what the cases have in common.
 *
 * Ranks 0 and 1 access the memory of rank 2, or each other's.  In the name of a case is what comes between the two
 * accesses: "racing" is nothing that orders them.
 */
#ifndef TESTS_PROGRAMS_PGAS_RACES_H
#define TESTS_PROGRAMS_PGAS_RACES_H

#include "pgas/internal.h"

#define WORDS 128 /* more than are sent inline */
#define BYTES (WORDS * sizeof(uint64_t))
#define OWNER 2

struct shared {
	uint64_t data[WORDS];
	uint64_t flag, counter, port;
	struct pgas_lock lock;
};

extern struct shared *shared;
extern uint64_t *mine, *other; /* private: WORDS each */
extern uint64_t one;

/* Each ends with a case that has no name. */
extern const struct pgas_case writes_cases[], reads_cases[], loads_cases[], requests_cases[], stores_cases[];

bool is(int rank);
void fill(uint64_t *words, uint64_t value);
/* mine to the rank's data, and back. */
void put(int rank);
void get(int rank);
/* Tells rank 1 that rank 0 has come here. */
void raise_flag(void);
/* Until the owner's counter is not 0. */
void wait_for_counter(void);
/* The wr_id of requests of this program; those of the runtime have their peer's number. */
#define OWN_REQUEST 1000u
/* Until this program's own request has completed; the runtime counts the completions of its own. */
void await_own(void);
/* A connection between ranks 0 and 1; -1 in the others. */
int meet(void);
/* A byte goes over it; waits for one. */
void tell(int fd);
void hear(int fd);

#endif
