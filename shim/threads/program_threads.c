/* SPDX-License-Identifier: BSD-2-Clause */
/* program_threads.c: how threads of the program begin and end, in a recording and a replay. */
#include "shim/threads/libc_order.h"
#include "shim/threads/program_threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/kernel/cpuid_trap.h"
#include "shim/memory/heap.h"
#include "shim/threads/heap_runs.h"
#include "shim/threads/libraries.h"
#include "shim/threads/stacks.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/process/ids.h"
#include "logd/base/lock.h"
#include "shim/kernel/user_dispatch.h"
#include "shim/core/order.h"
#include "shim/core/call_stack.h"
#include "shim/core/next.h"
#include "shim/core/symbols.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/stack_below.h"
#include "shim/core/thread.h"
#include "shim/kernel/tsc.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/probe/probes.h"

static pthread_key_t end_key;
static _Atomic int32_t running = 1; /* the program's threads that are counted */

/* --------------------------------------------------------------- creation */

static bool has_own_mask(const pthread_attr_t *attr)
{
	sigset_t mask;

	return attr && !pthread_attr_getsigmask_np(attr, &mask);
}

/* Calls the address in rax with zeros in the registers that a called function leaves as they are, but for rbp and rsp. */
#define CALL_CLEARED                                                                                                                       \
	"xor %%ebx, %%ebx\n\txor %%r12d, %%r12d\n\txor %%r13d, %%r13d\n\t"                                                                 \
	"xor %%r14d, %%r14d\n\txor %%r15d, %%r15d\n\tcall *%%rax"

/*
 * What libc and the shim left in registers differs between a recording and its replay, which compares registers
 * (threads/place.h).
 */
static void *call_cleared(void *routine, void *arg)
{
#if defined(__x86_64__)
	void *result = routine;

	__asm__ volatile(CALL_CLEARED
			 : "+a"(result), "+D"(arg)
			 :
			 : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
			   "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
			   "xmm12", "xmm13", "xmm14", "xmm15");
	return result;
#else
	return ((sr_start_routine)routine)(arg);
#endif
}

/*
 * A new thread begins with the registers of the one that creates it, and start_thread, of glibc, keeps some on the new stack, where
 * the program may read them.  So what this thread has in them is cleared.
 */
static int real_create(pthread_t *id, const pthread_attr_t *attr, void *(*f)(void *), void *arg)
{
	SR_NEXT(next, "pthread_create");
	void *create = sr_next(&next);
#if defined(__x86_64__)
	__asm__ volatile(CALL_CLEARED
			 : "+a"(create), "+D"(id), "+S"(attr), "+d"(f), "+c"(arg)
			 :
			 : "rbx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0", "xmm1", "xmm2",
			   "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
			   "xmm15");
	return (int)(uintptr_t)create;
#else
	return ((int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))create)(id, attr, f, arg);
#endif
}

/* More than this function keeps on the stack. */
#define RUN_FRAME 256

static void *run(void *argument)
{
	struct sr_thread_start *s = argument, copy = *s;
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);

	sr_signals_thread_begins(copy.hidden, copy.inner);
	if (s->inner) {
		/* Permanent: no call of this thread is the program's. */
		sr_tsc_leave_alone();
		sr_cpuid_leave_alone();
		t->heap = SR_HEAP_LIBRARY;
		t->inside_rdmacm = copy.inside_rdmacm;
		sr_free(s);
	} else {
		t->number = s->number;
		t->numbered = t->counted = true;
		t->chosen_cpu = copy.chosen_cpu;
		t->stack_low = copy.stack ? copy.stack + copy.guard : 0;
		t->stack_high = copy.stack ? copy.stack + copy.stack_size : 0;
		t->guard = copy.guard;
		sr_ids_real(t->number, (int32_t)sr_sys_gettid());
		/*
		 * If the shim mapped the stack, a thread that creates another one may free *s
		 * from here on.
		 */
		if (s->stack)
			s->tid = (int32_t)sr_sys_gettid();
		else
			sr_free(s);
		sr_thread_watch_end(t);
		sr_trap_arm_thread(t);
		if (sr_engine)
			sr_engine->thread_begins(t);
		sr_leave(t, before);
		if (!copy.own_mask)
			sr_signals_thread_opens(copy.mask);
	}
	t->stack_top = (uintptr_t)__builtin_frame_address(0) - RUN_FRAME;
	/* So does what they left on the stack. */
	if (!copy.inner && sr_stack_has_room(t, (uintptr_t)__builtin_frame_address(0)))
		sr_clear_stack_below(SR_STACK_DEEP);
	if (copy.c11)
		return (void *)(uintptr_t)(int)(uintptr_t)call_cleared(copy.routine, copy.arg);
	return call_cleared(copy.routine, copy.arg);
}

