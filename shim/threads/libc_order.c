/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libc_order.c: threads come in a replay to what libc keeps for all of them in the recorded order.
 *
 * libc locks its random numbers, environment, time zone, locales, libraries and streams without
 * a call that the shim could intercept.  Which thread is first decides what each gets, and what is
 * allocated or read under such a lock belongs to the thread that had it.  So the functions of
 * libc_order.def are wrapped.  In a process with threads they take the order in one of these ways:
 *     MEMORY   The call waits for nobody and makes no system call of its own.  It counts as one
 *              operation on the heap (heap_runs.h), with all that it allocates: cheap, since only
 *              a change of the thread is recorded.  NUMBER: the same, the result is a double.
 *              VARIABLE: the same, and some variables have a value that the environment does not have (openmp.h).
 *     ENVIRONMENT
 *              MEMORY, with the lock of ZONES, whose functions read the variable TZ.
 *     ZONES, LOCALES, ...
 *              A lock of the shim's for each subject; taking it is a recorded call, libc_lock.
 *     UNLOADING
 *              LIBRARIES, and the verbs libraries stay loaded (libraries.h).
 *     FILE_N, STDIN, STDOUT, STDERR
 *              The stream's own lock, by flockfile, which is a recorded call.  LAST_N: the same,
 *              but the stream does not exist afterwards.
 * Then the real function runs, in a replay as well, and what it asks the kernel is recorded.
 *
 * A lock of the shim's may be held for longer than libc would hold its own (a name server does
 * not answer).  A thread that has waited for it for a second goes on without it, and so do all
 * others until its holder releases it.  The record says that the thread did not get the lock.
 */
#include "shim/threads/libc_order.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/memory/heap_order.h"
#include "shim/process/children.h"
#include "shim/threads/libraries.h"
#include "shim/threads/openmp.h"

#define PATIENCE_NS 1000000000ll

enum way {
	ZONES,
	LOCALES,
	MESSAGES,
	LIBRARIES,
	NAMES,
	LOG,
	SEMAPHORES,
	CHILDREN,
	LOCKS, /* so many subjects have a lock of the shim's */
	MEMORY = LOCKS,
	VARIABLE,
	NUMBER,
	ENVIRONMENT,
	UNLOADING,
	FILE_0,
	FILE_1,
	FILE_2,
	FILE_3,
	FILE_4,
	LAST_0,
	STDIN,
	STDOUT,
	STDERR,
};

/* ------------------------------------------------------ the shim's locks */

static struct lock {
	_Atomic uintptr_t owner; /* the address of its struct sr_thread; 0: free */
	_Atomic uint32_t taken; /* how often */
	uint32_t depth;          /* a handler or a callback may call such a function again */
	_Atomic bool is_slow;    /* a thread has waited for the owner for too long */
} locks[LOCKS];

static bool try_lock(struct lock *l)
{
	uintptr_t nobody = 0, self = (uintptr_t)&sr_self;

	if (atomic_load(&l->owner) != self &&
	    !atomic_compare_exchange_strong(&l->owner, &nobody, self))
		return false;
	if (!l->depth++)
		atomic_fetch_add(&l->taken, 1);
	return true;
}

static void unlock(struct lock *l)
{
	if (atomic_load(&l->owner) != (uintptr_t)&sr_self || --l->depth)
		return;
	atomic_store(&l->is_slow, false);
	atomic_store(&l->owner, 0);
}

static void wait_a_moment(int tries)
{
	const struct timespec a_moment = {.tv_nsec = tries < 100 ? 10000 : 200000};

	sr_sys_nanosleep(&a_moment);
}

static int64_t now_ns(void)
{
	struct timespec now;

	sr_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, SR_ARG(&now), 0, 0, 0, 0);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Returns whether the lock was taken. */
uint64_t sr_invoke_libc_lock(const struct sr_call_desc *d, uint64_t *a)
{
	struct lock *l = &locks[a[0]];
	uint32_t taken = 0;
	int64_t begun = 0;

	for (int tries = 0; !try_lock(l); tries++) {
		if (atomic_load(&l->is_slow))
			return false;
		/* It is one holder that takes too long, not many one after the other. */
		if (!begun || atomic_load(&l->taken) != taken)
			begun = now_ns();
		taken = atomic_load(&l->taken);
		if (now_ns() - begun > PATIENCE_NS) {
			atomic_store(&l->is_slow, true);
			return false;
		}
		wait_a_moment(tries);
	}
	return true;
}

/* Its last owner releases it soon: in the recording it had done so by now. */
void sr_replayed_libc_lock(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	for (int tries = 0; result && !try_lock(&locks[a[0]]); tries++)
		wait_a_moment(tries);
}

void sr_libc_order_waits(void)
{
	unlock(&locks[CHILDREN]);
}

const char *sr_libc_lock_name(int lock)
{
	static const char *const names[LOCKS] = {
	    [ZONES] = "zones",           [LOCALES] = "locales", [MESSAGES] = "messages",
	    [LIBRARIES] = "libraries",   [NAMES] = "names",     [LOG] = "log",
	    [SEMAPHORES] = "semaphores", [CHILDREN] = "children",
	};

	return names[lock];
}

