/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * program_threads.c: how threads of the program begin and end, when recorded and when
 * replayed.
 */
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
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/process/ids.h"
#include "logd/base/lock.h"
#include "shim/kernel/user_dispatch.h"
#include "shim/core/order.h"
#include "shim/core/next.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/kernel/tsc.h"
#include "shim/exposed/probe/probes.h"

/* What the shim's own frames and thread-local variables may take of a small stack. */
#define SHIM_ROOM (16ul << 10)

/* What a new thread is told, and what is known of it until its stack is unmapped. */
struct sr_thread_start {
	void *routine; /* sr_start_routine, or thrd_start_t */
	void *arg;
	bool c11;
	bool inner; /* of a library's: not the program's */
	bool inside_rdmacm;
	uint32_t number;
	uint64_t hidden, mask; /* signals.h */
	bool own_mask;         /* its attributes say which */
	uint64_t stack;        /* 0: not ours */
	size_t stack_size;
	_Atomic int32_t tid;
	bool created;  /* who creates it has done with it */
	bool released; /* joined or detached */
	struct sr_thread_start *next;
};

static pthread_key_t end_key;
static _Atomic int32_t running = 1; /* of the program's threads, those that are counted */

/* ----------------------------------------------------------------- stacks */

/* All that are mapped. */
static struct sr_thread_start *stacks;
static struct sr_lock stacks_lock;
static _Atomic uintptr_t next_stack = SR_STACKS;

static bool is_gone(int32_t tid)
{
	long pid = sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	return sr_syscall(SYS_tgkill, pid, tid, 0, 0, 0, 0) == -ESRCH;
}

void sr_thread_wait_gone(int32_t tid)
{
	const struct timespec a_moment = {.tv_nsec = 20000};

	/* The first thread stays, as a zombie, until the process is gone. */
	if (tid == sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) || tid == sr_sys_gettid())
		return;
	while (!is_gone(tid))
		sr_sys_nanosleep(&a_moment);
}

/*
 * glibc keeps what it knows of a thread at the upper end of its stack, which is
 * what a pthread_t points to; it is done with it when the thread is joined, or
 * detached and gone.
 */
static void release_stack(pthread_t id)
{
	sr_lock(&stacks_lock);
	for (struct sr_thread_start *s = stacks; s; s = s->next)
		if (id - s->stack < s->stack_size)
			s->released = true;
	sr_unlock(&stacks_lock);
}

/* Those that nobody needs any more.  Their addresses are not used again. */
static void unmap_stacks(void)
{
	struct sr_thread_start **link, *s;

	sr_lock(&stacks_lock);
	for (link = &stacks; (s = *link);) {
		if (!s->created || !s->released || !s->tid || !is_gone(s->tid)) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		sr_sys_munmap((void *)s->stack, s->stack_size);
		sr_free(s);
	}
	sr_unlock(&stacks_lock);
}

static void list_stack(struct sr_thread_start *s, const pthread_attr_t *attr)
{
	int detached = PTHREAD_CREATE_JOINABLE;

	pthread_attr_getdetachstate(attr, &detached);
	s->released = detached == PTHREAD_CREATE_DETACHED;
	sr_lock(&stacks_lock);
	s->next = stacks;
	stacks = s;
	sr_unlock(&stacks_lock);
}

/* Until then its pthread_t leads to something. */
static void done_with(struct sr_thread_start *s)
{
	sr_lock(&stacks_lock);
	s->created = true;
	sr_unlock(&stacks_lock);
}

static void unlist_stack(struct sr_thread_start *s)
{
	struct sr_thread_start **link;

	sr_lock(&stacks_lock);
	for (link = &stacks; *link && *link != s; link = &(*link)->next)
		;
	if (*link)
		*link = s->next;
	sr_unlock(&stacks_lock);
}

static bool has_own_stack(const pthread_attr_t *attr)
{
	void *low;
	size_t size;

	/* glibc keeps the upper end, 0 if there is none, and the size, and tells their difference.
	 */
	return attr && !pthread_attr_getstack(attr, &low, &size) && (uintptr_t)low + size;
}

