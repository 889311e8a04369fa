/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap.h: which heap an allocation comes from.
 *
 * A replay makes no provider calls, so what the verbs libraries allocate must not move what
 * the program allocates: addresses have to be equal in both runs.  The shim interposes the
 * malloc family, and sends
 *     the program's own calls to the next malloc, unchanged,
 *     calls made inside an intercepted call to the library arena,
 *     the shim's own calls to the shim arena.
 * Both arenas lie at fixed addresses.  A replay puts the objects that the program can see
 * (contexts, queue pairs, ...) into the library arena, at the addresses that they had in the
 * recording; nothing else uses that arena then.
 *
 * An arena hands out blocks in classes of powers of two, and never returns memory to the
 * kernel.  Thread-safe; not async-signal-safe, as malloc is not.
 */
#ifndef SHIM_MEMORY_HEAP_H
#define SHIM_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where the arenas are: below the stack and libraries, above the program and its
 * heap, as mappings lie without us.  OpenSHMEM takes for the program's variables
 * whatever /proc/self/maps has below their end.  (AddressSanitizer has 0x60... to 0x64....)
 */
#define SR_LIBRARY_ARENA 0x650000000000ull
#define SR_SHIM_ARENA    0x660000000000ull
#define SR_ARENA_BYTES   (16ull << 30)
/* Mappings that the verbs libraries make (queue buffers, doorbells), and the rings. */
#define SR_LIBRARY_MAPS  0x670000000000ull
#define SR_SHIM_MAPS     0x680000000000ull
/* Mappings that the program makes by mmap, where it leaves the place to the kernel. */
#define SR_PROGRAM_MAPS  0x6a0000000000ull
/* The stacks of the program's threads. */
#define SR_STACKS        0x690000000000ull
/* System V shared memory. */
#define SR_SEGMENTS      0x6f0000000000ull

/* Makes both arenas.  Before it, and if it fails (-errno), every allocation is the program's. */
int sr_heap_init(void);

/* At the start: a later look-up would clear the message that dlerror has for the program. */
void sr_heap_look_up(void);

/*
 * The function behind the shim's mmap or munmap; NULL for any other name.  A library that writes
 * code into the function that it finds (UCX) must find this one: see is_watched in heap.c.
 */
void *sr_heap_next_mapper(const char *name);

/* Is malloc this library's, or is there another in front of it? */
bool sr_heap_is_first(void);

/* Replay: may a recorded object be laid there?  Makes the arena reach as far. */
bool sr_heap_in_library_arena(const void *p, size_t size);

bool sr_heap_in_shim_arena(const void *p, size_t size);

/* For the shim's own use from any state. */
void *sr_alloc(size_t size);
void *sr_alloc_zeroed(size_t size);
void sr_free(void *p);

/* An address range for a mapping of the program's; NULL: the kernel is to choose. */
void *sr_heap_place_program(size_t size, int flags);

/*
 * Asks to be called when memory of the program's is about to be unmapped or mapped over, in
 * a recorded or replayed process.  At the start, while there is one thread.
 */
typedef void (*sr_mapping_listener)(void *addr, size_t size);
void sr_heap_on_mapping_end(sr_mapping_listener listener);

/* Memory is about to be unmapped, or mapped over. */
void sr_heap_mapping_ends(void *addr, size_t size);

/* Around a fork: no thread is in the midst of an allocation in either arena. */
void sr_heap_lock(void);
void sr_heap_unlock(void);

/* An address range for a mapping of the shim's own, away from the program's. */
void *sr_heap_place_mapping(size_t size);

#endif
