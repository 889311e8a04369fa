/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed.h: makes memory recordable that a NIC writes.
 *
 * docs/user/exposed-memory.md says what this guarantees.  The module knows pages, faults and values.  It knows
 * nothing of verbs, traces or rings, so that tests can drive it with a simulated NIC.
 *
 * Three mappings belong to each page of an exposed region, at fixed distances from each other:
 * - the user mapping is at the program's address.  It is protected (each access faults), a snapshot (the shadow copy,
 * read-only) or passed through (the page itself);
 * - the backing mapping is where the NIC writes: the program's own page, moved aside;
 * - the shadow copy has the bytes that the program can know, because it has loaded them or stored them.
 *
 * The functions are called from any thread and from the SIGSEGV handler.  One lock guards the states of all pages.
 * Nothing in here accesses a user mapping; only its protection is changed.
 */
#ifndef SHIM_EXPOSED_EXPOSED_H
#define SHIM_EXPOSED_EXPOSED_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "logd/base/compiler.h"
#include "shim/exposed/page/event.h"

/* Once.  -errno. */
int sr_exposed_init(const struct sr_exposed_hooks *hooks);

/* The pages of the range become exposed pages, or one more region has them. */
enum sr_exposed_refusal sr_exposed_add(void *addr, size_t length);

/*
 * One region less has them.  Pages that no region has become the program's own again, with what the NIC left there:
 * at once, or when they are next accessed if the region is large.
 */
void sr_exposed_remove(void *addr, size_t length);
/* The same of what this thread has added last, and the device has refused: nobody else has written there on its account. */
void sr_exposed_take_back(void *addr, size_t length);
/* The same behind a call: what is found there is found at its return. */
void sr_exposed_remove_at_return(void *addr, size_t length);

/* The program unmaps the range, or maps something else over it: there is no exposed page any more. */
void sr_exposed_forget(void *addr, size_t length);

/* The program does something else to the range: its pages become its own again, with what the NIC left there. */
void sr_exposed_give_up(void *addr, size_t length);

/*
 * Is the program's stack exposed, with this stack pointer, where a call of the shim's may use it?  Then those pages must become
 * the program's own before the lock is taken for anything else, by code that runs on another stack.
 */
bool sr_exposed_has_stack(uintptr_t sp);
void sr_exposed_give_up_stack(uintptr_t sp);

/* Where the NIC writes what the program reads at addr; addr itself if its page is not exposed. */
void *sr_exposed_backing(const void *addr);

/* Where another recorded process has the backing mapping of this address, if its page is exposed there. */
void *sr_exposed_backing_place(const void *addr);

/* Handles a SIGSEGV.  True: it was about an exposed page, and the thread may go on. */
bool sr_exposed_fault(siginfo_t *info, ucontext_t *uc);

/*
 * The process ends, and this thread, which may be in the handler and have the lock, writes out what the program has printed: what it
 * still accesses is opened, and nothing else.
 */
void sr_exposed_end(void);

/* Frees the timer and the stack that the calling thread has here, until it faults again. */
void sr_exposed_thread_ends(void);

/* From here on the program may see what others wrote: its open pages are protected. */
void sr_exposed_observe(void);

/*
 * Around a recorded call.  What is accessed in between, by a library or by the code that puts recorded results into
 * place, are not the program's loads and stores: pages are opened, and protected at the end, and nothing is recorded.
 * Faults are numbered from the end of one call to the end of the next.
 */
void sr_exposed_call_begins(void);
void sr_exposed_call_ends(void);

/*
 * Both at once, for a call in a recording that touches no memory.  False: there is more to do than to begin the
 * counters anew, and nothing has been done.
 */
bool sr_exposed_call_alone(void) NO_VECTORS;
/* The same in a replay, whose trace has nothing in front of the call. */
bool sr_exposed_call_is_quiet(void) NO_VECTORS;

/* A handler of the program's begins, and ends.  interrupted: the thread is within a call. */
bool sr_exposed_call_interrupted(void);
void sr_exposed_call_resumes(bool interrupted);

/*
 * Recording, for `sreplay confirm`: an instruction of the program that loads from this range, which lies in exposed
 * memory.  Both functions are called in the fault's handler, without the module's lock: before the load, and when it
 * has been done.  Loads from these pages are done one by one, so that each faults.  Probes must be off.
 */
struct sr_exposed_watched {
	uintptr_t pc, begin, end; /* pc: only where it lies in its page counts here */
	void (*before)(uintptr_t pc, uintptr_t address);
	void (*after)(uintptr_t address);
};
void sr_exposed_watch_load(const struct sr_exposed_watched *w);

/* How many faults the calling thread has had since its last call. */
uint64_t sr_exposed_faults(void);
const uint64_t *sr_exposed_fault_counter(void);

/* Replay: the instruction for which struct sr_exposed_hooks' step() has opened this page is done.  In a signal handler. */
void sr_exposed_hide(uintptr_t page);

/* Replay: the thread's next access to this page has an event, also if its instruction is no probe. */
void sr_exposed_suspend(const void *addr);

