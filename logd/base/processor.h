/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * processor.h: all that cpuid reports of a processor, as one table.
 *
 * Programs and libraries (UCX, OpenMPI, OpenBLAS, libc's memcpy and sin) choose their code by the
 * processor.  So a recording puts the table of its processor into its description ("cpuid") at its
 * start, and a replay answers from that: from the main
 * program's first instruction on (replay/host/layout/cpuid.h, shim/kernel/cpuid_trap.h).
 *
 * Any thread; nothing is allocated.
 */
#ifndef LOGD_BASE_PROCESSOR_H
#define LOGD_BASE_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SR_CPUID_ANY     UINT32_MAX /* as a subleaf: the leaf has none */
#define SR_CPUID_ENTRIES 512

/* The same in a trace and in memory. */
struct sr_cpuid {
	uint32_t leaf, subleaf;
	uint32_t reg[4]; /* eax, ebx, ecx, edx */
};

struct sr_processor {
	uint32_t entries; /* 0: not known */
	struct sr_cpuid entry[SR_CPUID_ENTRIES];
};

/* Reads the table of this processor; it is empty on machines other than x86-64. */
void sr_processor_read(struct sr_processor *p);

/* What the processor answers; p is not empty. */
void sr_processor_ask(const struct sr_processor *p, uint32_t leaf, uint32_t subleaf,
		      uint32_t reg[4]);

/* What this CPU answers now; zeros on machines other than x86-64. */
void sr_processor_execute(uint32_t leaf, uint32_t subleaf, uint32_t reg[4]);

/* Makes the bits of the answer `to` that name the CPU those of `from`, another CPU's answer. */
void sr_processor_number(uint32_t leaf, const uint32_t from[4], uint32_t to[4]);

/*
 * All that cpuid says of which CPU answers: its number, in up to three leaves, and that of its core and of its node.
 * Hypervisors leave some of them 0.
 */
struct sr_cpu_number {
	bool known;
	uint32_t basic, topology, extended, core, node;
};

/* The CPU that runs this thread, which must stay there meanwhile. */
struct sr_cpu_number sr_cpu_number_here(void);
/* The bits of the answer `to` that name the CPU become n's. */
void sr_cpu_number_put(const struct sr_cpu_number *n, uint32_t leaf, uint32_t to[4]);

/*
 * What the dynamic linker and libc get in a replay, which act on it at once: the recorded answer
 * without instructions that this processor lacks, but with those that are only slower here, and with
 * the size of the state that this processor saves.
 */
void sr_processor_ask_for_libc(const struct sr_processor *recorded, const struct sr_processor *here,
			       uint32_t leaf, uint32_t subleaf, uint32_t reg[4]);

/* Do both answer the same, but for the numbers of their CPUs? */
bool sr_processors_are_the_same(const struct sr_processor *a, const struct sr_processor *b);

/* Do both have the same vendor and features? */
bool sr_processors_are_alike(const struct sr_processor *a, const struct sr_processor *b);

/*
 * The names of instruction sets that this leaf (SR_CPUID_ANY: any leaf) reported in the recording
 * and that this processor lacks, separated by spaces, as far as there is room.  False: none.
 */
bool sr_processor_lacks(const struct sr_processor *recorded, const struct sr_processor *here,
			uint32_t leaf, char *names, size_t size);

#endif