/* A stack as attr wants it, at s->stack or, if that is 0, at the next free place. */
static int map_stack(struct sr_thread_start *s, pthread_attr_t *attr)
{
	size_t size = 0, guard = 0;
	void *p;
	int err;

	pthread_attr_getstacksize(attr, &size);
	pthread_attr_getguardsize(attr, &guard);
	size = sr_page_up(size);
	guard = sr_page_up(guard);
	/* As glibc has it: the guard comes on top.  And what the shim needs of it. */
	size += guard + SHIM_ROOM;
	if (!s->stack)
		s->stack = atomic_fetch_add(&next_stack, size + PAGE);
	s->stack_size = size;
	p = sr_sys_mmap(
	    (void *)s->stack, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != (void *)s->stack) {
		if (!sr_sys_is_error(p))
			sr_sys_munmap(p, size);
		s->stack = 0;
		return EAGAIN;
	}
	sr_syscall(SYS_mprotect, (long)s->stack, (long)guard, PROT_NONE, 0, 0, 0);
	err = pthread_attr_setstack(attr, (char *)p + guard, size - guard);
	if (err) {
		sr_sys_munmap(p, size);
		s->stack = 0;
	}
	return err;
}

/* --------------------------------------------------------------- creation */

static bool has_own_mask(const pthread_attr_t *attr)
{
	sigset_t mask;

	return attr && !pthread_attr_getsigmask_np(attr, &mask);
}

static int real_create(pthread_t *id, const pthread_attr_t *attr, void *(*f)(void *), void *arg)
{
	SR_NEXT(next, "pthread_create");
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
	    (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))sr_next(&next);

	return create(id, attr, f, arg);
}

static void *run(void *argument)
{
	struct sr_thread_start *s = argument, copy = *s;
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);

	sr_signals_thread_begins(copy.hidden, copy.inner);
	if (s->inner) {
		/* For good: nothing that it does is the program's. */
		sr_tsc_leave_alone();
		sr_cpuid_leave_alone();
		t->heap = SR_HEAP_LIBRARY;
		t->inside_rdmacm = copy.inside_rdmacm;
		sr_free(s);
	} else {
		t->number = s->number;
		t->numbered = t->counted = true;
		sr_ids_real(t->number, (int32_t)sr_sys_gettid());
		/* From here on a thread that creates another one may free it, or nobody. */
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
	if (copy.c11)
		return (void *)(uintptr_t)((thrd_start_t)copy.routine)(copy.arg);
	return ((sr_start_routine)copy.routine)(copy.arg);
}

/* A thread that runs s. */
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
		    .routine = routine, .arg = arg, .c11 = c11, .hidden = sr_signals_hidden()};
	return s;
}

/* As libc has it, in the number of the thread's clock; 0: the thread has ended already. */
static int32_t tid_of(pthread_t id)
{
	clockid_t clock;

	return pthread_getcpuclockid(id, &clock) ? 0 : ~(clock >> 3);
}

/*
 * Takes s over; *stack is where its stack is, 0 if the program gave it one: then what a
 * pthread_t leads to may be gone, and the thread's number is not found out.
 */
static int create(pthread_t *id, const pthread_attr_t *attr, struct sr_thread_start *s,
		  uint64_t *stack, int32_t *tid)
{
	pthread_attr_t mine;
	int err = 0;

	atomic_fetch_add(&running, 1);
	*stack = 0;
	*tid = 0;
	if (attr)
		mine = *attr;
	else
		pthread_attr_init(&mine);
	if (!has_own_stack(attr))
		err = map_stack(s, &mine);
	if (!err && s->stack)
		list_stack(s, &mine);
	*stack = s->stack;
	/* The new thread may be over before this one looks at s again. */
	if (!err)
		err = start(id, &mine, s);
	if (!err && *stack) {
		*tid = tid_of(*id);
		done_with(s);
	}
	if (err) {
		atomic_fetch_sub(&running, 1);
		if (s->stack) {
			unlist_stack(s);
			sr_sys_munmap((void *)s->stack, s->stack_size);
		}
		sr_free(s);
	}
	return err;
}

/* A library's thread: as it wants it. */
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

	if (!t->creates)
		return create_inner(id, attr, routine, arg, c11);
	t->creates = false;
	unmap_stacks();
	s = new_start(routine, arg, c11);
	if (!s)
		return EAGAIN;
	s->number = sr_thread_next_number();
	t->child.number = s->number;
	return create(id, attr, s, &t->child.stack, &t->child.tid);
}

static void __attribute__((noreturn)) cannot_create(int err)
{
	sr_say("the replay cannot create a thread that the recording has (%s)",
	       strerrorname_np(err));
	sr_engine->fail();
}

