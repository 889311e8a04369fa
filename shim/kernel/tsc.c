/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/tsc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/counter.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/sought.h"
#include "shim/kernel/tsc_searched.h"
#include "shim/kernel/tsc_sites.h"
#include "shim/kernel/tsc_unclear.h"
#include "shim/kernel/untrapped.h"
#include "shim/kernel/user_dispatch.h"
#include "shim/kernel/vdso.h"
#include "shim/memory/heap.h"
#include "shim/memory/images.h"
#include "shim/memory/kept_stack.h"
#include "shim/signals/signals.h"

bool sr_tsc_traps;
_Atomic bool sr_tsc_trapping;

#if defined(__x86_64__)

/*
 * Traps and system calls for the time before the instructions are searched for. A search that
 * does not find out about all of them is repeated, but ever more seldom.
 */
#define PATIENCE       32
#define PATIENCE_MAX   (1u << 20)
/* A trap costs more than a system call. But the search had better take place at a clock call. */
#define TRAP_COSTS     4
#define CALL_PREFERRED 4

static bool replaces;
static bool works;   /* the trap does: some virtual machines ignore it */
static bool testing; /* ... which is being found out */
static _Atomic uint32_t spent, patience = PATIENCE;
static _Atomic bool counter_was_last; /* a read that trapped, not a clock call */
static _Atomic uint64_t new_code;     /* how often there was some */

static long set_mode(int mode)
{
	return sr_syscall(SYS_prctl, PR_SET_TSC, mode, 0, 0, 0, 0);
}

/* ---------------------------------------------------------- all threads' modes */

/* In the signal with which a thread is asked to trap again. */
static char message;

static bool is_message(const siginfo_t *info)
{
	return info->si_code == SI_QUEUE && info->si_ptr == &message;
}

static void ask_thread(long tid)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = SIGSEGV;
	info.si_code = SI_QUEUE;
	info.si_pid = (pid_t)sr_sys_getpid();
	info.si_ptr = &message;
	sr_syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, SIGSEGV, SR_ARG(&info), 0, 0);
}

struct task {
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

static long task_number(const char *name)
{
	long n = 0;

	while (*name >= '0' && *name <= '9')
		n = n * 10 + (*name++ - '0');
	return *name ? 0 : n;
}

/* How many there are. */
static uint32_t ask_all_threads(void)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/task"),
			     O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
	long n, self = sr_sys_gettid(), tid;
	_Alignas(8) char entries[2048];
	uint32_t asked = 0;

	while (fd >= 0 && (n = sr_syscall(SYS_getdents64, fd, SR_ARG(entries), sizeof(entries), 0,
					  0, 0)) > 0) {
		for (long at = 0; at < n; at += ((struct task *)(entries + at))->length) {
			tid = task_number(((struct task *)(entries + at))->name);
			if (tid && tid != self)
				ask_thread(tid);
			asked += tid != 0;
		}
	}
	if (fd >= 0)
		sr_sys_close((int)fd);
	return asked;
}

static void trap_again(void)
{
	uint32_t asked = 0, before;

	if (!works)
		return;
	atomic_store(&sr_tsc_trapping, true);
	if (sr_self.armed)
		set_mode(PR_TSC_SIGSEGV);
	if (__libc_single_threaded)
		return;
	/* A thread that one of them is creating inherits what its creator has. */
	do {
		before = asked;
		asked = ask_all_threads();
	} while (asked > before);
}

void sr_tsc_pause(void)
{
	if (sr_tsc_traps)
		set_mode(PR_TSC_ENABLE);
}

void sr_tsc_resume(void)
{
	if (sr_tsc_traps && sr_tsc_trapping)
		set_mode(PR_TSC_SIGSEGV);
}

void sr_tsc_leave_alone(void)
{
	sr_tsc_pause();
}

void sr_tsc_forget_in_child(void)
{
	if (!sr_tsc_traps)
		return;
	sr_tsc_pause();
	sr_untrapped_stop();
	sr_tsc_sites_restore();
	sr_tsc_traps = replaces = false;
	sr_tsc_trapping = false;
}

/* ------------------------------------------------------- from traps to jumps */

NO_VECTORS static bool never_fast(struct counter_read *r)
{
	return false;
}

static void serve(struct counter_read *r)
{
	r->value = sr_tsc_read(r->pc, r->with_aux ? &r->aux : NULL);
}

/* Within a call the stack is in use, and the counter is read plainly. */
NO_VECTORS void *sr_tsc_stack(void)
{
	return sr_self.depth ? NULL : sr_self.call_stack;
}

const struct counter_handlers sr_tsc_calls = {.stack = sr_tsc_stack, .fast = never_fast, .serve = serve};

/*
 * If all are found, the trap is no longer needed: from now on each instruction faults or
 * jumps by itself.
 */
