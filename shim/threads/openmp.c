/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/openmp.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "logd/base/lock.h"
#include "shim/core/engine.h"
#include "shim/core/own_image.h"
#include "shim/core/order.h"
#include "shim/core/run_token.h"
#include "shim/core/stack.h"
#include "shim/core/symbols.h"
#include "shim/core/thread.h"

/* No more than a function has: what the caller left in other registers must not reach the stack. */
#define PARAMETERS_0 void
#define PARAMETERS_1 uint64_t a
#define PARAMETERS_2 uint64_t a, uint64_t b
#define PARAMETERS_3 uint64_t a, uint64_t b, uint64_t c
#define PARAMETERS_4 uint64_t a, uint64_t b, uint64_t c, uint64_t d
#define PARAMETERS_5 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e
#define PARAMETERS_6 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f
#define PARAMETERS_7 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g
#define PARAMETERS_8 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h
#define PARAMETERS_9 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i
#define PARAMETERS_10 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j
#define PARAMETERS_11 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k
#define PARAMETERS_12 uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l
#define ARGUMENTS_0
#define ARGUMENTS_1 a
#define ARGUMENTS_2 a, b
#define ARGUMENTS_3 a, b, c
#define ARGUMENTS_4 a, b, c, d
#define ARGUMENTS_5 a, b, c, d, e
#define ARGUMENTS_6 a, b, c, d, e, f
#define ARGUMENTS_7 a, b, c, d, e, f, g
#define ARGUMENTS_8 a, b, c, d, e, f, g, h
#define ARGUMENTS_9 a, b, c, d, e, f, g, h, i
#define ARGUMENTS_10 a, b, c, d, e, f, g, h, i, j
#define ARGUMENTS_11 a, b, c, d, e, f, g, h, i, j, k
#define ARGUMENTS_12 a, b, c, d, e, f, g, h, i, j, k, l

/* A runtime's function as the libraries in this range find it. */
struct found {
	uintptr_t begin, end;
	void *function;
};

#define FOUND_MAX 8

/* Read without the lock. */
struct finder {
	const char *name;
	void *_Atomic for_all;
	_Atomic uint32_t n;
	struct found found[FOUND_MAX];
};

static struct sr_lock finding;

/* The program's function that the runtime has called last in this thread, and that has not returned. */
static __thread void *running SR_INITIAL_EXEC;

/* What the library at site was linked to, in the order in which ld.so looks. */
static void *look_up_for(const char *name, const Dl_info *library)
{
	void *handle = dlopen(library->dli_fname, RTLD_LAZY | RTLD_NOLOAD), *f = handle ? sr_dlsym(handle, name) : NULL;

	if (handle)
		dlclose(handle);
	return f;
}

static void note(struct finder *finder, uintptr_t site, void *f)
{
	struct found found = {.function = f};
	uint32_t n = finder->n;

	if (n == FOUND_MAX || !sr_stack_library(site, &found.begin, &found.end))
		return;
	finder->found[n] = found;
	atomic_store_explicit(&finder->n, n + 1, memory_order_release);
}

static void *look_up(struct finder *finder, void *site)
{
	void *f = sr_dlsym(RTLD_NEXT, finder->name);
	Dl_info library;
	size_t size;

	if (f) {
		finder->for_all = f;
		return f;
	}
	f = dladdr(site, &library) ? look_up_for(finder->name, &library) : NULL;
	/* The call may have been a jump, from a library that this one has called. */
	if (!f)
		f = sr_symbol_find(finder->name, &size);
	note(finder, (uintptr_t)site, f);
	return f;
}

/*
 * Without the shim, the caller finds the runtime that was loaded for all; or else that of its own library, if this one was loaded
 * for itself (RTLD_LOCAL), as modules of Python are.  There may be several of these.
 */