/* Returns whether the lock was taken. */
static bool take_lock(enum way subject, void *site)
{
	uint64_t a[1] = {subject};

	return sr_call(SR_CALL_libc_lock, a, site);
}

void sr_libc_order_create_begins(void)
{
	sr_self.create_is_ordered = take_lock(LIBRARIES, __builtin_return_address(0));
}

void sr_libc_order_create_ends(void)
{
	if (sr_self.create_is_ordered)
		unlock(&locks[LIBRARIES]);
	sr_self.create_is_ordered = false;
}

/* From glibc 2.41 on, fork takes the lock of popen's list, which a thread in popen has while it waits for its turn. */
static bool fork_begins(void)
{
	return sr_threaded && take_lock(CHILDREN, __builtin_return_address(0));
}

static void fork_ends(void)
{
	unlock(&locks[CHILDREN]);
}

static void release(void *lock)
{
	unlock(lock);
}

/* ------------------------------------------------------------- functions */

typedef uint64_t word;

/* The names one behind the other, and their ways: each function has a number, its place here. */
#define ORDER(what, function) #function "\0"
static const char names[] =
#include "shim/threads/libc_order.def"
    ;
#undef ORDER

#define ORDER(what, function) what,
static const uint8_t ways[] = {
#include "shim/threads/libc_order.def"
};
#undef ORDER

#define FUNCTIONS (sizeof(ways) / sizeof(ways[0]))

static void *_Atomic reals[FUNCTIONS];

static const char *name_of(unsigned int n)
{
	const char *name = names;

	while (n--)
		while (*name++)
			;
	return name;
}

static void *real_of(unsigned int n)
{
	void *f = atomic_load_explicit(&reals[n], memory_order_acquire);

	return f ? f : sr_next_find(name_of(n), NULL, &reals[n]);
}

void sr_libc_order_look_up(void)
{
	for (unsigned int n = 0; n < FUNCTIONS; n++)
		real_of(n);
	sr_children_order(fork_begins, fork_ends);
}

/* The arguments of a call as the entry stored them, and the way back for a double. */
struct arguments {
	word in_register[6];
	double number;
	word saved[2]; /* what the entry has on the stack between here and the others */
	word on_stack[2];
};

static word apply(void *f, const struct arguments *a)
{
	const word *r = a->in_register;

	return ((word(*)(word, word, word, word, word, word, word, word))f)(
	    r[0], r[1], r[2], r[3], r[4], r[5], a->on_stack[0], a->on_stack[1]);
}

static word apply_number(void *f, struct arguments *a)
{
	a->number = ((double (*)(word))f)(a->in_register[0]);
	return 0;
}

static word as_operation(enum way way, void *f, struct arguments *a)
{
	const bool begun = sr_heap_begin();
	word result;

	result = way == NUMBER ? apply_number(f, a) : apply(f, a);
	sr_heap_end(begun);
	return result;
}

static word with_lock(enum way subject, void *f, struct arguments *a, void *site)
{
	word result;

	if (!take_lock(subject, site))
		return apply(f, a);
	/* Some are cancellation points. */
	pthread_cleanup_push(release, &locks[subject]);
	result = apply(f, a);
	pthread_cleanup_pop(1);
	return result;
}

static word with_zones(void *f, struct arguments *a, void *site)
{
	bool locked = take_lock(ZONES, site);
	word result = as_operation(MEMORY, f, a);

	if (locked)
		unlock(&locks[ZONES]);
	return result;
}

static FILE *stream_of(enum way way, const struct arguments *a)
{
	switch (way) {
	case STDIN:
		return stdin;
	case STDOUT:
		return stdout;
	case STDERR:
		return stderr;
	case LAST_0:
		return (FILE *)a->in_register[0];
	default:
		return (FILE *)a->in_register[way - FILE_0];
	}
}

static void unlock_file(void *file)
{
	funlockfile(file);
}

static word with_stream(enum way way, void *f, struct arguments *a)
{
	FILE *file = stream_of(way, a);
	word result;

	if (!file)
		return apply(f, a);
	flockfile(file);
	if (way == LAST_0) {
		funlockfile(file);
		return apply(f, a);
	}
	pthread_cleanup_push(unlock_file, file);
	result = apply(f, a);
	pthread_cleanup_pop(1);
	return result;
}

static word variable(const struct arguments *a, word value)
{
	return value ? value : (uintptr_t)sr_openmp_variable((const char *)a->in_register[0]);
}

word sr_libc_call(unsigned int n, struct arguments *a, void *site) SR_HIDDEN __attribute__((used));

/*
 * *ordered: libc was not simply called.  Not inlined: its frame, in which the engine's address may be, is among what is cleared
 * behind it.
 */
static word __attribute__((noinline)) call_in_order(unsigned int n, struct arguments *a, void *site, bool *ordered)
{
	enum way way = ways[n];
	void *f = real_of(n);

	if (way == UNLOADING) {
		sr_verbs_libraries_keep();
		way = LIBRARIES;
	}
	if (__builtin_expect(!sr_threaded, 1) || !sr_engine || sr_self.depth ||
	    sr_is_verbs_library(site))
		return way == NUMBER ? apply_number(f, a) : apply(f, a);
	*ordered = true;
	if (way < LOCKS)
		return with_lock(way, f, a, site);
	if (way == ENVIRONMENT)
		return with_zones(f, a, site);
	return way <= NUMBER ? as_operation(way, f, a) : with_stream(way, f, a);
}

