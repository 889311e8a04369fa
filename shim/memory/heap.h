/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap.h: decides which heap an allocation comes from.
 *
 * Addresses must be equal in a recording and its replay. A replay makes no calls to the
 * provider, so the allocations of the verbs libraries must not move those of the program.
 * The shim interposes the malloc family and sends
 *     the program's own calls to the next malloc, unchanged,
 *     calls made inside an intercepted call to the library arena,
 *     the shim's own calls to the shim arena,
 *     what ld.so allocates for libraries that the program loads to the loader arena, since a
 *     handle of dlopen is such an address.
 *
 * The arenas lie at fixed addresses. A replay puts the objects that the program can see
 * (contexts, queue pairs, ...) into the library arena, at their recorded addresses; nothing
 * else uses that arena in a replay.
 *
 * An arena allocates blocks in size classes of powers of two and never returns memory to
 * the kernel. It is thread-safe but, like malloc, not async-signal-safe.
 */
#ifndef SHIM_MEMORY_HEAP_H
#define SHIM_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Addresses of the arenas: below the stack and the libraries, above the program and its
 * heap, where mappings lie without the shim. They must not be lower: OpenSHMEM takes
 * whatever /proc/self/maps lists below the end of the program's variables for these
 * variables. (AddressSanitizer uses 0x60... to 0x64....)
 */
#define SR_LIBRARY_ARENA 0x650000000000ull
#define SR_SHIM_ARENA    0x660000000000ull
#define SR_LOADER_ARENA  0x664000000000ull
#define SR_ARENA_BYTES   (16ull << 30)
/* Mappings that the verbs libraries make (queue buffers, doorbells), and the rings. */
#define SR_LIBRARY_MAPS  0x670000000000ull
#define SR_SHIM_MAPS     0x680000000000ull
/*
 * Mappings that the program makes with mmap and without an address.  Large ones have a range of their own: many of them fail,
 * and must not take the room of the others.
 */
#define SR_PROGRAM_MAPS   0x6a0000000000ull
#define SR_LARGE_MAPPING  (1ull << 38)
#define SR_LARGE_MAPS     0x200000000000ull
#define SR_LARGE_MAPS_END 0x500000000000ull
/* The stacks of the program's threads. */
#define SR_STACKS        0x690000000000ull
/* System V shared memory, in a zone of exposed memory (shim/exposed/page/address.h). */
#define SR_SEGMENTS      0x6b0000000000ull

/*
 * Creates the arenas. Before this call, and if it fails (-errno), the program's heap
 * serves all allocations.
 */
int sr_heap_init(void);

/* Call at the start: a later lookup would clear the message that dlerror has for the program. */
void sr_heap_look_up(void);

/* Memory has become executable, with this protection: calls the listener, if there is one. */
typedef void (*sr_code_listener)(void *addr, size_t size, int prot);
void sr_heap_on_code(sr_code_listener listener);
void sr_heap_code_begins(void *addr, size_t size, int prot);

/*
 * The function behind the shim's mmap or munmap; NULL for any other name. A library that writes
 * code into the function that it finds (UCX) must find this one: see is_watched in heap.c.
 */
void *sr_heap_next_mapper(const char *name);

/* Does the program allocate by the shim's malloc? Not where its executable has one of its own. */
bool sr_heap_is_first(void);

/* Does its memory come from glibc's malloc? Not where a library in front of libc has one (jemalloc, mimalloc, ...). */
bool sr_heap_is_libcs(void);

/* Replay: may a recorded object be placed there? Maps the arena up to its end. */
bool sr_heap_in_library_arena(const void *p, size_t size);

bool sr_heap_in_shim_arena(const void *p, size_t size);

/* Is it in an arena, or a mapping that was placed for the shim or a verbs library?  Any thread, no lock. */
bool sr_heap_is_placed(const void *addr);

/* The shim's own allocations; the caller need not be in a section. */
void *sr_alloc(size_t size);
void *sr_alloc_zeroed(size_t size);
void sr_free(void *p);

/* Is what is allocated or mapped here the program's, and not the shim's or a verbs library's? */
bool sr_heap_is_programs(void);

/* An address range for a mapping of a verbs library. */
void *sr_heap_place_library(size_t size);
/* An address range for a mapping of the program; NULL lets the kernel choose. */
void *sr_heap_place_program(size_t size, int flags);

/*
 * May the mapping that ends there grow where it is?  The last one that was placed may: whether others have room behind them
 * depends on what other threads do meanwhile.
 */
bool sr_heap_is_placed_program(uintptr_t addr);
bool sr_heap_grow_program(uintptr_t end, size_t more);

/*
 * Has a mapping at a place that the program did not ask for failed because of the place?  Some drivers
 * let nobody choose but the kernel (io_uring's rings): then it must be asked without one.  result: -errno.
 */
bool sr_heap_may_not_place(long result);

/*
 * Registers a listener that is called when memory of the program is about to be unmapped or mapped
 * over, in a recorded or replayed process. Call at the start, while there is only one thread.
 */
typedef void (*sr_mapping_listener)(void *addr, size_t size);
void sr_heap_on_mapping_end(sr_mapping_listener listener);

/* Calls the listeners: memory is about to be unmapped or mapped over. */
void sr_heap_mapping_ends(void *addr, size_t size);

/* Call around a fork, so that no thread is in the middle of an allocation in an arena. */
void sr_heap_lock(void);
void sr_heap_unlock(void);

/* An address range for a mapping of the shim, away from the program's. */
void *sr_heap_place_mapping(size_t size);

#endif