static int start(pthread_t *id, const pthread_attr_t *attr, struct sr_thread_start *s)
{
	uint64_t kernel;
	int err;

	s->own_mask = has_own_mask(attr);
	s->mask = sr_signals_before_create(&kernel);
	err = real_create(id, attr, run, s);
	sr_signals_after_create(kernel);
	return err;
}

static struct sr_thread_start *new_start(void *routine, void *arg, bool c11)
{
	struct sr_thread_start *s = sr_alloc_zeroed(sizeof(*s));

	if (s)
		*s = (struct sr_thread_start){
		    .routine = routine, .arg = arg, .c11 = c11, .hidden = sr_signals_hidden(), .chosen_cpu = sr_self.chosen_cpu};
	return s;
}

/* The number of the thread's clock contains the id; 0: the thread has already ended. */
static int32_t tid_of(pthread_t id)
{
	clockid_t clock;

	return pthread_getcpuclockid(id, &clock) ? 0 : ~(clock >> 3);
}

/* The program's own choice of a stack must not be exposed: glibc stores what it knows of the thread there, and it runs there. */
static void leave_stack(const pthread_attr_t *attr)
{
	void *low;
	size_t size;

	if (!pthread_attr_getstack(attr, &low, &size) && sr_exposed_touches(low, size))
		sr_exposed_give_up(low, size);
}

/* What is asked for, and what comes of it. */
struct creation {
	pthread_t *id;
	const pthread_attr_t *attr;
	struct sr_thread_start *s; /* owned */
	uint64_t stack;		   /* of the thread; 0: the program chose it, then the memory of the id may be gone already */
	int32_t tid;		   /* 0: unknown */
	int err;
};

static void create_here(uintptr_t argument)
{
	struct creation *c = (struct creation *)argument;
	struct sr_thread_start *s = c->s;
	pthread_attr_t mine;

	if (c->attr)
		mine = *c->attr;
	else
		pthread_attr_init(&mine);
	if (!sr_attr_has_stack(c->attr))
		c->err = sr_stack_map(s, &mine);
	else
		leave_stack(c->attr);
	if (!c->err && s->stack)
		sr_stack_list(s, &mine);
	c->stack = s->stack;
	/* The new thread may have ended before this one reads s again. */
	if (!c->err)
		c->err = start(c->id, &mine, s);
	if (!c->err && c->stack) {
		c->tid = tid_of(*c->id);
		/* It has ended already, and has left it there: calls that it made name it. */
		if (!c->tid)
			c->tid = s->tid;
		sr_stack_created(s, *c->id);
	}
	if (c->err) {
		atomic_fetch_sub(&running, 1);
		if (s->stack) {
			sr_stack_unlist(s);
			sr_sys_munmap((void *)s->stack, s->stack_size);
		}
		sr_free(s);
	}
}

/* More than a recording or a replay has on the stack between an intercepted call and this. */
#define CREATE_BELOW 8192

/*
 * Addresses of this thread's stack are among what the new one's registers begin with: pthread_create is called at the same
 * distance below the program's frames in both runs.
 */
