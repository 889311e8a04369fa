/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * simulator.h: faults and a NIC's memory, for programs that run the exposed-region module
 * without the library.
 */
#ifndef TESTS_EXPOSED_SIMULATOR_H
#define TESTS_EXPOSED_SIMULATOR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/exposed/page/mappings.h"
#include "shim/exposed/exposed.h"

/* Returns the same numbers for a seed in each run. */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((*state >> 33) % n);
}

static inline void take_no_faults(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};

	sigaction(SIGSEGV, &sa, NULL);
}

/* A fault that is not the module's ends the program. */
static inline void take_fault(int sig, siginfo_t *info, void *uc)
{
	if (!sr_exposed_fault(info, uc))
		take_no_faults();
}

static inline void take_faults(void)
{
	struct sigaction sa = {.sa_sigaction = take_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGSEGV, &sa, NULL);
}

/*
 * A NIC's pinned pages follow wherever the module moves them; a thread needs a second
 * mapping instead.
 */
static inline bool map_for_nic(size_t bytes, volatile uint64_t **user, volatile uint64_t **dma)
{
	int fd = memfd_create("memory", 0);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		return false;
	*user = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*dma = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *user != MAP_FAILED && *dma != MAP_FAILED;
}

#endif
