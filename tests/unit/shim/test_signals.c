/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program whose signals are shadowed sees what it would see without the shim. Each case
 * runs twice, in separate processes: once with the kernel's calls, and once with the shim's
 * while both signals are claimed. Output and ending must be equal. The second time, faults
 * of a claim come in between, at any place.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <dlfcn.h>

#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"
#include "shim/core/hooks.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/exposed.h"

/* heap_stub.c has the shim's heap and sr_self. */

void *sr_next(struct sr_next_function *next)
{
	return dlsym(RTLD_NEXT, next->name);
}

uint64_t sr_real(const struct sr_call_desc *d, const uint64_t *a)
{
	return (uint64_t)-1;
}

void sr_say(const char *format, ...)
{
}

const struct sr_engine *sr_engine;

bool sr_exposed_call_interrupted(void)
{
	return false;
}

void sr_exposed_call_resumes(bool interrupted)
{
}

uint32_t probes_handler_begins(void)
{
	return 0;
}

void probes_handler_ends(uint32_t guards)
{
}

void probes_enter(ucontext_t *uc)
{
}

void probes_guard_begin(struct probes_guard *g)
{
}

void probes_guard_end(const struct probes_guard *g)
{
}

void probes_guard_drop(void)
{
}

void sr_exposed_give_up(void *addr, size_t length)
{
}

void sr_exposed_thread_ends(void)
{
}

bool probes_is_section(const ucontext_t *uc)
{
	return false;
}

void breakpoint_interrupt_at_probe(void)
{
}

/* ------------------------------------------------- bare, and by way of the shim */

static bool shadowed;

/* Does what happens at the end of an intercepted call. */
static uint64_t ended(uint64_t result)
{
	if (sr_self.signals.waiting)
		sr_signals_take(&sr_self, SR_SIGNAL_AFTER);
	return result;
}

static int sigaction_(int signo, const struct sigaction *act, struct sigaction *old)
{
	uint64_t a[] = {(uint64_t)signo, (uint64_t)act, (uint64_t)old};

	return shadowed ? (int)ended(sr_invoke_sigaction(NULL, a)) : sigaction(signo, act, old);
}

static int sigprocmask_(int how, const sigset_t *set, sigset_t *old)
{
	uint64_t a[] = {(uint64_t)how, (uint64_t)set, (uint64_t)old};

	return shadowed ? (int)ended(sr_invoke_sigprocmask(NULL, a)) : sigprocmask(how, set, old);
}

static int sigaltstack_(const stack_t *stack, stack_t *old)
{
	uint64_t a[] = {(uint64_t)stack, (uint64_t)old};

	return shadowed ? (int)ended(sr_invoke_sigaltstack(NULL, a)) : sigaltstack(stack, old);
}

static __sighandler_t signal_(int signo, __sighandler_t handler)
{
	uint64_t a[] = {(uint64_t)signo, (uint64_t)handler};

	return shadowed ? (__sighandler_t)sr_invoke_signal(NULL, a) : signal(signo, handler);
}

/* A page that the claim opens for a while, as for an exposed region; claim_fault() faults in it. */
static volatile char *claimed_page;
static volatile int claim_faults;

static bool claim(siginfo_t *info, ucontext_t *uc)
{
	if ((char *)info->si_addr != claimed_page)
		return false;
	claim_faults++;
	/* Use as much stack as a fault in an exposed region. */
	volatile char room[16 << 10];
	room[0] = room[sizeof(room) - 1] = 1;
	mprotect((void *)claimed_page, 4096, PROT_READ | PROT_WRITE);
	return room[0];
}

static bool refuse(siginfo_t *info, ucontext_t *uc)
{
	return false;
}

static void claim_fault(void)
{
	int before = claim_faults, saved = errno;

	if (!shadowed)
		return;
	mprotect((void *)claimed_page, 4096, PROT_NONE);
	errno = 77;
	(void)*claimed_page;
	if (claim_faults != before + 1 || errno != 77)
		_exit(99);
	errno = saved;
}

/* -------------------------------------------------------------------- what is said */

static char *said;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	va_list ap;

	claim_fault();
	va_start(ap, format);
	vsprintf(said + strlen(said), format, ap);
	va_end(ap);
}

static sigjmp_buf back;
static int times;

static void set(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigaction_(signo, &act, NULL);
}

static void __attribute__((noinline)) fault(uintptr_t at)
{
	*(volatile int *)at = 1;
}

static uint64_t blocked(void)
{
	sigset_t now;
	uint64_t mask;

	sigprocmask_(SIG_BLOCK, NULL, &now);
	memcpy(&mask, &now, sizeof(mask));
	return mask;
}