static void create(struct creation *c)
{
	const struct sr_thread *t = &sr_self;
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0), at = (t->signals.base - CREATE_BELOW) & ~15ul;

	atomic_fetch_add(&running, 1);
	if (here - 256 > at && here - at <= CREATE_BELOW && sr_stack_has_room(t, at))
		sr_run_on_stack((void *)at, create_here, (uintptr_t)c);
	else
		create_here((uintptr_t)c);
}

/* Creates a library's thread, with what the library asked for. */
static int create_inner(pthread_t *id, const pthread_attr_t *attr, void *routine, void *arg,
			bool c11)
{
	struct sr_thread_start *s = new_start(routine, arg, c11);
	int err;

	if (!s)
		return EAGAIN;
	s->inner = true;
	s->inside_rdmacm = sr_self.inside_rdmacm;
	err = start(id, attr, s);
	if (err)
		sr_free(s);
	return err;
}

static int record_create(pthread_t *id, const pthread_attr_t *attr, void *routine, void *arg,
			 bool c11)
{
	struct sr_thread *t = &sr_self;
	struct sr_thread_start *s;
	struct creation c;

	if (!t->creates)
		return create_inner(id, attr, routine, arg, c11);
	t->creates = false;
	sr_stacks_unmap();
	s = new_start(routine, arg, c11);
	if (!s)
		return EAGAIN;
	s->number = sr_thread_next_number();
	t->child.number = s->number;
	c = (struct creation){.id = id, .attr = attr, .s = s};
	create(&c);
	t->child.stack = c.stack;
	t->child.tid = c.tid;
	return c.err;
}

static void __attribute__((noreturn)) cannot_create(int err)
{
	sr_say("the replay cannot create a thread that the recording has (%s)",
	       strerrorname_np(err));
	sr_engine->fail();
}

static void replay_create(pthread_t *program_id, const pthread_attr_t *attr, void *routine, void *arg, bool c11)
{
	struct sr_thread *t = &sr_self;
	struct sr_thread_start *s = new_start(routine, arg, c11);
	pthread_t id;
	/* The program's, as in the recording, gets the same value again; but what peers write changes by records alone. */
	struct creation c = {.id = sr_exposed_touches(program_id, sizeof(id)) ? &id : program_id, .attr = attr, .s = s};

	sr_stacks_unmap();
	if (!s)
		cannot_create(ENOMEM);
	s->number = t->child.number;
	sr_ids_recorded(t->child.number, t->child.tid);
	s->stack = t->child.stack;
	sr_thread_reserve_number(s->number);
	sr_engine->thread_starts();
	create(&c);
	if (c.err)
		cannot_create(c.err);
	sr_ids_real(t->child.number, c.tid);
}

uint64_t sr_invoke_pthread_create(const struct sr_call_desc *d, uint64_t *a)
{
	int err = record_create((pthread_t *)a[0], (const pthread_attr_t *)a[1], (void *)a[2],
				(void *)a[3], false);

	sr_libc_order_create_ends();
	return (uint64_t)err;
}

void sr_replayed_pthread_create(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_self.creates = false;
	if (!result)
		replay_create((pthread_t *)a[0], (const pthread_attr_t *)a[1], (void *)a[2], (void *)a[3], false);
	sr_libc_order_create_ends();
}

static int as_thrd(int err)
{
	if (!err)
		return thrd_success;
	return err == ENOMEM ? thrd_nomem : thrd_error;
}

uint64_t sr_invoke_thrd_create(const struct sr_call_desc *d, uint64_t *a)
{
	int err = record_create((pthread_t *)a[0], NULL, (void *)a[1], (void *)a[2], true);

	sr_libc_order_create_ends();
	return (uint64_t)as_thrd(err);
}

void sr_replayed_thrd_create(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_self.creates = false;
	if (!result)
		replay_create((pthread_t *)a[0], NULL, (void *)a[1], (void *)a[2], true);
	sr_libc_order_create_ends();
}

