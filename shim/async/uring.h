/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring.h: io_uring (io_uring_setup(2) and its like).
 *
 * Program and kernel share two rings in memory, and the kernel writes into them at any time.  So the program is given
 * rings of its own, at the places where it maps the kernel's: the shim carries requests to the kernel's rings when the
 * program enters, and completions back when the program makes a call.  Equal places in both rings mean the same, so the
 * kernel counts as it would without the shim: how many completions wait, and whether the ring's descriptor is readable.
 *
 * A program that has requests under way sees IORING_SQ_TASKRUN, by which liburing knows that it must enter to learn of
 * completions.  One that only looks at memory learns of them at its next recorded call.
 *
 * What a request brings is recorded with its completion: nothing proves earlier that it is there.  What it writes is
 * compared when it is submitted, and a replay writes it when it has ended, as far as it went.  The program finds an older
 * kernel's io_uring: what the shim does not know (registered rings, large requests) is refused as such kernels refuse it.
 * A kernel's polling thread always sleeps, as far as the program sees: it is to be woken for each request.
 *
 * The engines call the functions, from any thread, if not said otherwise.
 */
#ifndef SHIM_ASYNC_URING_H
#define SHIM_ASYNC_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "logd/base/compiler.h"
#include "shim/async/uring_abi.h"
#include "shim/core/uring_completion.h"

struct sr_uring;

/* How many rings the program has: none, for most. */
extern uint32_t sr_urings SR_HIDDEN;

/* NULL: it is no ring that the shim knows. */
struct sr_uring *sr_uring_of(int fd);

/* The same, and it stays there until it is dropped: another thread may close its descriptor meanwhile. */
struct sr_uring *sr_uring_hold(int fd);
void sr_uring_drop(struct sr_uring *ring);

/* ----------------------------------------------------------------- requests */

/* How many may be submitted now; n: as many as the program says. */
uint32_t sr_uring_pending(const struct sr_uring *ring, uint32_t n);
const struct sr_uring_sqe *sr_uring_request(const struct sr_uring *ring, uint32_t i);

/*
 * Requests that open, remove or name files are made as the system calls that do the same, before the call that submits
 * them: all that the shim knows of these calls holds for them.  Returns the call's number, or -1 for another request.
 */
long sr_uring_call(const struct sr_uring_sqe *request, uint64_t a[6]);
void sr_uring_made(struct sr_uring *ring, uint32_t i, long result);

/* What a request says to be written: `one`, or the program's own list.  *n: 0 if it writes nothing, or no memory. */
const struct iovec *sr_uring_written(const struct sr_uring_sqe *request, struct iovec *one, size_t *n);

/* -------------------------------------------------------------- completions */

/* Those that this thread's call has brought. */
struct sr_uring_arrivals {
	struct sr_uring_completion *list;
	uint32_t n, room;
};
extern __thread struct sr_uring_arrivals sr_uring_arrivals SR_HIDDEN;

/* One more: to be filled in.  NULL: no memory. */
struct sr_uring_completion *sr_uring_new_arrival(void);

/* Call before and after each recorded call while there are rings. */
void sr_uring_call_begins(void);
void sr_uring_call_ends(void *site);

/* Call before a descriptor is closed, and before the process ends: brings what requests have written to files. */
void sr_uring_closes(int fd, void *site);
void sr_uring_ends(void);

/* ---------------------------------------------------------------- the rest */

/* Before a fork of a child that is recorded: any thread's calls bring from now on what the child's requests bring. */
void sr_uring_forks(void);

/* In a child that is recorded, and in a replay of it: it shares its parent's rings. */
void sr_uring_continue_in_child(void);

/* In a child that is not recorded: its parent's rings do not work in it, which the kernel says when it enters one. */
void sr_uring_forget_in_child(void);

/* How much io_uring_register writes to its argument. */
size_t sr_uring_register_answer(unsigned int opcode, unsigned int n);

/*
 * Around the mmap of a ring's descriptor.  The first one makes it a mapping of ordinary memory, and returns the ring, or
 * NULL if the descriptor is none's; the second one puts the program's ring there.  Returns the mapping, or -errno.
 */
struct sr_uring *sr_uring_maps(uint64_t a[6], uint64_t *offset);
long sr_uring_mapped(struct sr_uring *ring, uint64_t offset, long result, size_t size);

#endif