static void change(int how, int signo)
{
	sigset_t some;

	sigemptyset(&some);
	sigaddset(&some, signo);
	sigprocmask_(how, &some, NULL);
}

/* ------------------------------------------------------------------------- cases */

static void no_handler(void)
{
	fault(16);
}

static void ignored(void)
{
	signal_(SIGSEGV, SIG_IGN);
	raise(SIGSEGV);
	say("a signal that is sent is ignored;");
	fault(16);
	say("a fault is not;");
}

static void sent_without_handler(void)
{
	kill(getpid(), SIGSEGV);
}

static void sigsys_without_handler(void)
{
	raise(SIGSYS);
}

static void jump_back(int signo, siginfo_t *info, void *context)
{
	say("signal %d, code %d, at %p, mask %lx;", signo, info->si_code, info->si_addr, blocked());
	siglongjmp(back, 1);
}

static void recovers(void)
{
	set(SIGSEGV, jump_back, 0);
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			fault(16 + (uintptr_t)i);
		else
			say("back, mask %lx;", blocked());
}

static void recovers_once_without_mask(void)
{
	set(SIGSEGV, jump_back, 0);
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 0))
			fault(16 + (uintptr_t)i);
		else
			say("back, mask %lx;", blocked());
}

static void recovers_in_own_handler(void)
{
	set(SIGSEGV, jump_back, SA_NODEFER);
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 0))
			fault(16 + (uintptr_t)i);
}

static void fault_again(int signo, siginfo_t *info, void *context)
{
	say("in it;");
	if (times++ < 3)
		fault(8);
	_exit(5);
}

static void faults_in_handler(void)
{
	set(SIGSEGV, fault_again, 0);
	fault(16);
}

static void faults_in_handler_that_may(void)
{
	set(SIGSEGV, fault_again, SA_NODEFER);
	fault(16);
}

static void blocked_fault(void)
{
	set(SIGSEGV, jump_back, 0);
	change(SIG_BLOCK, SIGSEGV);
	say("mask %lx;", blocked());
	fault(16);
}

static void note(int signo, siginfo_t *info, void *context)
{
	say("signal %d, code %d, value %d, mask %lx;", signo, info->si_code,
	    info->si_value.sival_int, blocked());
}

static void blocked_and_sent(void)
{
	set(SIGSEGV, note, 0);
	change(SIG_BLOCK, SIGSEGV);
	sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 5});
	sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 6});
	say("sent;");
	change(SIG_UNBLOCK, SIGSEGV);
	say("unblocked, mask %lx;", blocked());
}

static void reset_at_once(void)
{
	set(SIGSEGV, jump_back, (int)SA_RESETHAND);
	if (!sigsetjmp(back, 1))
		fault(16);
	fault(16);
}

static void tells_what_was_set(void)
{
	struct sigaction act = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;

	sigfillset(&act.sa_mask);
	for (int signo = 1; signo < 32; signo++) {
		memset(&old, 0, sizeof(old));
		say("%d", sigaction_(signo, &act, &old));
		say(" %p %x %lx,", (void *)old.sa_sigaction, old.sa_flags,
		    *(unsigned long *)&old.sa_mask);
		say("%d", sigaction_(signo, NULL, &old));
		say(" %d %x %lx %d;", old.sa_sigaction == note, old.sa_flags,
		    *(unsigned long *)&old.sa_mask, old.sa_restorer != NULL);
	}
	say("%d ", (int)((void *)signal_(SIGSYS, SIG_DFL) == (void *)note));
	say("%d", sigaction_(SIGKILL, &act, NULL));
	say(" %d;", errno);
}

static const char *which_stack(const void *p, const stack_t *s)
{
	if (s->ss_sp && (const char *)p >= (char *)s->ss_sp &&
	    (const char *)p < (char *)s->ss_sp + s->ss_size)
		return "the alternate";
	return "the other";
}

static stack_t alternate;

static void tell_stack(int signo, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	stack_t now;
	int local, result = sigaltstack_(NULL, &now);

	say("%d on %s, %d flags %x size %zu;", signo, which_stack(&local, &alternate), result,
	    now.ss_flags, now.ss_size);
	say("context: %d %x;", uc->uc_stack.ss_sp == alternate.ss_sp, uc->uc_stack.ss_flags & ~1);
	errno = 0;
	say("set: %d", sigaltstack_(&alternate, NULL));
	say(" %d;", errno);
	if (times++ < 2)
		raise(SIGUSR2);
	if (signo == SIGSEGV)
		siglongjmp(back, 1);
}

