/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/memory/arena.h"
#include "shim/memory/heap_order.h"
#include "shim/memory/images.h"
#include "shim/core/symbols.h"
#include "shim/core/stack_below.h"
#include "shim/core/thread.h"

/* glibc's functions, under the names that it exports for interposers. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

/*
 * The malloc that the program would use without the shim: glibc's, or that of a library
 * that replaces it (jemalloc, tcmalloc, ...).
 */
static struct {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *p, size_t size);
	void *(*memalign)(size_t align, size_t size);
	void (*free)(void *p);
	size_t (*usable_size)(void *p);
} next;

static struct sr_arena library_arena, shim_arena, loader_arena;
static bool ready;

/* Memory for dlsym's own allocations during the search for the next malloc; never freed. */
static _Alignas(16) char boot[4096];
static size_t boot_used;
static bool looking_up;

static void *boot_alloc(size_t size)
{
	size_t at = (boot_used + 15) & ~15ul;

	if (at + size > sizeof(boot))
		return NULL;
	boot_used = at + size;
	return boot + at;
}

static bool is_boot(const void *p)
{
	return (const char *)p >= boot && (const char *)p < boot + sizeof(boot);
}

static void *next_symbol(const char *name, void *otherwise)
{
	void *p = sr_dlsym(RTLD_NEXT, name);

	return p ? p : otherwise;
}

static void look_for_next(void)
{
	looking_up = true;
	next.calloc = (void *(*)(size_t, size_t))next_symbol("calloc", (void *)__libc_calloc);
	next.realloc = (void *(*)(void *, size_t))next_symbol("realloc", (void *)__libc_realloc);
	next.memalign = (void *(*)(size_t, size_t))next_symbol("memalign", (void *)__libc_memalign);
	next.free = (void (*)(void *))next_symbol("free", (void *)__libc_free);
	next.usable_size = (size_t(*)(void *))next_symbol("malloc_usable_size", NULL);
	next.malloc = (void *(*)(size_t))next_symbol("malloc", (void *)__libc_malloc);
	looking_up = false;
}

/* Makes sure that next can be called; false while the search for it is under way. */
static inline bool have_next(void)
{
	if (__builtin_expect(next.malloc != NULL, 1))
		return true;
	if (looking_up)
		return false;
	look_for_next();
	return true;
}

void sr_heap_look_up(void)
{
	have_next();
	sr_heap_next_mapper("mmap");
}

/*
 * The place in libc that allocates the message for dlerror. A failed dlopen or dlsym leaves that
 * message allocated, and the next such call frees it. One of the two may be the program's and the
 * other a verbs library's, so the message must not come from the program's heap.
 */
static const void *dlerror_site;
static bool finding;

/* Finds it by a lookup that fails. ld.so allocates the error text itself, so malloc ignores it. */
static void find_dlerror(void)
{
	enum sr_heap before = sr_enter(&sr_self);

	sr_images_find();
	finding = true;
	sr_dlsym(RTLD_DEFAULT, "sreplay: there is no such symbol");
	finding = false;
	/* The first call returns the message, the second one clears it. */
	dlerror();
	dlerror();
	sr_leave(&sr_self, before);
}

/* The shim's, also where the name means another library's. */
static typeof(malloc) own_malloc __attribute__((alias("malloc"), copy(malloc)));

static inline struct sr_arena *owner(const void *p);

/*
 * An executable at a fixed address that takes malloc's address has a stub of that name, which dlsym finds: whose malloc
 * it leads to, a block tells.
 */