/*
 * The calling thread is about to give up its processor, perhaps since it waits: what it has watched is looked at.
 * Not a call of its own, for which faults would be numbered anew.
 */
void sr_exposed_yields(void);

/* Replay: events bring values for memory besides exposed regions, too. */
void sr_exposed_await_values(bool on);

/* Can the program store to this page without a fault, now or when its thread goes on? */
bool sr_exposed_is_passed_through(const void *addr);

/* Is there an exposed page in the range?  Are all of its pages exposed? */
bool sr_exposed_touches(const void *addr, size_t length);
bool sr_exposed_covers(const void *addr, size_t length);

/*
 * A load of a range in exposed regions on the program's behalf, recorded as one.  Returns where the bytes are that
 * the program knows from then on, until the next one.
 */
const void *sr_exposed_gather(const void *addr, size_t length);

/* The same for what has that checksum, of exposed pages only; seed: as of sr_checksum(). */
uint64_t sr_exposed_checksum(const void *addr, size_t length, uint64_t seed);

/*
 * The same for a range of which a part may be other memory: copies all of it, of exposed pages what the program knows from
 * then on.  to: NULL, to copy nothing.
 */
void sr_exposed_load(const void *addr, void *to, size_t length);

/* Copies what is there now.  The program does not learn it. */
void sr_exposed_copy(const void *addr, void *to, size_t length);

/* The same the other way, for what a call brings: the program finds it there, and has not stored it. */
void sr_exposed_put(void *addr, const void *from, size_t length);

/*
 * The same for bytes of an exposed page that no region has.  False: they are not such bytes, and nothing is copied.
 */
bool sr_exposed_copy_unregistered(const void *addr, void *to, size_t length);

/* Passes the exposed pages of the range through, for the kernel, until they are unpinned. */
void sr_exposed_pin(const void *addr, size_t length);
void sr_exposed_unpin(const void *addr, size_t length);

/*
 * In a process with threads: another address of the range, all of it exposed, that a call may be given instead, however long
 * it waits.  Until sr_exposed_unalias() takes that address back, its pages are not moved from there: each access of another thread is
 * seen, or done in place.  NULL: the range must be pinned.
 */
void *sr_exposed_alias(const void *addr, size_t length);
void *sr_exposed_unalias(void *alias, size_t length);
bool sr_exposed_is_alias(const void *addr);
/* Has a call an alias of any of these pages? */
bool sr_exposed_is_lent(const void *addr, size_t length);

/* Does addr lie on a page that no region has as a whole? */
bool sr_exposed_is_partial(const void *addr);
/* Do the bytes lie on such pages only, and in no region? */
bool sr_exposed_is_in_no_region(const void *addr, size_t length);

/*
 * Not only requests of peers may put something there: a READ, an atomic or a datagram receive of the process, or a
 * store of a process that shares the memory.  What a load finds on these pages from now on is recorded with --order,
 * too, until no region has them any more.
 */
void sr_exposed_keep_values(const void *addr, size_t length);
/* Have the bytes in exposed pages changed since the program last saw them, or may they have? */
bool sr_exposed_has_news(const void *addr, size_t length);
bool sr_exposed_keeps_values(const void *addr);
/* Pages that were exposed a moment ago had all zeros before: these are not recorded when they are first looked at. */
void sr_exposed_is_empty(const void *addr, size_t length);
/*
 * Other processes store there, and the program may wait for that in front of or behind stores of its own, with no call in
 * between: these pages are not passed through for many stores, as loads would not be seen.
 */
void sr_exposed_meets(const void *addr, size_t length);
/* The same, but only until what a READ brought there is known: until sr_exposed_fetch_ends() of the same range. */
void sr_exposed_fetch_begins(const void *addr, size_t length);
void sr_exposed_fetch_ends(const void *addr, size_t length);
/* Messages will come there, which are not WRITEs: see sr_exposed_known_page(). */
void sr_exposed_messages_come(const void *addr, size_t length);
/* A READ of this process will bring something there: what is found there next was not written by a peer. */
void sr_exposed_fetched(const void *addr, size_t length);
/* Has some region all of each page of the range? */
bool sr_exposed_is_whole(const void *addr, size_t length);

/* What the program can know of this page from addr on; NULL: it does not know the page.  With the module's lock. */
const char *sr_exposed_known(const void *addr);
/* ... of a page that is exposed whole, and that only WRITEs of peers have ever changed; NULL: it is none. */
const char *sr_exposed_known_page(const void *page);

/*
 * Returns the fixed address of a range in the backing mapping.  Until sr_exposed_release() the range is there: no
 * page is passed through.
 */
void *sr_exposed_hold(const void *addr);
void sr_exposed_release(void);

/* Around fork.  The child's memory is what the NIC had left there. */
void sr_exposed_before_fork(void);
void sr_exposed_after_fork(bool child);

/* The module's file descriptor, or -1. */
int sr_exposed_fd(void);

void sr_exposed_get_counts(struct sr_exposed_counts *counts);

#endif