static void set_alternate(size_t size, int flags)
{
	/* A guard area that a handler without enough room would run into. */
	char *p = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(p + 4096, size, PROT_READ | PROT_WRITE);
	alternate = (stack_t){.ss_sp = p + 4096, .ss_size = size, .ss_flags = flags};
	say("altstack %d;", sigaltstack_(&alternate, NULL));
}

static void on_alternate_stack(void)
{
	stack_t old, bad = {.ss_sp = &bad, .ss_size = 64}, none = {.ss_flags = SS_DISABLE};

	set_alternate(64 << 10, 0);
	set(SIGSEGV, tell_stack, SA_ONSTACK);
	set(SIGUSR1, tell_stack, SA_ONSTACK);
	set(SIGUSR2, tell_stack, SA_ONSTACK);
	raise(SIGUSR1);
	if (!sigsetjmp(back, 1))
		fault(16);
	set(SIGUSR1, tell_stack, 0);
	raise(SIGUSR1);
	say("small: %d", sigaltstack_(&bad, NULL));
	say(" %d;", errno);
	bad.ss_flags = 1234;
	say("wrong: %d", sigaltstack_(&bad, NULL));
	say(" %d;", errno);
	say("none: %d", sigaltstack_(&none, &old));
	say(" %d %zu;", old.ss_flags, old.ss_size);
	say("%d", sigaltstack_(NULL, &old));
	say(" %d %zu;", old.ss_flags, old.ss_size);
	set(SIGUSR1, tell_stack, SA_ONSTACK);
	raise(SIGUSR1);
}

static void disarmed_stack(void)
{
	set_alternate(64 << 10, (int)(1u << 31));
	set(SIGUSR1, tell_stack, SA_ONSTACK);
	set(SIGUSR2, tell_stack, 0);
	raise(SIGUSR1);
	raise(SIGUSR1);
}

static int __attribute__((noinline)) overflow(int n)
{
	volatile char room[4096];

	room[0] = (char)n;
	return n < 0 ? 0 : overflow(n + 1) + room[0];
}

static void count_and_jump(int signo, siginfo_t *info, void *context)
{
	say("%d overflow, handled on %s;", ++times, which_stack(&signo, &alternate));
	siglongjmp(back, 1);
}

static void overflows(void)
{
	set_alternate(16 << 10, 0);
	set(SIGSEGV, count_and_jump, SA_ONSTACK);
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			overflow(0);
}

static void overflows_without_stack(void)
{
	set(SIGSEGV, count_and_jump, 0);
	overflow(0);
}

static void touch(int signo, siginfo_t *info, void *context)
{
	claim_fault();
	times++;
}

/* The stack has just the size that the handler's own frame needs. */
static void claims_on_a_tiny_stack(void)
{
	set_alternate(4096, 0);
	set(SIGUSR1, touch, SA_ONSTACK);
	for (int i = 0; i < 100; i++)
		raise(SIGUSR1);
	said[0] = 0;
	say("%d", times);
}

/*
 * Like a coroutine library, makes a stack its own: a handler on that stack is left and
 * returned to.
 */
static jmp_buf in_stack, in_main;

static void begin_coroutine(int signo, siginfo_t *info, void *context)
{
	volatile char local = 1;

	if (!setjmp(in_stack))
		return;
	for (;;) {
		claim_fault();
		say("coroutine %d, on %s;", local++, which_stack((char *)&local, &alternate));
		if (!setjmp(in_stack))
			longjmp(in_main, 1);
	}
}

static void coroutine(void)
{
	stack_t none = {.ss_flags = SS_DISABLE};
	volatile int i = 0;

	set_alternate(64 << 10, 0);
	set(SIGUSR1, begin_coroutine, SA_ONSTACK);
	raise(SIGUSR1);
	sigaltstack_(&none, NULL);
	for (; i < 3; i = i + 1) {
		if (!setjmp(in_main))
			longjmp(in_stack, 1);
		say("main;");
	}
}

static void skip(int signo, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	double clobbered = 1.5;

	__asm__ volatile("movsd %0, %%xmm7\n\tstd\n\tcld" : : "m"(clobbered) : "xmm7");
	uc->uc_mcontext.gregs[REG_RIP] += 2;
	uc->uc_mcontext.gregs[REG_RBX] += 1;
}

static void registers(void)
{
	uint64_t rbx, r12, xmm;

	set(SIGSEGV, skip, 0);
	for (int i = 0; i < 3; i++) {
		__asm__ volatile("mov $1234, %%ebx\n\t"
				 "mov $77, %%r12d\n\t"
				 "movq %%r12, %%xmm7\n\t"
				 "mov $99, %%r12d\n\t"
				 "xor %%eax, %%eax\n\t"
				 "mov %%eax, (%%rax)\n\t"
				 "mov %%rbx, %0\n\t"
				 "mov %%r12, %1\n\t"
				 "movq %%xmm7, %2\n\t"
				 : "=&r"(rbx), "=&r"(r12), "=&r"(xmm)
				 :
				 : "rax", "rbx", "r12", "xmm7", "memory");
		say("%ld %ld %ld;", rbx, r12, xmm);
	}
}

