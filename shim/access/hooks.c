/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooks.c: libsreplay_access.so: the functions that programs compiled with -fsanitize=thread call at each load and store.
 *
 * It takes the place of the sanitizer's runtime.  Most accesses are to memory that was never registered: they cost the test of
 * one bit.  An access that its thread has made since its last call is not kept again.
 */
#include "shim/access/access.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096u
/* A list has so many accesses. */
#define ACCESSES 512
#define RECENT 512

static const uint8_t nothing[SR_HOOKED_PAGES / 8];
/* Until the recorder is asked: no page. */
static const uint8_t *pages = nothing;
static pthread_key_t at_end;

struct hooked_thread {
	struct sr_hooked_view view;
	bool busy;
	uint32_t n, lists; /* lists: handed over so far */
	/* Of an instruction, by hash: its last access in the list, and what it loaded last. */
	struct place {
		uint64_t pc, address;
		uint32_t list, at;
	} places[RECENT];
	/* The last accesses, by hash: is it one that was made since the thread's last call? */
	struct recent {
		uint64_t sn, address, pc;
		bool is_polled;
	} recent[RECENT];
	struct sr_hooked_access list[ACCESSES];
	uint32_t faults[ACCESSES];
};

/* NULL: it has made no access to registered memory. */
static __thread struct hooked_thread *self;
static __thread bool is_over; /* nothing is kept any more */

/* ------------------------------------------------------------------ the list */

static void flush(struct hooked_thread *t)
{
	const uint32_t n = t->n;

	t->n = 0;
	t->lists++;
	if (n && sreplay_on_accesses)
		sreplay_on_accesses(t->list, n, t->faults);
}

static void end_thread(void *argument)
{
	struct hooked_thread *t = argument;

	is_over = true;
	self = NULL;
	flush(t);
	munmap(t, sizeof(*t));
}

static struct hooked_thread *attach(void)
{
	struct sr_hooked_view view;
	struct hooked_thread *t;

	is_over = true;
	if (!sreplay_access_view || !sreplay_access_view(&view))
		return NULL;
	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED)
		return NULL;
	t->view = view;
	t->lists = 1;
	pthread_setspecific(at_end, t);
	self = t;
	is_over = false;
	return t;
}

static void append(struct hooked_thread *t, const struct sr_hooked_access *a, uint32_t faults)
{
	t->faults[t->n] = faults;
	t->list[t->n++] = *a;
	if (t->n == ACCESSES)
		flush(t);
}

static size_t hash(uint64_t x)
{
	return x * 0x9e3779b97f4a7c15ull >> 55;
}

/* The access in the list that this one may be a part of; NULL: there is none. */
static struct sr_hooked_access *before(struct hooked_thread *t, const struct place *p, const struct sr_hooked_access *a, uint32_t faults)
{
	struct sr_hooked_access *b = p->pc == a->pc && p->list == t->lists ? &t->list[p->at] : NULL;

	return b && b->sn == a->sn && t->faults[p->at] == faults && b->width == a->width && b->kind == a->kind ? b : NULL;
}

/* It is as one before since the last call, or as far behind the last one as that was behind the one before. */
static bool is_among(struct sr_hooked_access *b, const struct sr_hooked_access *a)
{
	const uint64_t offset = a->address - b->address;
	const uint32_t stride = b->stride ? b->stride : b->width;

	if (offset == b->length - b->width + stride && b->length <= INT32_MAX) {
		b->length += stride;
		return true;
	}
	if (b->length == b->width && offset > b->width && offset < 1u << SR_HOOKED_STRIDE_BITS) {
		b->stride = offset & ((1u << SR_HOOKED_STRIDE_BITS) - 1);
		b->length += (uint32_t)offset;
		return true;
	}
	return offset < b->length && offset % stride == 0;
}

/* The program loads the same again, and has loaded nothing else there. */
static void keep_poll(struct hooked_thread *t, struct recent *r, const struct sr_hooked_access *a, uint32_t faults)
{
	struct sr_hooked_access poll = *a;

	if (r->is_polled)
		return;
	r->is_polled = true;
	poll.kind = SR_HOOKED_POLL;
	append(t, &poll, faults);
}

/* Words side by side have places side by side. */
static uint64_t word_of(const struct sr_hooked_access *a)
{
	return a->address >> __builtin_ctz(a->width | 1u << 16);
}