static void replace_instructions(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);
	uint64_t code = atomic_load(&new_code);
	uint32_t p = atomic_load(&patience);
	struct sr_kept_stack kept;

	sr_stack_keep(t, &kept);
	atomic_store(&spent, 0);
	if (sr_tsc_sites_find(works)) {
		if (atomic_exchange(&sr_tsc_trapping, false))
			set_mode(PR_TSC_ENABLE);
		if (atomic_load(&new_code) != code || !replaces)
			trap_again();
	} else {
		atomic_store(&patience, p < PATIENCE_MAX ? p * 8 : p);
		if (!sr_tsc_trapping)
			trap_again();
	}
	sr_stack_put_back(&kept);
	sr_leave(t, before);
}

static void spend(struct sr_thread *t, uint32_t cost, uint32_t factor)
{
	if (replaces && sr_tsc_trapping && t->armed &&
	    (uint64_t)atomic_fetch_add(&spent, cost) + cost >
		(uint64_t)atomic_load(&patience) * factor)
		replace_instructions(t);
}

/* Called when memory has become executable, before the program knows. */
static void on_code(void *addr, size_t size, int prot)
{
	int saved = errno;

	if (!replaces || !size)
		return;
	atomic_fetch_add(&new_code, 1);
	sr_tsc_searched_changes((uintptr_t)addr, size);
	atomic_store(&patience, PATIENCE);
	if (!sr_tsc_trapping &&
	    (prot & PROT_WRITE || sr_tsc_sites_may_be_in(SR_SOUGHT_COUNTER, (uintptr_t)addr, size)))
		replace_instructions(&sr_self);
	if (!(prot & PROT_WRITE))
		sr_untrapped_searches((uintptr_t)addr, size);
	errno = saved;
}

/*
 * The jumps are no longer there, but what was in their place before: instructions that fault.
 * These go, too, where the trap can take over: the process may soon be forbidden to.
 */
static void on_stop(void)
{
	sr_untrapped_stop();
	if (!replaces || !works)
		return;
	replaces = false;
	trap_again();
	sr_tsc_sites_restore();
}

/* ------------------------------------------------------------------ the counter */

static uint64_t read_plainly(uint32_t *aux)
{
	uint32_t low, high;

	if (aux)
		__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(*aux));
	else
		__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* In a thread that traps, whatever the others do. */
static uint64_t read_counter(uint32_t *aux)
{
	uint64_t count;

	if (!sr_tsc_trapping)
		return read_plainly(aux);
	set_mode(PR_TSC_ENABLE);
	count = read_plainly(aux);
	set_mode(PR_TSC_SIGSEGV);
	return count;
}

uint64_t sr_invoke_rdtsc(const struct sr_call_desc *d, uint64_t *a)
{
	return read_counter((uint32_t *)a[0]);
}

uint64_t sr_tsc_read(uintptr_t at, uint32_t *aux)
{
	const struct sr_thread *t = &sr_self;
	uint64_t a[1] = {(uintptr_t)aux};

	if (t->depth || !t->armed || sr_is_vdso((void *)at))
		return read_counter(aux);
	return sr_call(SR_CALL_rdtsc, a, (void *)at);
}

/*
 * Returns the instruction's length, or 0 if it is another instruction, perhaps of a site. A fault
 * in fetching it has an address.
 */
static unsigned int counter_instruction(const siginfo_t *info, const unsigned char *at,
					struct sr_tsc_site **site)
{
	*site = NULL;
	if (info->si_code != SI_KERNEL || info->si_addr)
		return 0;
	if (at[0] == 0x0f)
		return sr_counter_length(at, SR_COUNTER_BYTES);
	if (at[0] == PROBE_TRAP)
		*site = sr_tsc_site_at((uintptr_t)at);
	return *site ? (*site)->length : 0;
}

static void put_result(greg_t *regs, uint64_t count, const uint32_t *aux)
{
	regs[REG_RAX] = (greg_t)(uint32_t)count;
	regs[REG_RDX] = (greg_t)(count >> 32);
	if (aux)
		regs[REG_RCX] = (greg_t)*aux;
}