static void change_own_mask(int signo, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	say("was %lx;", *(unsigned long *)&uc->uc_sigmask);
	sigaddset(&uc->uc_sigmask, SIGSEGV);
	sigaddset(&uc->uc_sigmask, SIGUSR2);
	sigdelset(&uc->uc_sigmask, SIGTERM);
}

static void mask_in_context(void)
{
	struct sigaction act = {.sa_sigaction = change_own_mask, .sa_flags = SA_SIGINFO};

	change(SIG_BLOCK, SIGTERM);
	sigfillset(&act.sa_mask);
	sigaction_(SIGUSR1, &act, NULL);
	raise(SIGUSR1);
	say("is %lx;", blocked());
	change(SIG_SETMASK, SIGUSR2);
	say("is %lx;", blocked());
	set(SIGUSR1, note, 0);
	raise(SIGUSR1);
	say("is %lx;", blocked());
}

static void masks(void)
{
	sigset_t all, old;

	sigfillset(&all);
	sigprocmask_(SIG_BLOCK, &all, &old);
	say("%lx, %lx;", *(unsigned long *)&old, blocked());
	say("%d", sigprocmask_(17, &all, NULL));
	say(" %d;", errno);
	change(SIG_UNBLOCK, SIGSEGV);
	say("%lx;", blocked());
	sigprocmask_(SIG_SETMASK, &old, NULL);
	say("%lx;", blocked());
}

static void nested(int signo, siginfo_t *info, void *context)
{
	say("%d(", signo);
	if (signo < SIGRTMIN + 5)
		raise(signo + 1);
	say(")%lx;", blocked());
}

static void nested_signals(void)
{
	set_alternate(64 << 10, 0);
	for (int i = 0; i <= 5; i++)
		set(SIGRTMIN + i, nested, i % 2 ? SA_ONSTACK : 0);
	raise(SIGRTMIN);
	say("%lx", blocked());
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define CASE(f)                                                                                    \
	{                                                                                          \
#f, f                                                                              \
	}
    CASE(no_handler),
    CASE(ignored),
    CASE(sent_without_handler),
    CASE(sigsys_without_handler),
    CASE(recovers),
    CASE(recovers_once_without_mask),
    CASE(recovers_in_own_handler),
    CASE(faults_in_handler),
    CASE(faults_in_handler_that_may),
    CASE(blocked_fault),
    CASE(blocked_and_sent),
    CASE(reset_at_once),
    CASE(tells_what_was_set),
    CASE(on_alternate_stack),
    CASE(disarmed_stack),
    CASE(overflows),
    CASE(overflows_without_stack),
    CASE(claims_on_a_tiny_stack),
    CASE(coroutine),
    CASE(registers),
    CASE(mask_in_context),
    CASE(masks),
    CASE(nested_signals),
};

static int run_case(size_t i, bool with_shim, char *text)
{
	pid_t child;
	int status;

	said = text;
	text[0] = 0;
	child = fork();
	if (child) {
		waitpid(child, &status, 0);
		return status & ~0x80; /* whether it leaves a core is the limit's to say */
	}
	alarm(20);
	shadowed = with_shim;
	sr_self.numbered = true;
	if (with_shim)
		sr_signals_start(false);
	if (with_shim && (sr_signals_claim(SIGSEGV, refuse) || sr_signals_claim(SIGSEGV, claim) ||
			  sr_signals_claim(SIGSYS, refuse)))
		_exit(98);
	cases[i].run();
	_exit(7);
}

int main(void)
{
	const size_t n = sizeof(cases) / sizeof(*cases);
	char *texts =
	    mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *bare = texts, *with_shim = texts + (1 << 16);
	int failures = 0;

	claimed_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("1..%zu\n", n);
	for (size_t i = 0; i < n; i++) {
		int expected = run_case(i, false, bare), got = run_case(i, true, with_shim);
		bool same = expected == got && !strcmp(bare, with_shim);

		if (!same) {
			printf("# bare, status %x: %s\n# shim, status %x: %s\n", expected, bare,
			       got, with_shim);
			failures++;
		}
		printf("%sok %zu - %s\n", same ? "" : "not ", i + 1, cases[i].name);
		fflush(stdout);
	}
	return failures != 0;
}