static void replay_create(const pthread_attr_t *attr, void *routine, void *arg, bool c11)
{
	struct sr_thread *t = &sr_self;
	struct sr_thread_start *s = new_start(routine, arg, c11);
	uint64_t stack;
	pthread_t id;
	int32_t tid;
	int err;

	unmap_stacks();
	if (!s)
		cannot_create(ENOMEM);
	s->number = t->child.number;
	sr_ids_recorded(t->child.number, t->child.tid);
	s->stack = t->child.stack;
	sr_thread_reserve_number(s->number);
	sr_engine->thread_starts();
	err = create(&id, attr, s, &stack, &tid);
	if (err)
		cannot_create(err);
	sr_ids_real(t->child.number, tid);
}

uint64_t sr_invoke_pthread_create(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)record_create((pthread_t *)a[0], (const pthread_attr_t *)a[1],
				       (void *)a[2], (void *)a[3], false);
}

void sr_replayed_pthread_create(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_self.creates = false;
	if (!result)
		replay_create((const pthread_attr_t *)a[1], (void *)a[2], (void *)a[3], false);
}

static int as_thrd(int err)
{
	if (!err)
		return thrd_success;
	return err == ENOMEM ? thrd_nomem : thrd_error;
}

uint64_t sr_invoke_thrd_create(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)as_thrd(
	    record_create((pthread_t *)a[0], NULL, (void *)a[1], (void *)a[2], true));
}

void sr_replayed_thrd_create(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_self.creates = false;
	if (!result)
		replay_create(NULL, (void *)a[1], (void *)a[2], true);
}

/* ------------------------------------------------- the first second thread */

static void *exit_at_once(void *unused)
{
	sr_self.depth = 1;
	sr_self.heap = SR_HEAP_SHIM;
	pthread_exit(NULL);
}

/*
 * glibc loads libgcc_s when a thread first ends by pthread_exit or is
 * cancelled.  A replay gets there by other ways than a recording, so in both
 * that is done here, once, by a thread that does nothing else.
 */
static void load_unwinder(void)
{
	SR_NEXT(next, "pthread_join");
	int (*join)(pthread_t, void **) = (int (*)(pthread_t, void **))sr_next(&next);
	struct sr_thread_start s = {0};
	pthread_attr_t attr;
	pthread_t id;

	/* The process would end if it were not there, or had no descriptor left to be opened. */
	if (!dlopen("libgcc_s.so.1", RTLD_NOW))
		return;
	pthread_attr_init(&attr);
	if (map_stack(&s, &attr))
		return;
	if (!real_create(&id, &attr, exit_at_once, NULL))
		join(id, NULL);
	sr_sys_munmap((void *)s.stack, s.stack_size);
}

#define LIBRARIES 32

static struct {
	uintptr_t start, end;
} libraries[LIBRARIES];
static int n_libraries;

/* By its file's name; providers are in a directory of libibverbs's. */
static bool is_of_verbs(const char *path)
{
	static const char *const names[] = {
	    "libibverbs.so", "librdmacm.so", "libnl-3.so", "libnl-route-3.so", "libmlx4.so",
	    "libmlx5.so", "libefa.so", "libmana.so",
	    /* The unwinder: it looks at frames of the shim's, too. */
	    "libgcc_s.so"};
	const char *file = strrchr(path, '/');

	file = file ? file + 1 : path;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(file, names[i], strlen(names[i])))
			return true;
	return strstr(path, "/libibverbs/") && strstr(file, "-rdmav");
}

static int note_library(struct dl_phdr_info *info, size_t size, void *unused)
{
	for (int i = 0; i < info->dlpi_phnum && n_libraries < LIBRARIES; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
		    !is_of_verbs(info->dlpi_name))
			continue;
		libraries[n_libraries].start = info->dlpi_addr + segment->p_vaddr;
		libraries[n_libraries].end = libraries[n_libraries].start + segment->p_memsz;
		n_libraries++;
	}
	return 0;
}

bool sr_is_verbs_library(const void *code)
{
	for (int i = 0; i < n_libraries; i++)
		if ((uintptr_t)code - libraries[i].start < libraries[i].end - libraries[i].start)
			return true;
	return false;
}

/* The program's, since it is asked of outermost calls only. */
bool sr_makes_thread(const uint64_t *a)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	t->creates = true;
	if (sr_threaded)
		return true;
	before = sr_enter(t);
	load_unwinder();
	dl_iterate_phdr(note_library, NULL);
	sr_leave(t, before);
	sr_threaded = true;
	return true;
}