static bool on_fault(siginfo_t *info, ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	uintptr_t at = (uintptr_t)regs[REG_RIP];
	struct sr_thread *t = &sr_self;
	struct sr_tsc_site *site;
	uint32_t aux = 0;
	unsigned int length;

	if (testing) {
		works = true;
		set_mode(PR_TSC_ENABLE);
		return true;
	}
	if (is_message(info)) {
		t->signals.own++;
		if (sr_tsc_trapping && t->armed)
			set_mode(PR_TSC_SIGSEGV);
		return true;
	}
	if (sr_tsc_unclear_executes(info, uc)) {
		trap_again();
		return true;
	}
	length = counter_instruction(info, (const unsigned char *)at, &site);
	if (!length && !site)
		return info->si_code == SI_KERNEL && !info->si_addr && probes_trapped(uc);
	/* No call, so no place where a handler may run. */
	if (site && site->kind == SR_SOUGHT_CPUID) {
		sr_untrapped_do(site, uc);
		probes_leave(uc);
		return true;
	}
	/* Others have ended the trap. */
	if (!site && !sr_tsc_trapping) {
		set_mode(PR_TSC_ENABLE);
		return true;
	}
	if (sr_engine && sr_engine->handler_comes_first && !t->depth && t->armed &&
	    !sr_is_vdso((void *)at) && sr_engine->handler_comes_first(t))
		return true;
	if (!length) {
		sr_untrapped_do(site, uc);
		probes_leave(uc);
		return true;
	}
	put_result(regs, sr_tsc_read(at, length == SR_COUNTER_BYTES ? &aux : NULL),
		   length == SR_COUNTER_BYTES ? &aux : NULL);
	regs[REG_RIP] += length;
	if (site && replaces) {
		enum sr_heap before = sr_enter(t);

		sr_tsc_site_faulted(site);
		sr_leave(t, before);
	} else if (!t->depth) {
		spend(t, TRAP_COSTS, CALL_PREFERRED);
	}
	if (!t->depth)
		atomic_store(&counter_was_last, true);
	probes_leave(uc);
	return true;
}

int sr_tsc_start(void)
{
	int err = (int)set_mode(PR_TSC_SIGSEGV);

	set_mode(PR_TSC_ENABLE);
	sr_tsc_traps = !err;
	return err;
}

/* While there is one thread. */
static void test_trap(void)
{
	set_mode(PR_TSC_SIGSEGV);
	testing = true;
	atomic_signal_fence(memory_order_seq_cst);
	read_plainly(NULL);
	atomic_signal_fence(memory_order_seq_cst);
	testing = false;
	set_mode(PR_TSC_ENABLE);
}

static void begin(const struct counter_handlers *h)
{
	test_trap();
	replaces = h && counter_probes_start(h);
	if (replaces) {
		probes_on_stop = on_stop;
		sr_heap_on_code(on_code);
		sr_untrapped_begin();
	}
	if (works) {
		sr_tsc_trapping = true;
		set_mode(PR_TSC_SIGSEGV);
	} else if (replaces) {
		replace_instructions(&sr_self);
	}
}

void sr_tsc_begin(const struct counter_handlers *h)
{
	int err = sr_tsc_traps ? sr_signals_claim(SIGSEGV, on_fault) : 0;

	if (err) {
		sr_tsc_traps = false;
		sr_say("the time-stamp counter does not trap after all (%s)",
		       strerrorname_np(-err));
	}
	if (sr_tsc_traps)
		begin(h);
}

/*
 * A clock is about to be read. A program that compares the counter with a clock reads one
 * right after the other, so what takes long waits for the second of two clock calls: it then
 * counts for both.
 */
static void replace_between(struct sr_thread *t)
{
	if (atomic_exchange(&counter_was_last, false)) {
		atomic_fetch_add(&spent, 1);
		return;
	}
	if (sr_tsc_jumps_due)
		sr_tsc_sites_make_jumps();
	spend(t, 1, 1);
}

/* Uses the system call if the vDSO's code would trap. */
static long get_clock(long nr, uint64_t a, uint64_t b)
{
	if (sr_tsc_jumps_due || sr_tsc_trapping)
		replace_between(&sr_self);
	return sr_tsc_trapping ? sr_syscall(nr, (long)a, (long)b, 0, 0, 0, 0)
			       : sr_vdso_call(nr, a, b);
}

#else

/* The only counter there that a program can read is cntvct, and nothing makes that trap. */
int sr_tsc_start(void)
{
	return -ENOSYS;
}

void sr_tsc_begin(const struct counter_handlers *h)
{
}

void sr_tsc_forget_in_child(void)
{
}

uint64_t sr_tsc_read(uintptr_t at, uint32_t *aux)
{
	return 0;
}

static long get_clock(long nr, uint64_t a, uint64_t b)
{
	return sr_vdso_call(nr, a, b);
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

uint64_t sr_invoke_clock_gettime(const struct sr_call_desc *d, uint64_t *a)
{
	long err;

	if (!sr_trap_is_on)
		return sr_real(d, a);
	err = get_clock(d->nr, a[0], a[1]);
	if (!err)
		return 0;
	errno = (int)-err;
	return (uint64_t)-1;
}

uint64_t sr_invoke_timespec_get(const struct sr_call_desc *d, uint64_t *a)
{
	if (!sr_tsc_traps || (int)a[1] != TIME_UTC)
		return sr_real(d, a);
	return get_clock(SYS_clock_gettime, CLOCK_REALTIME, a[0]) ? 0 : TIME_UTC;
}