static void *find(struct finder *finder, void *site)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;
	void *f = finder->for_all;
	uint32_t n = atomic_load_explicit(&finder->n, memory_order_acquire);

	/* The last thing that the function does is this call, by a jump: it would return to run_body(). */
	if (sr_is_own_code((uintptr_t)site))
		site = running;
	for (uint32_t i = 0; i < n && !f; i++)
		if ((uintptr_t)site - finder->found[i].begin < finder->found[i].end - finder->found[i].begin)
			f = finder->found[i].function;
	if (f)
		return f;
	before = sr_enter(t);
	sr_lock(&finding);
	f = look_up(finder, site);
	sr_unlock(&finding);
	sr_leave(t, before);
	return f;
}

static void call(enum sr_call_number n, void *site)
{
	uint64_t none[1] = {0};

	if (sr_engine_is_active() && sr_serial && sr_threaded && !sr_self.depth)
		sr_call(n, none, site);
}

/* What the variable arguments do comes in front of the runtime's function, which holds what they declare until it returns. */
#define WRAPPER(name, n, ...) \
	typedef uint64_t type_##name(PARAMETERS_##n); \
	SR_EXPORT type_##name name; \
	uint64_t name(PARAMETERS_##n) \
	{ \
		static struct finder finder = {#name}; \
		type_##name *real = (type_##name *)find(&finder, __builtin_return_address(0)); \
		uint64_t result; \
 \
		call(SR_CALL_openmp_enters, (void *)real); \
		__VA_ARGS__ \
		result = real(ARGUMENTS_##n); \
		call(SR_CALL_openmp_leaves, __builtin_return_address(0)); \
		return result; \
	}

#define FUNCTION(name, n) WRAPPER(name, n, )

/* A function of the program that the runtime calls, on the stack of the thread that began the region. */
struct body {
	void (*run)(void *);
	void *argument;
};

/* If it throws, or the thread ends there, the process ends (OpenMP's rules): nothing need be undone. */
static void run(void (*function)(void *), void *argument)
{
	void *before = running;

	running = (void *)function;
	function(argument);
	running = before;
}

static void run_body(void *argument)
{
	const struct body *body = argument;

	call(SR_CALL_openmp_leaves, (void *)body->run);
	run(body->run, body->argument);
	call(SR_CALL_openmp_enters, (void *)run_body);
}

#define REGION(name, n) \
	WRAPPER(name, n, \
		struct body body = {(void (*)(void *))a, (void *)b}; \
		a = (uintptr_t)run_body; \
		b = (uintptr_t)&body;)

/* In front of what a task's function gets, which the runtime copies, by `copy` if there is one. */
struct task {
	void (*run)(void *);
	void (*copy)(void *, void *);
	void *original;
	size_t size; /* of this, so that what follows is aligned */
};

#define ALIGN_MAX 64
#define DETACH	  (1u << 13) /* the runtime writes into what the function gets */

static void run_task(void *argument)
{
	const struct task *task = argument;

	call(SR_CALL_openmp_leaves, (void *)task->run);
	run(task->run, (char *)argument + task->size);
	call(SR_CALL_openmp_enters, (void *)run_task);
}

static void copy_task(void *to, void *from)
{
	const struct task *task = from;

	memcpy(to, task, sizeof(*task));
	if (task->copy)
		task->copy((char *)to + task->size, task->original);
	else
		memcpy((char *)to + task->size, task->original, ((const size_t *)from)[sizeof(*task) / sizeof(size_t)]);
}

#define TASK(name, n) \
	WRAPPER(name, n, \
		struct { \
			struct task task; \
			size_t bytes; \
		} t = {{(void (*)(void *))a, (void (*)(void *, void *))c, (void *)b, sizeof(t.task)}, d}; \
		if (e <= ALIGN_MAX && !(g & DETACH)) { \
			if (t.task.size < e) \
				t.task.size = e; \
			a = (uintptr_t)run_task; \
			b = (uintptr_t)&t; \
			c = (uintptr_t)copy_task; \
			d += t.task.size; \
		})

#include "shim/threads/openmp.def"

/* A thread that waits for others sleeps at once: one that spins in the runtime would keep the run token. */
const char *sr_openmp_variable(const char *name)
{
	return sr_serial && sr_engine_is_active() && name && !strcmp(name, "GOMP_SPINCOUNT") ? "0" : NULL;
}