bool sr_has_threads(const uint64_t *a)
{
	return sr_threaded;
}

/* -------------------------------------------------------------------- end */

/*
 * Runs among the destructors of thread-specific data, again in each round: the
 * program's destructors, and calls in them, come before the end.
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
	t->last.len = 0;
	sr_engine->thread_starts();
	return true;
}

/* ------------------------------------------------------- join and detach */

uint64_t sr_invoke_release_thread(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result = sr_real(d, a);

	if (!(int)result)
		release_stack((pthread_t)a[0]);
	return result;
}

/* The thread has made its last event, so it ends by itself, and soon. */
void sr_replayed_join(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	SR_NEXT(next, "pthread_join");

	if (result)
		return;
	((int (*)(pthread_t, void **))sr_next(&next))((pthread_t)a[0], NULL);
	release_stack((pthread_t)a[0]);
}

void sr_replayed_detach(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	SR_NEXT(next, "pthread_detach");

	if (result)
		return;
	((int (*)(pthread_t))sr_next(&next))((pthread_t)a[0]);
	release_stack((pthread_t)a[0]);
}

/* ------------------------------------------------------------------- once */

/* Inside of the real pthread_once: what the routine calls is the program's. */
static void run_once_routine(void)
{
	struct sr_thread *t = &sr_self;
	void (*routine)(void) = t->once;
	uint64_t none[1] = {0};

	/*
	 * If the routine throws or is cancelled, neither these lines' other half
	 * nor that of the caller's is run: they cancel out.
	 */
	sr_engine_resumes(t);
	t->depth--;
	sr_select(t);
	t->heap = SR_HEAP_PROGRAM;
	sr_call(SR_CALL_once_init, none, (void *)routine);
	routine();
	sr_call(SR_CALL_once_done, none, (void *)routine);
	t->heap = SR_HEAP_LIBRARY;
	t->depth++;
	sr_select(t);
	sr_engine_releases(t);
}

typedef int (*once_function)(int *control, void (*routine)(void));

static int record_once(struct sr_thread *t, once_function real, int *control, void (*routine)(void))
{
	int err;

	t->once = routine;
	t->depth++;
	sr_select(t);
	t->heap = SR_HEAP_LIBRARY;
	/* Another thread may be in the routine. */
	sr_engine_releases(t);
	err = real(control, run_once_routine);
	sr_engine_resumes(t);
	t->heap = SR_HEAP_PROGRAM;
	t->depth--;
	sr_select(t);
	return err;
}

/* Who runs the routine is in the trace. */
static void replay_once(struct sr_thread *t, int *control, void (*routine)(void))
{
	uint64_t none[1] = {0};

	if (!sr_engine->comes_next(t, SR_CALL_once_init))
		return;
	sr_call(SR_CALL_once_init, none, (void *)routine);
	routine();
	sr_call(SR_CALL_once_done, none, (void *)routine);
	/* As glibc marks it, for those of its functions that are not intercepted. */
	__atomic_store_n(control, 2, __ATOMIC_RELEASE);
}

static int once(once_function real, int *control, void (*routine)(void), void *site)
{
	struct sr_thread *t = &sr_self;
	uint64_t a[1] = {(uintptr_t)control};
	int err = 0;

	if (!sr_engine || !sr_threaded || t->depth || sr_is_verbs_library(site))
		return real(control, routine);
	if (sr_engine->replays)
		replay_once(t, control, routine);
	else
		err = record_once(t, real, control, routine);
	sr_call(SR_CALL_once, a, site);
	return err;
}

/* No call of the trace's: a thread that may be ended anywhere may be so on the way to one of its loads. */
SR_EXPORT int pthread_setcanceltype(int type, int *before)
{
	SR_NEXT(next, "pthread_setcanceltype");

	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		probes_stop();
	return ((int (*)(int, int *))sr_next(&next))(type, before);
}

SR_EXPORT int pthread_once(pthread_once_t *control, void (*routine)(void))
{
	SR_NEXT(next, "pthread_once");

	return once((once_function)sr_next(&next), control, routine, __builtin_return_address(0));
}

SR_EXPORT void call_once(once_flag *flag, void (*routine)(void))
{
	SR_NEXT(next, "pthread_once");

	/* glibc's is its pthread_once, on an int as well. */
	once((once_function)sr_next(&next), (int *)flag, routine, __builtin_return_address(0));
}