static void keep(struct hooked_thread *t, const struct sr_hooked_access *a)
{
	const uint32_t faults = (uint32_t)*t->view.faults;
	struct place *p = &t->places[hash(a->pc)];
	struct recent *r = &t->recent[hash(a->pc * 31 + word_of(a))];
	const bool again = a->kind == SR_HOOKED_LOAD && p->pc == a->pc && p->address == a->address;
	const bool is_known = r->sn == a->sn && r->address == a->address && r->pc == a->pc;
	struct sr_hooked_access *b;

	p->address = a->address;
	if (is_known && again)
		keep_poll(t, r, a, faults);
	if (is_known)
		return;
	*r = (struct recent){a->sn, a->address, a->pc, false};
	b = a->width ? before(t, p, a, faults) : NULL;
	if (b && is_among(b, a))
		return;
	*p = (struct place){a->pc, a->address, t->lists, t->n};
	append(t, a, faults);
}

/* A handler of a signal that comes here meanwhile keeps nothing. */
static void __attribute__((noinline)) note_registered(uintptr_t address, size_t length, enum sr_hooked_kind kind, uintptr_t pc)
{
	struct hooked_thread *t = self;

	if (is_over || (!t && !(t = attach())) || t->busy)
		return;
	t->busy = true;
	keep(t, &(struct sr_hooked_access){.sn = *t->view.sn,
					   .address = address,
					   .pc = pc,
					   .length = (uint32_t)length,
					   .width = length <= UINT16_MAX ? (uint16_t)length : 0,
					   .kind = kind & 3});
	t->busy = false;
}

static inline bool is_registered(uintptr_t address)
{
	const uintptr_t page = address / PAGE % SR_HOOKED_PAGES;

	return pages[page / 8] >> page % 8 & 1;
}

/* A word lies in one page, or is kept only if its first one is registered. */
static inline void note(const volatile void *address, size_t length, enum sr_hooked_kind kind, const void *caller)
{
	if (__builtin_expect(is_registered((uintptr_t)address), 0))
		note_registered((uintptr_t)address, length, kind, (uintptr_t)caller - 1);
}

static void note_range(const void *address, size_t length, enum sr_hooked_kind kind, const void *caller)
{
	const uintptr_t begin = (uintptr_t)address, end = begin + length;

	for (uintptr_t at = begin; at < end; at = (at & ~(uintptr_t)(PAGE - 1)) + PAGE)
		if (is_registered(at)) {
			note_registered(begin, length, kind, (uintptr_t)caller - 1);
			return;
		}
}

/* ------------------------------------------------------------ begin and end */

EXPORT void __tsan_init(void)
{
	static bool is_done;
	struct sr_hooked_view view;

	if (is_done)
		return;
	is_done = true;
	if (!pthread_key_create(&at_end, end_thread) && sreplay_access_view && sreplay_access_view(&view))
		pages = view.pages;
}

/* The thread that ends the process. */
static void __attribute__((destructor)) end(void)
{
	if (self)
		end_thread(self);
	is_over = true;
}

/* Stacks come from the recorder's replay. */
EXPORT void __tsan_func_entry(void *caller)
{
	(void)caller;
}

EXPORT void __tsan_func_exit(void)
{
}

/* ---------------------------------------------------------- loads and stores */

#define HOOK(name, length, kind)													\
	EXPORT void __tsan_##name(void *address)											\
	{																\
		note(address, length, kind, __builtin_return_address(0));								\
	}

