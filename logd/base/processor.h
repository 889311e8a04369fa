/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * processor.h: what cpuid tells of a processor: all of it, in one table.
 *
 * Programs and libraries go other ways on another processor (UCX, OpenMPI, OpenBLAS, libc's
 * own choice of memcpy and sin).  So a recording takes the table of its processor once, at
 * its start, into its description (as "cpuid"), and a replay answers from it where the
 * instruction can be made to trap: from the main program's first instruction on
 * (replay/host/start/layout.h), then by shim/kernel/cpuid_trap.h.
 *
 * The recorder's and the replay's, and the command's.
 */
#ifndef LOGD_BASE_PROCESSOR_H
#define LOGD_BASE_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SR_CPUID_ANY     UINT32_MAX /* a leaf that does not look at ecx */
#define SR_CPUID_ENTRIES 512

/* In a trace as in memory, little-endian. */
struct sr_cpuid {
	uint32_t leaf, subleaf;
	uint32_t reg[4]; /* eax, ebx, ecx, edx */
};

struct sr_processor {
	uint32_t entries; /* 0: not known */
	struct sr_cpuid entry[SR_CPUID_ENTRIES];
};

/* Of the processor that the thread runs on; nothing on other machines than x86-64. */
void sr_processor_read(struct sr_processor *p);

/* What it answers; p is known. */
void sr_processor_ask(const struct sr_processor *p, uint32_t leaf, uint32_t subleaf,
		      uint32_t reg[4]);

/*
 * What the dynamic linker and libc are told in a replay, who act on it at once: as recorded,
 * but for instructions that the processor here does not have; and the size of the state that
 * they save is what it is here.
 */
void sr_processor_ask_for_libc(const struct sr_processor *recorded, const struct sr_processor *here,
			       uint32_t leaf, uint32_t subleaf, uint32_t reg[4]);

/* Do both have the same vendor and features? */
bool sr_processors_are_alike(const struct sr_processor *a, const struct sr_processor *b);

/*
 * The names of instruction sets that this leaf (SR_CPUID_ANY: any) told of in the recording
 * and that are not here, separated by spaces, as far as there is room; false: there are none.
 */
bool sr_processor_lacks(const struct sr_processor *recorded, const struct sr_processor *here,
			uint32_t leaf, char *names, size_t size);

#endif