/* ------------------------------------------------- the first second thread */

/*
 * glibc loads libgcc_s when a thread first ends by pthread_exit, is cancelled, or asks for a
 * backtrace, and libgcc_s sets itself up when it first unwinds a stack. A replay gets there in
 * other ways than a recording. So both runs do it here, once, by a backtrace. (A thread that
 * ends would wait for ever where the first thread is made by a library that is being loaded:
 * this thread has ld.so's lock then.) Only libc's function does that; libunwind and sanitizers have
 * others of that name.
 */
static void load_unwinder(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	int (*backtrace)(void **, int) = libc ? (int (*)(void **, int))sr_dlsym(libc, "backtrace") : NULL;
	void *frames[1];

	if (backtrace)
		backtrace(frames, 1);
}

/* The thread is the program's, because only outermost calls ask. */
bool sr_makes_thread(const uint64_t *a)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	t->creates = true;
	if (sr_threaded) {
		sr_libc_order_create_begins();
		return true;
	}
	before = sr_enter(t);
	load_unwinder();
	sr_verbs_libraries_find();
	sr_leave(t, before);
	sr_threaded = true;
	return true;
}

/* A page of memory that only this process has registered may be exposed, too: its locks cost a record then. */
bool sr_is_lock_of_processes(uint64_t addr)
{
	return sr_exposed_covers((void *)addr, 1) && !sr_exposed_is_partial((void *)addr);
}

bool sr_has_threads(const uint64_t *a)
{
	return sr_threaded || sr_is_lock_of_processes(a[0]);
}

/* -------------------------------------------------------------------- end */

/*
 * Runs among the destructors of thread-specific data, again in each round, so that the
 * program's destructors and the calls that they make come before the end.
 */
static void end_thread(void *thread)
{
	struct sr_thread *t = thread;
	uint64_t none[1] = {0};

	if (++t->destructor_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		sr_thread_watch_end(t);
		return;
	}
	if (!sr_engine)
		return;
	if (!t->depth)
		sr_signals_thread_closes();
	if (sr_threaded && !t->depth)
		sr_call(SR_CALL_thread_end, none, __builtin_return_address(0));
	sr_heap_leave(t);
	sr_signals_thread_ends();
	t->ended = true;
	sr_trap_disarm_thread(t);
	if (t->counted)
		atomic_fetch_sub(&running, 1);
	if (sr_engine)
		sr_engine->thread_ends(t);
}

void sr_thread_watch_end(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	pthread_setspecific(end_key, t);
	sr_leave(t, before);
}

bool sr_threads_init(void)
{
	if (pthread_key_create(&end_key, end_thread))
		return false;
	sr_thread_number(&sr_self);
	sr_self.counted = true;
	sr_thread_watch_end(&sr_self);
	return true;
}

bool sr_thread_revive(struct sr_thread *t)
{
	if (atomic_load(&running))
		return false;
	t->ended = t->numbered = t->silent = false;
	sr_trap_arm_thread(t);
	t->sn = 0;
	/* It may be another thread than in the recording that comes last. */
	t->heap_ops = 0;
	t->last.len = 0;
	sr_engine->thread_starts();
	return true;
}

/* ------------------------------------------------------- join and detach */

uint64_t sr_invoke_release_thread(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result = sr_real(d, a);

	if (!(int)result)
		sr_stack_release((pthread_t)a[0]);
	return result;
}

/* The thread has made its last event, so it ends soon by itself. */
void sr_replayed_join(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	SR_NEXT(next, "pthread_join");

	if (result)
		return;
	((int (*)(pthread_t, void **))sr_next(&next))((pthread_t)a[0], NULL);
	sr_stack_release((pthread_t)a[0]);
}

void sr_replayed_detach(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	SR_NEXT(next, "pthread_detach");

	if (result)
		return;
	((int (*)(pthread_t))sr_next(&next))((pthread_t)a[0]);
	sr_stack_release((pthread_t)a[0]);
}
