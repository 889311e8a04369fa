/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/tsc.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>

#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/hooks.h"
#include "shim/memory/images.h"
#include "shim/kernel/user_dispatch.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/kernel/vdso.h"

bool sr_tsc_traps;

/* Uses the system call if the vDSO's code would trap. */
uint64_t sr_invoke_clock_gettime(const struct sr_call_desc *d, uint64_t *a)
{
	long err;

	if (!sr_trap_is_on)
		return sr_real(d, a);
	err = sr_tsc_traps ? sr_syscall(d->nr, (long)a[0], (long)a[1], 0, 0, 0, 0)
			   : sr_vdso_call(d->nr, a[0], a[1]);
	if (!err)
		return 0;
	errno = (int)-err;
	return (uint64_t)-1;
}

uint64_t sr_invoke_timespec_get(const struct sr_call_desc *d, uint64_t *a)
{
	if (!sr_tsc_traps || (int)a[1] != TIME_UTC)
		return sr_real(d, a);
	return sr_sys_clock_gettime(CLOCK_REALTIME, (struct timespec *)a[0]) ? 0 : TIME_UTC;
}

#if defined(__x86_64__)

static long set_mode(int mode)
{
	return sr_syscall(SYS_prctl, PR_SET_TSC, mode, 0, 0, 0, 0);
}

void sr_tsc_pause(void)
{
	if (sr_tsc_traps)
		set_mode(PR_TSC_ENABLE);
}

void sr_tsc_resume(void)
{
	if (sr_tsc_traps)
		set_mode(PR_TSC_SIGSEGV);
}

void sr_tsc_leave_alone(void)
{
	sr_tsc_pause();
}

static uint64_t read_counter(uint32_t *aux)
{
	uint32_t low, high;

	set_mode(PR_TSC_ENABLE);
	if (aux)
		__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(*aux));
	else
		__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	set_mode(PR_TSC_SIGSEGV);
	return (uint64_t)high << 32 | low;
}

uint64_t sr_invoke_rdtsc(const struct sr_call_desc *d, uint64_t *a)
{
	return read_counter((uint32_t *)a[0]);
}

/*
 * Returns the instruction's length, or 0 if it is another instruction. A fault in fetching
 * it has an address.
 */
static int counter_instruction(const siginfo_t *info, const unsigned char *at, bool *with_aux)
{
	if (info->si_code != SI_KERNEL || info->si_addr)
		return 0;
	*with_aux = at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9;
	if (*with_aux)
		return 3;
	return at[0] == 0x0f && at[1] == 0x31 ? 2 : 0;
}

static bool on_fault(siginfo_t *info, ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	void *at = (void *)regs[REG_RIP];
	struct sr_thread *t = &sr_self;
	uint32_t aux = 0;
	uint64_t count, a[1];
	bool with_aux;
	int length = counter_instruction(info, at, &with_aux);

	if (!length)
		return false;
	a[0] = with_aux ? (uintptr_t)&aux : 0;
	if (t->depth || !t->armed || sr_is_vdso(at))
		count = read_counter((uint32_t *)a[0]);
	else
		count = sr_call(SR_CALL_rdtsc, a, at);
	regs[REG_RAX] = (greg_t)(uint32_t)count;
	regs[REG_RDX] = (greg_t)(count >> 32);
	if (with_aux)
		regs[REG_RCX] = (greg_t)aux;
	regs[REG_RIP] += length;
	return true;
}

int sr_tsc_start(void)
{
	int err = (int)set_mode(PR_TSC_SIGSEGV);

	set_mode(PR_TSC_ENABLE);
	sr_tsc_traps = !err;
	return err;
}

void sr_tsc_begin(void)
{
	int err = sr_tsc_traps ? sr_signals_claim(SIGSEGV, on_fault) : 0;

	if (err) {
		sr_tsc_traps = false;
		sr_say("the time-stamp counter does not trap after all (%s)",
		       strerrorname_np(-err));
	}
	sr_tsc_resume();
}

#else

/* The only counter there that a program can read is cntvct, and nothing makes that trap. */
int sr_tsc_start(void)
{
	return -ENOSYS;
}

void sr_tsc_begin(void)
{
}

void sr_tsc_pause(void)
{
}

void sr_tsc_resume(void)
{
}

void sr_tsc_leave_alone(void)
{
}

uint64_t sr_invoke_rdtsc(const struct sr_call_desc *d, uint64_t *a)
{
	return 0;
}

#endif
