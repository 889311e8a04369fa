/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.h: what tells one arrival of a thread at an instruction from another one, in a recording and in its replay.
 *
 * The memory is read by the kernel, so that what is not there is no fault.  Any thread, also in handlers of signals.
 */
#ifndef SHIM_THREADS_PLACE_H
#define SHIM_THREADS_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sreplay/trace.h>

/* At most; and of a place where a handler runs: a turn of an interpreter changes dozens. */
#define SR_PLACE_WORDS	      32
#define SR_PLACE_SIGNAL_WORDS 160
/*
 * Bytes of the stack that are compared.  Further up there may be holes in frames with what other calls have left, which
 * differs in a replay; but a loop that a signal interrupts may keep its only count there.
 */
#define SR_PLACE_STACK	      256
#define SR_PLACE_SIGNAL_STACK 4096

struct sr_place {
	struct sr_place_payload p;
	struct sr_place_word word[SR_PLACE_SIGNAL_WORDS];
};

/*
 * A thread's id, which libc keeps in the locks that the thread holds.  Who arrives with the one where the other one was recorded is
 * there all the same.
 */
struct sr_place_ids {
	uint32_t recorded, real;
};

/* How many bytes can be read from there, up to n. */
size_t sr_place_read(void *to, uint64_t from, size_t n);

/* The sum of those of the registers that the bits name.  vectors: xmm0 to xmm15. */
uint64_t sr_place_sum_vectors(const char *vectors, uint32_t bits);

/*
 * Fills in stack_bytes and stack_sum, from the stack pointer among the registers, of so many bytes at most.  top: the
 * program's frames end there; or 0.
 */
void sr_place_take_stack(struct sr_place_payload *p, uint64_t top, uint64_t most);

/* The values of the words now; those that cannot be read are left out. */
void sr_place_take_words(struct sr_place *place);

/* Can all words, and the part of the stack, be read?  That stays so until the thread makes a call. */
bool sr_place_is_readable(const struct sr_place *place);

/* Is this thread at this place?  In general registers only (NO_VECTORS); the words must be readable. */
bool sr_place_has_registers(const struct sr_place_payload *p, const uint64_t r[16]);
bool sr_place_has_words(const struct sr_place *place, const struct sr_place_ids *ids);
/* All else.  readable: as sr_place_is_readable has said, without the kernel's help then. */
bool sr_place_is(const struct sr_place *place, bool readable, const struct sr_place_ids *ids, uint64_t heap_position,
		 const char *vectors);

#endif
