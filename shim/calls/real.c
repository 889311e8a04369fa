/* SPDX-License-Identifier: BSD-2-Clause */
/* real.c: finds and calls the functions that the wrappers replace. */
#include "shim/calls/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "shim/core/symbols.h"
#include "shim/core/thread.h"
#include "shim/threads/libc_order.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/waits.h"

void *_Atomic sr_real_functions[SR_CALL_COUNT];

/* The shim never loads these libraries: if a wrapper is called, its library is loaded. */
static struct library {
	const char *name;
	void *_Atomic handle;
} libraries[] = {
    [SR_SOURCE_IBVERBS] = {"libibverbs.so.1"}, [SR_SOURCE_RDMACM] = {"librdmacm.so.1"},
    [SR_SOURCE_MLX5] = {"libmlx5.so.1"},       [SR_SOURCE_MLX4] = {"libmlx4.so.1"},
    [SR_SOURCE_EFA] = {"libefa.so.1"},         [SR_SOURCE_HNS] = {"libhns.so.1"},
    [SR_SOURCE_MANA] = {"libmana.so.1"},     [SR_SOURCE_LIBSTDCXX] = {"libstdc++.so.6"},
};

/*
 * RTLD_NEXT does not see a library that was loaded RTLD_LOCAL (a Python
 * extension's, a UCX module's), so the verbs libraries are asked for by name.
 * NULL while the process has not loaded it.
 */
static void *handle_of(struct library *library)
{
	void *h = atomic_load_explicit(&library->handle, memory_order_acquire);

	if (!h) {
		h = dlopen(library->name, RTLD_LAZY | RTLD_NOLOAD);
		atomic_store_explicit(&library->handle, h, memory_order_release);
	}
	return h;
}

void sr_look_up_libc(void)
{
	sr_next_find_all();
	sr_libc_order_look_up();
	for (size_t n = 0; n < SR_CALL_COUNT; n++)
		if (sr_calls[n].source == SR_SOURCE_LIBC)
			sr_next_find(sr_calls[n].name, sr_calls[n].version, &sr_real_functions[n]);
}

static void *look_up(const struct sr_call_desc *d)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);
	void *library = handle_of(&libraries[d->source]);
	void *f = library ? sr_dlvsym(library, d->name, d->version) : NULL;

	sr_leave(t, before);
	return f;
}

/* Looks the function up for the first time. */
static void *__attribute__((noinline)) find_real_function(const struct sr_call_desc *d)
{
	void *_Atomic *cache = &sr_real_functions[sr_call_number(d)];
	void *f;

	if (d->source == SR_SOURCE_LIBC)
		return sr_next_find(d->name, d->version, cache);
	f = look_up(d);
	atomic_store_explicit(cache, f, memory_order_release);
	return f;
}

void *sr_real_function(const struct sr_call_desc *d)
{
	void *f = atomic_load_explicit(&sr_real_functions[sr_call_number(d)], memory_order_acquire);

	return f ? f : find_real_function(d);
}

static void *holder_of(const struct sr_call_desc *d, const uint64_t *a)
{
	char *p = (char *)a[d->holder_arg];

	return d->holder_member < 0 ? p : *(void **)(p + d->holder_member);
}

static void *in_object(const struct sr_call_desc *d, const uint64_t *a)
{
	const char *saved = sr_ops_saved(holder_of(d, a));

	return saved ? *(void **)(saved + d->op_offset) : NULL;
}

static void *function_of(const struct sr_call_desc *d, const uint64_t *a)
{
	switch ((enum sr_source)d->source) {
	case SR_SOURCE_KERNEL:
		break;
	case SR_SOURCE_LIBC:
	case SR_SOURCE_IBVERBS:
	case SR_SOURCE_RDMACM:
	case SR_SOURCE_MLX5:
	case SR_SOURCE_MLX4:
	case SR_SOURCE_EFA:
	case SR_SOURCE_HNS:
	case SR_SOURCE_MANA:
	case SR_SOURCE_LIBSTDCXX:
		return sr_real_function(d);
	case SR_SOURCE_CONTEXT:
		return sr_context_original(holder_of(d, a), d->op_offset, false);
	case SR_SOURCE_VERBS:
		return sr_context_original(holder_of(d, a), d->op_offset, true);
	case SR_SOURCE_QP:
	case SR_SOURCE_CQ:
	case SR_SOURCE_DM:
		return in_object(d, a);
	case SR_SOURCE_ANNOTATION:
	case SR_SOURCE_SHIM:
		break;
	}
	return NULL;
}

uint64_t sr_unavailable(const struct sr_call_desc *d)
{
	if (d->source == SR_SOURCE_SHIM || d->source == SR_SOURCE_ANNOTATION)
		return 0;
	errno = ENOSYS;
	return d->ret_size == sizeof(void *) && !d->ret_signed ? 0 : (uint64_t)-1;
}