/* Of each size: aligned, of any alignment, and volatile. */
#define HOOKS_OF(n)															\
	HOOK(read##n, n, SR_HOOKED_LOAD)												\
	HOOK(write##n, n, SR_HOOKED_STORE)												\
	HOOK(read_write##n, n, SR_HOOKED_STORE)												\
	HOOK(unaligned_read##n, n, SR_HOOKED_LOAD)											\
	HOOK(unaligned_write##n, n, SR_HOOKED_STORE)											\
	HOOK(unaligned_read_write##n, n, SR_HOOKED_STORE)										\
	HOOK(volatile_read##n, n, SR_HOOKED_LOAD)											\
	HOOK(volatile_write##n, n, SR_HOOKED_STORE)											\
	HOOK(unaligned_volatile_read##n, n, SR_HOOKED_LOAD)										\
	HOOK(unaligned_volatile_write##n, n, SR_HOOKED_STORE)

HOOKS_OF(1)
HOOKS_OF(2)
HOOKS_OF(4)
HOOKS_OF(8)
HOOKS_OF(16)
HOOK(vptr_read, sizeof(void *), SR_HOOKED_LOAD)

EXPORT void __tsan_vptr_update(void **at, void *value)
{
	(void)value;
	note(at, sizeof(*at), SR_HOOKED_STORE, __builtin_return_address(0));
}

EXPORT void __tsan_read_range(void *address, size_t length)
{
	note_range(address, length, SR_HOOKED_LOAD, __builtin_return_address(0));
}

EXPORT void __tsan_write_range(void *address, size_t length)
{
	note_range(address, length, SR_HOOKED_STORE, __builtin_return_address(0));
}

/* -------------------------------------------------------------- the C library */

/*
 * LLVM from 15 on calls the first of each; other compilers leave the C library's function, which the linker replaces by the
 * second one if it is told so (--wrap).
 */
#define COPY(name, function)														\
	EXPORT void *name(void *to, const void *from, size_t n)										\
	{																\
		note_range(from, n, SR_HOOKED_LOAD, __builtin_return_address(0));							\
		note_range(to, n, SR_HOOKED_STORE, __builtin_return_address(0));							\
		return function(to, from, n);												\
	}

#define FILL(name)															\
	EXPORT void *name(void *to, int byte, size_t n)											\
	{																\
		note_range(to, n, SR_HOOKED_STORE, __builtin_return_address(0));							\
		return memset(to, byte, n);												\
	}

COPY(__tsan_memcpy, memcpy)
COPY(__wrap_memcpy, memcpy)
COPY(__tsan_memmove, memmove)
COPY(__wrap_memmove, memmove)
FILL(__tsan_memset)
FILL(__wrap_memset)

/* ------------------------------------------------------------------- atomics */

/* The strongest order does for all. */
#define ORDER __ATOMIC_SEQ_CST

/* is_change: of the value v; one that changes nothing is a load, as libraries carry out a peer's atomic fetch. */
#define CHANGE(bits, type, name, is_change)												\
	EXPORT type __tsan_atomic##bits##_##name(volatile type *p, type v, int order)							\
	{																\
		(void)order;														\
		note(p, sizeof(*p), is_change ? SR_HOOKED_STORE : SR_HOOKED_LOAD, __builtin_return_address(0));				\
		return __atomic_##name(p, v, ORDER);											\
	}

#define COMPARE(bits, type, name)													\
	EXPORT int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *expected, type v, int order, int failure)	\
	{																\
		(void)order;														\
		(void)failure;														\
		const bool done = __atomic_compare_exchange_n(p, expected, v, false, ORDER, ORDER);					\
		note(p, sizeof(*p), done ? SR_HOOKED_STORE : SR_HOOKED_LOAD, __builtin_return_address(0));				\
		return done;														\
	}

#define ATOMICS_OF(bits, type)														\
	EXPORT type __tsan_atomic##bits##_load(const volatile type *p, int order)							\
	{																\
		(void)order;														\
		note(p, sizeof(*p), SR_HOOKED_LOAD, __builtin_return_address(0));							\
		return __atomic_load_n(p, ORDER);											\
	}																\
	EXPORT void __tsan_atomic##bits##_store(volatile type *p, type v, int order)							\
	{																\
		(void)order;														\
		note(p, sizeof(*p), SR_HOOKED_STORE, __builtin_return_address(0));							\
		__atomic_store_n(p, v, ORDER);												\
	}																\
	EXPORT type __tsan_atomic##bits##_exchange(volatile type *p, type v, int order)							\
	{																\
		(void)order;														\
		note(p, sizeof(*p), SR_HOOKED_STORE, __builtin_return_address(0));							\
		return __atomic_exchange_n(p, v, ORDER);										\
	}																\
	EXPORT type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type expected, type v, int order, int failure)		\
	{																\
		(void)order;														\
		(void)failure;														\
		const bool done = __atomic_compare_exchange_n(p, &expected, v, false, ORDER, ORDER);					\
		note(p, sizeof(*p), done ? SR_HOOKED_STORE : SR_HOOKED_LOAD, __builtin_return_address(0));				\
		return expected;													\
	}																\
	COMPARE(bits, type, strong)													\
	COMPARE(bits, type, weak)													\
	CHANGE(bits, type, fetch_add, v)												\
	CHANGE(bits, type, fetch_sub, v)												\
	CHANGE(bits, type, fetch_and, v != (type)-1)												\
	CHANGE(bits, type, fetch_or, v)													\
	CHANGE(bits, type, fetch_xor, v)												\
	CHANGE(bits, type, fetch_nand, true)

ATOMICS_OF(8, uint8_t)
ATOMICS_OF(16, uint16_t)
ATOMICS_OF(32, uint32_t)
ATOMICS_OF(64, uint64_t)

EXPORT void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	__atomic_thread_fence(ORDER);
}

EXPORT void __tsan_atomic_signal_fence(int order)
{
	(void)order;
	__atomic_signal_fence(ORDER);
}
