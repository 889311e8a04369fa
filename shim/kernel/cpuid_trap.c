/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/cpuid_trap.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "logd/base/rawsys.h"
#include "logd/base/processor.h"
#include "logd/base/say.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/signals/signals.h"

#if defined(__x86_64__)

#include <asm/prctl.h>

static bool traps, same; /* same: this processor answers as the recorded one did */
static const struct sr_processor *recorded;
static struct sr_processor *here;

static long let(bool execute)
{
	return sr_syscall(SYS_arch_prctl, ARCH_SET_CPUID, execute, 0, 0, 0, 0);
}

static void ask(uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
	uint32_t known[4];

	sr_processor_ask(recorded, leaf, subleaf, known);
	memcpy(reg, known, sizeof(known));
	if (same) {
		let(true);
		sr_processor_execute(leaf, subleaf, reg);
		let(false);
		sr_processor_number(leaf, known, reg);
	}
	if (sr_self.chosen_cpu.known)
		sr_cpu_number_put(&sr_self.chosen_cpu, leaf, reg);
}

/* Warns once, before the program can use a feature that this processor lacks. */
static void warn(uint32_t leaf)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char names[256];

	if (sr_processor_lacks(recorded, here, leaf, names, sizeof(names)) &&
	    !atomic_flag_test_and_set(&said))
		sr_say("the program asks what the processor can do, and the recorded one has what "
		       "this one lacks (%s): where it uses that it ends here, by SIGILL",
		       names);
}

#define CPUID_BYTES 2

static void answer(ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	uint32_t leaf = (uint32_t)regs[REG_RAX], reg[4];

	warn(leaf);
	ask(leaf, (uint32_t)regs[REG_RCX], reg);
	regs[REG_RAX] = (greg_t)reg[0];
	regs[REG_RBX] = (greg_t)reg[1];
	regs[REG_RCX] = (greg_t)reg[2];
	regs[REG_RDX] = (greg_t)reg[3];
	regs[REG_RIP] += CPUID_BYTES;
}

/* A fault in fetching the instruction has an address; the trap has none. */
static bool on_fault(siginfo_t *info, ucontext_t *uc)
{
	const unsigned char *at = (const unsigned char *)uc->uc_mcontext.gregs[REG_RIP];

	if (info->si_code != SI_KERNEL || info->si_addr || at[0] != 0x0f || at[1] != 0xa2)
		return false;
	answer(uc);
	return true;
}

bool sr_cpuid_is_sought(void)
{
	return recorded && !traps;
}

void sr_cpuid_site(const struct sr_tsc_site *site, ucontext_t *uc)
{
	answer(uc);
}

bool sr_cpuid_begin(const struct sr_processor *table, bool traced)
{
	here = table->entries ? sr_alloc(sizeof(*here)) : NULL;
	if (!here)
		return false;
	recorded = table;
	if (traced)
		let(true);
	sr_processor_read(here);
	same = sr_processors_are_the_same(recorded, here);
	traps = !sr_signals_claim(SIGSEGV, on_fault) && !let(false);
	return traps;
}

void sr_cpuid_leave_alone(void)
{
	if (traps)
		let(true);
}

#else

bool sr_cpuid_begin(const struct sr_processor *table, bool traced)
{
	return false;
}

void sr_cpuid_leave_alone(void)
{
}

#endif