/* ld.so works on its list of libraries, which is shorter in a replay, and goes deep. */
static inline __attribute__((always_inline)) void clear_below_loader(void)
{
	if (sr_stack_has_room(&sr_self, (uintptr_t)__builtin_frame_address(0)))
		sr_clear_stack_below(SR_STACK_DEEP);
	else
		sr_clear_stack_below(SR_STACK_CALL);
}

/* The entries call this. */
word sr_libc_call(unsigned int n, struct arguments *a, void *site)
{
	bool ordered = false;
	word result = call_in_order(n, a, site, &ordered);

	if (ways[n] == VARIABLE)
		result = variable(a, result);
	if (ordered && (ways[n] == LIBRARIES || ways[n] == UNLOADING))
		clear_below_loader();
	else
		sr_heap_clear_below(ordered, SR_STACK_LIBC);
	return result;
}

/* --------------------------------------------------------------- entries */

#if defined(__x86_64__)
/* clang-format off */
/* Each function's entry only says its number. */
#define ORDER(what, function)                                                  \
	".globl " #function "\n"                                               \
	".type " #function ", @function\n"                                     \
	#function ":\n"                                                        \
	"	mov $sr_libc_number, %eax\n"                                   \
	"	jmp sr_libc_entry\n"                                           \
	".size " #function ", . - " #function "\n"                             \
	".set sr_libc_number, sr_libc_number + 1\n"

__asm__(
	".text\n"
	".type sr_libc_entry, @function\n"
	"sr_libc_entry:\n"
	"	.cfi_startproc\n"
	"	sub $16, %rsp\n"            /* struct arguments: saved[0], number */
	"	.cfi_adjust_cfa_offset 16\n"
	"	push %r9\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %r8\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rcx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rdx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	mov %eax, %edi\n"
	"	mov %rsp, %rsi\n"
	"	mov 64(%rsp), %rdx\n"       /* saved[1]: where the call returns to */
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call sr_libc_call\n"
	"	movsd 56(%rsp), %xmm0\n"
	"	add $72, %rsp\n"
	"	.cfi_adjust_cfa_offset -72\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size sr_libc_entry, . - sr_libc_entry\n"
	".set sr_libc_number, 0\n"
#include "shim/threads/libc_order.def"
);
#undef ORDER

/*
 * dlopen finds libraries as seen from its caller, which glibc takes from the return address.  So the
 * real function returns to a "ret" in the caller's own code, and that returns here.
 */
__asm__(
	".text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	push %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	mov 16(%rsp), %rdi\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call sr_libc_dlopen_begins\n"   /* rax: the function; rdx: the "ret", or NULL */
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	test %rdx, %rdx\n"
	"	jnz 1f\n"
	"	jmp *%rax\n"
	"1:	call 2f\n"
	"	push %rax\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call sr_libc_dlopen_ends\n"
	"	pop %rax\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"2:	push %rdx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size dlopen, . - dlopen\n");
/* clang-format on */

struct dlopen_way {
	void *function, *ret;
};

struct dlopen_way sr_libc_dlopen_begins(const uint8_t *site) SR_HIDDEN __attribute__((used));
void sr_libc_dlopen_ends(void) SR_HIDDEN __attribute__((used));

/* A "ret" on the same page of the caller's code, or NULL. */
static const uint8_t *ret_near(const uint8_t *site)
{
	const uintptr_t mask = 4095;
	const uint8_t *page = (const uint8_t *)((uintptr_t)site & ~mask);

	for (const uint8_t *p = page; p <= page + mask; p++)
		if (*p == 0xc3)
			return p;
	return NULL;
}

struct dlopen_way sr_libc_dlopen_begins(const uint8_t *site)
{
	SR_NEXT(next, "dlopen");
	struct dlopen_way way = {.function = sr_next(&next)};
	const uint8_t *ret;

	if (!sr_threaded || !sr_engine || sr_self.depth || sr_is_verbs_library(site))
		return way;
	ret = ret_near(site);
	if (ret && take_lock(LIBRARIES, (void *)site))
		way.ret = (void *)ret;
	return way;
}

void sr_libc_dlopen_ends(void)
{
	unlock(&locks[LIBRARIES]);
	clear_below_loader();
}
#endif

/* The wrappers of libc_order.def. */
void vsyslog(int priority, const char *format, va_list ap);
void __vsyslog_chk(int priority, int flag, const char *format, va_list ap);

void syslog(int priority, const char *format, ...);
void __syslog_chk(int priority, int flag, const char *format, ...);

SR_EXPORT void syslog(int priority, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsyslog(priority, format, ap);
	va_end(ap);
}

SR_EXPORT void __syslog_chk(int priority, int flag, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	__vsyslog_chk(priority, flag, format, ap);
	va_end(ap);
}