static bool leads_here(typeof(malloc) *stub)
{
	enum sr_heap before;
	const Elf64_Sym *symbol;
	Dl_info there;
	bool here;
	void *p;

	if (!dladdr1((void *)stub, &there, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || symbol->st_shndx != SHN_UNDEF)
		return false;
	before = sr_enter(&sr_self);
	p = stub(1);
	here = p && owner(p);
	if (here)
		free(p);
	sr_leave(&sr_self, before);
	return here;
}

bool sr_heap_is_first(void)
{
	typeof(malloc) *found = (typeof(malloc) *)sr_dlsym(RTLD_DEFAULT, "malloc");

	return found == own_malloc || leads_here(found);
}

static bool is_in_libc(const void *function)
{
	Dl_info there, libc;

	return dladdr(function, &there) && dladdr((void *)gnu_get_libc_version, &libc) && there.dli_fbase == libc.dli_fbase;
}

bool sr_heap_is_libcs(void)
{
	return sr_heap_is_first() && have_next() && is_in_libc((void *)next.malloc);
}

int sr_heap_init(void)
{
	int err = sr_arena_init(&library_arena, SR_LIBRARY_ARENA, SR_ARENA_BYTES);

	if (!err)
		err = sr_arena_init(&shim_arena, SR_SHIM_ARENA, SR_ARENA_BYTES);
	if (!err)
		err = sr_arena_init(&loader_arena, SR_LOADER_ARENA, SR_ARENA_BYTES);
	ready = !err;
	/* Another malloc would allocate the message: an executable's own, which the shim does not see. */
	if (!err && sr_heap_is_first())
		find_dlerror();
	return err;
}

bool sr_heap_in_library_arena(const void *p, size_t size)
{
	return !sr_arena_reach(&library_arena, p, size);
}

bool sr_heap_in_shim_arena(const void *p, size_t size)
{
	return (uintptr_t)p >= shim_arena.base && (uintptr_t)p + size <= shim_arena.usable;
}

/* The arena for an allocation made now; NULL means the program's heap. */
static inline struct sr_arena *current_arena(void)
{
	if (__builtin_expect(sr_self.heap == SR_HEAP_PROGRAM, 1) || !ready)
		return NULL;
	return sr_self.heap == SR_HEAP_LIBRARY ? &library_arena : &shim_arena;
}

bool sr_heap_is_programs(void)
{
	return !current_arena();
}

static inline struct sr_arena *owner(const void *p)
{
	if (sr_arena_owns(&library_arena, p))
		return &library_arena;
	if (sr_arena_owns(&shim_arena, p))
		return &shim_arena;
	return sr_arena_owns(&loader_arena, p) ? &loader_arena : NULL;
}

/*
 * In a replay the verbs libraries do not run: what they gave to the program lies where it was, but nothing there was
 * allocated, and there is no struct in front of it for the arena.  A program may free it all the same: of
 * ibv_get_device_list the real library takes free() too.
 */
static inline bool is_content(const void *p)
{
	return sr_engine && sr_engine->replays && sr_arena_owns(&library_arena, p);
}

/* Reserves an address range for a mapping. Addresses only grow and are never used again. */
static void *place(_Atomic uintptr_t *where, size_t size)
{
	/* An unmapped page after each mapping catches accesses past its end. */
	size_t padded = sr_page_up(size) + PAGE;

	return (void *)atomic_fetch_add_explicit(where, padded, memory_order_relaxed);
}

static _Atomic uintptr_t next_shim_mapping = SR_SHIM_MAPS, next_library_mapping = SR_LIBRARY_MAPS;

void *sr_heap_place_mapping(size_t size)
{
	return place(&next_shim_mapping, size);
}

void *sr_heap_place_library(size_t size)
{
	return place(&next_library_mapping, size);
}

static bool is_placed(uintptr_t p, uintptr_t first, uintptr_t end)
{
	return p - first < end - first;
}

/* Only what is in use of these ranges: a program may have drawn an address in the rest. */
bool sr_heap_is_placed(const void *addr)
{
	uintptr_t p = (uintptr_t)addr;

	return is_placed(p, SR_LIBRARY_ARENA, library_arena.usable) || is_placed(p, SR_SHIM_ARENA, shim_arena.usable) ||
	       is_placed(p, SR_LOADER_ARENA, loader_arena.usable) ||
	       is_placed(p, SR_LIBRARY_MAPS, atomic_load_explicit(&next_library_mapping, memory_order_relaxed)) ||
	       is_placed(p, SR_SHIM_MAPS, atomic_load_explicit(&next_shim_mapping, memory_order_relaxed));
}

void sr_heap_lock(void)
{
	sr_lock(&library_arena.lock);
	sr_lock(&shim_arena.lock);
	sr_lock(&loader_arena.lock);
}

void sr_heap_unlock(void)
{
	sr_unlock(&loader_arena.lock);
	sr_unlock(&shim_arena.lock);
	sr_unlock(&library_arena.lock);
}

void *sr_alloc(size_t size)
{
	return ready ? sr_arena_alloc(&shim_arena, size, 16) : NULL;
}

void *sr_alloc_zeroed(size_t size)
{
	void *p = sr_alloc(size);

	return p ? memset(p, 0, size) : NULL;
}

void sr_free(void *p)
{
	if (p)
		sr_arena_free(&shim_arena, p);
}

/* ------------------------------------------------ the program's own heap */

/* What it leaves below differs between a recording and a replay. */
void __attribute__((noinline)) sr_handlers_at_heap(void)
{
	struct sr_thread *t = &sr_self;

	if (!sr_engine->handlers_at_heap)
		return;
	t->signals.base = (uintptr_t)__builtin_frame_address(0);
	sr_engine->handlers_at_heap(t);
	if (sr_stack_has_room(t, t->signals.base))
		sr_clear_stack_below(SR_STACK_DEEP);
	else
		sr_clear_stack_below(SR_STACK_CALL);
}

static void *program_malloc(size_t size)
{
	const bool begun = sr_heap_begin();
	void *p = next.malloc(size);

	sr_heap_end(begun);
	sr_heap_clear_below(begun, SR_STACK_HEAP);
	return p;
}

static void *program_calloc(size_t n, size_t size)
{
	const bool begun = sr_heap_begin();
	void *p = next.calloc(n, size);

	sr_heap_end(begun);
	sr_heap_clear_below(begun, SR_STACK_HEAP);
	return p;
}

static void *program_realloc(void *p, size_t size)
{
	const bool begun = sr_heap_begin();
	void *q = next.realloc(p, size);

	sr_heap_end(begun);
	sr_heap_clear_below(begun, SR_STACK_HEAP);
	return q;
}

static void *program_memalign(size_t align, size_t size)
{
	const bool begun = sr_heap_begin();
	void *p = next.memalign(align, size);

	sr_heap_end(begun);
	sr_heap_clear_below(begun, SR_STACK_HEAP);
	return p;
}

static void program_free(void *p)
{
	const bool begun = sr_heap_begin();

	next.free(p);
	sr_heap_end(begun);
	sr_heap_clear_below(begun, SR_STACK_HEAP);
}

/* ------------------------------------------------------ the malloc family */

/*
 * A library's code allocates in calls that the program's handlers may interrupt (apply_interruptibly).  A handler may wait there
 * for another thread's turn, and that thread for the lock of an arena: so none runs while this thread has it.  That is not rare:
 * behind a fork the first store to each page faults, and signals come at the end of a fault.
 */
static bool hold_handlers(void)
{
	struct sr_thread *t = &sr_self;
	const bool held = t->depth && t->signals.interruptible;

	if (held)
		t->signals.interruptible = false;
	atomic_signal_fence(memory_order_seq_cst);
	return held;
}

static void let_handlers(bool held, const void *caller)
{
	struct sr_thread *t = &sr_self;

	atomic_signal_fence(memory_order_seq_cst);
	if (!held)
		return;
	t->signals.interruptible = true;
	atomic_signal_fence(memory_order_seq_cst);
	/* pthread_join frees a thread's TLS with the lock of glibc's stacks: there they run behind the call, which is near. */
	if (t->signals.waiting && !sr_is_loader(caller))
		sr_signals_take(t, SR_SIGNAL_IN_CALL);
}

static void *alloc_in(struct sr_arena *arena, size_t size, size_t align, const void *caller)
{
	const bool held = hold_handlers();
	void *p = sr_arena_alloc(arena, size, align);

	let_handlers(held, caller);
	if (!p)
		errno = ENOMEM;
	return p;
}

static void free_in(struct sr_arena *arena, void *p, const void *caller)
{
	const bool held = hold_handlers();

	sr_arena_free(arena, p);
	let_handlers(held, caller);
}

/*
 * How much ld.so allocates for a library loaded later depends on the processor. So its
 * memory does not come from the program's heap.
 */
static inline struct sr_arena *arena_of(const void *caller)
{
	if (__builtin_expect(sr_is_loader(caller) || caller == dlerror_site, 0) && sr_engine &&
	    ready)
		return caller == dlerror_site || sr_self.depth ? &shim_arena : &loader_arena;
	return current_arena();
}

SR_EXPORT void *malloc(size_t size)
{
	struct sr_arena *arena = arena_of(__builtin_return_address(0));

	if (__builtin_expect(finding, 0) && !dlerror_site &&
	    !sr_is_loader(__builtin_return_address(0)))
		dlerror_site = __builtin_return_address(0);
	if (arena)
		return alloc_in(arena, size, 16, __builtin_return_address(0));
	return have_next() ? program_malloc(size) : boot_alloc(size);
}

SR_EXPORT void *calloc(size_t n, size_t size)
{
	struct sr_arena *arena = arena_of(__builtin_return_address(0));
	size_t total;
	void *p;

	if (!arena)
		return have_next() ? program_calloc(n, size) : boot_alloc(n * size);
	if (__builtin_mul_overflow(n, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	p = alloc_in(arena, total, 16, __builtin_return_address(0));
	return p ? memset(p, 0, total) : NULL;
}

SR_EXPORT void free(void *p)
{
	struct sr_arena *arena;

	if (!p || is_boot(p) || is_content(p))
		return;
	arena = owner(p);
	if (arena)
		free_in(arena, p, __builtin_return_address(0));
	else if (have_next())
		program_free(p);
}

static size_t usable_size(void *p)
{
	if (is_boot(p))
		return (size_t)(boot + boot_used - (char *)p);
	if (is_content(p))
		return library_arena.usable - (uintptr_t)p; /* its own size is not known */
	if (owner(p))
		return sr_arena_block_size(p);
	return have_next() && next.usable_size ? next.usable_size(p) : 0;
}

static void *move(void *p, size_t size, struct sr_arena *arena, const void *caller)
{
	size_t old = usable_size(p);
	void *q = arena ? alloc_in(arena, size, 16, caller) : malloc(size);

	if (!q)
		return NULL;
	memcpy(q, p, old < size ? old : size);
	free(p);
	return q;
}

SR_EXPORT void *realloc(void *p, size_t size)
{
	/* The program makes it its own, in a replay as in the recording: there the size of the block is not known. */
	const bool takes = sr_arena_owns(&library_arena, p) && !current_arena();
	struct sr_arena *arena = p && !takes ? owner(p) : NULL;

	if (!p)
		return malloc(size);
	if (!arena && !is_boot(p) && !takes)
		return have_next() ? program_realloc(p, size) : NULL;
	if (!size) {
		free(p);
		return NULL;
	}
	if (arena && size <= sr_arena_block_size(p))
		return p;
	return move(p, size, arena, __builtin_return_address(0));
}

SR_EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(n, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, total);
}

SR_EXPORT void *memalign(size_t align, size_t size)
{
	struct sr_arena *arena = current_arena();

	if (arena)
		return alloc_in(arena, size, align, __builtin_return_address(0));
	return have_next() ? program_memalign(align, size) : NULL;
}

SR_EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

SR_EXPORT int posix_memalign(void **p, size_t align, size_t size)
{
	int saved = errno;

	if (align % sizeof(void *) || align & (align - 1) || !align)
		return EINVAL;
	*p = memalign(align, size);
	errno = saved;
	return *p ? 0 : ENOMEM;
}

SR_EXPORT void *valloc(size_t size)
{
	return memalign(PAGE, size);
}

SR_EXPORT void *pvalloc(size_t size)
{
	return memalign(PAGE, sr_page_up(size));
}

SR_EXPORT size_t malloc_usable_size(void *p)
{
	return p ? usable_size(p) : 0;
}