/* Works like libc's syscall(), but is not a cancellation point. */
static uint64_t system_call(const struct sr_call_desc *d, const uint64_t *a)
{
	uint64_t words[SR_MAX_ARGS] = {0};
	long result;

	memcpy(words, a, d->nargs * sizeof(words[0]));
	result = sr_syscall(d->nr, (long)words[0], (long)words[1], (long)words[2], (long)words[3],
			    (long)words[4], (long)words[5]);
	if (!sr_sys_is_error((void *)result))
		return (uint64_t)result;
	errno = (int)-result;
	return (uint64_t)-1;
}

/*
 * Calls f, or makes the system call if f is NULL.  On all machines that rdma-core runs on,
 * integers and pointers are passed in registers, one word each.  So a call with words fits every
 * prototype of such arguments.
 */
static uint64_t apply(const struct sr_call_desc *d, void *f, const uint64_t *a)
{
	typedef uint64_t word;

	if (!f)
		return system_call(d, a);
	switch (d->nargs) {
	case 0:
		return ((word(*)(void))f)();
	case 1:
		return ((word(*)(word))f)(a[0]);
	case 2:
		return ((word(*)(word, word))f)(a[0], a[1]);
	case 3:
		return ((word(*)(word, word, word))f)(a[0], a[1], a[2]);
	case 4:
		return ((word(*)(word, word, word, word))f)(a[0], a[1], a[2], a[3]);
	case 5:
		return ((word(*)(word, word, word, word, word))f)(a[0], a[1], a[2], a[3], a[4]);
	default:
		return ((word(*)(word, word, word, word, word, word))f)(a[0], a[1], a[2], a[3],
									a[4], a[5]);
	}
}

/* The argument that is a time limit in milliseconds; -1: none is, or the kernel counts it down. */
static int limit_of(const struct sr_call_desc *d)
{
	switch (sr_call_number(d)) {
	case SR_CALL_poll:
		return 2;
	case SR_CALL_epoll_wait:
	case SR_CALL_epoll_pwait:
		return 3;
	default:
		return -1;
	}
}

/*
 * Makes the call until it ends for a reason that the program would have without the shim: a signal
 * of the shim's own makes the kernel end a call that waits, with EINTR, whatever SA_RESTART says
 * (signal(7)).
 */
static uint64_t apply_unharmed(const struct sr_call_desc *d, void *f, const uint64_t *a)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint32_t own = s->own, handlers = s->handlers;
	uint64_t words[SR_MAX_ARGS], result;
	int limit = limit_of(d);
	int64_t end;

	result = apply(d, f, a);
	if (__builtin_expect((int)result != -1 || s->own == own || errno != EINTR, 1))
		return result;
	memcpy(words, a, d->nargs * sizeof(words[0]));
	end = limit >= 0 ? sr_sys_now_ms() + (int)a[limit] : 0;
	while ((int)result == -1 && errno == EINTR && s->own != own && s->handlers == handlers) {
		own = s->own;
		if (limit >= 0 && (int)a[limit] >= 0)
			words[limit] =
			    end > sr_sys_now_ms() ? (uint64_t)(end - sr_sys_now_ms()) : 0;
		result = apply(d, f, words);
	}
	return result;
}

/*
 * Inside the real function the program's signal handlers run at once, as they would without the
 * shim, because the function may wait for their effects.  Outside of it, in the shim's own code,
 * they have to wait.
 */
static uint64_t __attribute__((noinline))
apply_interruptibly(const struct sr_call_desc *d, void *f, const uint64_t *a)
{
	struct sr_thread *t = &sr_self;
	bool before = t->signals.interruptible;
	uint64_t result;

	t->signals.interruptible = true;
	atomic_signal_fence(memory_order_seq_cst);
	if (t->signals.waiting)
		sr_signals_take(t, t->depth ? SR_SIGNAL_IN_CALL : SR_SIGNAL_BETWEEN);
	result = apply_unharmed(d, f, a);
	atomic_signal_fence(memory_order_seq_cst);
	t->signals.interruptible = before;
	return result;
}

static inline uint64_t applied(const struct sr_call_desc *d, void *f, const uint64_t *a)
{
	return d->flags & SR_CALL_BLOCKS ? apply_interruptibly(d, f, a) : apply(d, f, a);
}

/*
 * The program waits for a lock, in a call of its own.  Its owner may wait for a handler of this thread meanwhile: collectors of
 * garbage stop threads so.
 */
static inline bool awaits_lock(const struct sr_call_desc *d)
{
	return d->order & SR_ORDER_RETURN && sr_self.depth == 1;
}

uint64_t sr_real(const struct sr_call_desc *d, const uint64_t *a)
{
	uint64_t result;
	bool raw = d->source == SR_SOURCE_KERNEL || (sr_self.raw && d->nr >= 0);
	void *f = raw ? NULL : function_of(d, a);

	if (!f && !raw)
		return sr_unavailable(d);
	if (d->when != sr_has_threads)
		return applied(d, f, a);
	sr_wait_begins(&sr_self, d, a);
	if (__builtin_expect(sr_regions_on || sr_waits_coming, 0))
		sr_wait_looks_again(&sr_self);
	result = awaits_lock(d) ? apply_interruptibly(d, f, a) : applied(d, f, a);
	sr_wait_ends(&sr_self);
	return result;
}
