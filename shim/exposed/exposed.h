/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed.h: memory that a NIC writes behind the CPU's back, made recordable.
 *
 * docs/user/exposed-memory.md says what this guarantees.  The module knows pages, faults
 * and values; it knows nothing of verbs, traces or rings, so that the tests
 * drive it with a simulated NIC.
 *
 * Three mappings belong to each page of an exposed region, at fixed distances:
 *     view     the program's address.  Closed (no access), frozen (the shadow,
 *              read-only) or live (the backing mapping itself)
 *     the backing mapping  what the NIC writes: the program's own page, moved aside
 *     shadow   the bytes of the page that the program can know: those that it
 *              was shown or has stored itself
 *
 * Called from any thread and from the SIGSEGV handler.  One lock stands for all
 * page states; nothing in here touches a view but by changing its mapping.
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

/* The pages under the range become exposed pages, or are used by one region more. */
enum sr_exposed_refusal sr_exposed_add(void *addr, size_t length);

/*
 * One region less; pages that none uses are the program's own again, as the NIC
 * left them: at once, or of a large region when they are next touched.
 */
void sr_exposed_remove(void *addr, size_t length);

/* The program unmaps the range, or maps something else over it: it has no exposed regions any more. */
void sr_exposed_forget(void *addr, size_t length);

/* It does something else to the range: its pages are its own again, as the NIC left them. */
void sr_exposed_give_up(void *addr, size_t length);

/* Where the NIC writes what the program reads at addr; addr itself outside of exposed regions. */
void *sr_exposed_backing(const void *addr);

/* A SIGSEGV: true if it was the module's, and the thread may go on. */
bool sr_exposed_fault(siginfo_t *info, ucontext_t *uc);

/* The calling thread has no timer and no stack of the module's any more, until it faults again. */
void sr_exposed_thread_ends(void);

/* Others' writes may be seen from here on: what is open is closed. */
void sr_exposed_observe(void);

/*
 * Around a call that is recorded.  What is touched within (by a provider, or by
 * who puts recorded results into their places) are not loads and stores of the
 * program's: pages are simply opened, and closed at the end.  Faults are
 * numbered from one call's end to the next one's.
 */
void sr_exposed_call_begins(void);
void sr_exposed_call_ends(void);

/* A handler of the program's begins in it (true), or between two calls, and ends. */
bool sr_exposed_call_interrupted(void);
void sr_exposed_call_resumes(bool interrupted);

/* How many the calling thread has had since its last call. */
uint64_t sr_exposed_faults(void);

/* Replay: there is memory besides the exposed regions of which events bring values. */
void sr_exposed_await_values(bool on);

/* Is there an exposed page in the range?  Only such pages? */
bool sr_exposed_touches(const void *addr, size_t length);
bool sr_exposed_covers(const void *addr, size_t length);

/*
 * A load of a range in exposed regions on the program's behalf, recorded as one.  Returns where the bytes are that
 * the program knows from then on, until the next one.
 */
const void *sr_exposed_gather(const void *addr, size_t length);

/* What is there now, without anybody having seen it. */
void sr_exposed_copy(const void *addr, void *to, size_t length);

/* The same within a page of the program's own in which no region has any of it; else false, and nothing is copied. */
bool sr_exposed_copy_unregistered(const void *addr, void *to, size_t length);

/* Exposed region pages of the range are the backing mapping itself, for the kernel, until they are unpinned. */
void sr_exposed_pin(const void *addr, size_t length);
void sr_exposed_unpin(const void *addr, size_t length);

/*
 * With several threads: where a call may be given the range instead, with pages and
 * other threads' faults as they are, until sr_exposed_unalias() takes that address back.
 * NULL: it must be pinned.
 */
void *sr_exposed_alias(const void *addr, size_t length);
void *sr_exposed_unalias(void *alias, size_t length);
bool sr_exposed_is_alias(const void *addr);

/* Is it on a page that is an exposed region because of other things there? */
bool sr_exposed_is_partial(const void *addr);

/*
 * the backing mapping's fixed address of a range in exposed regions, where it is from here to
 * sr_exposed_release: no page of any exposed region goes live meanwhile.
 */
void *sr_exposed_hold(const void *addr);
void sr_exposed_release(void);

/* Around fork: the child's memory is as the NIC left it. */
void sr_exposed_before_fork(void);
void sr_exposed_after_fork(bool child);

/* The module's descriptor; -1: there is none. */
int sr_exposed_fd(void);

void sr_exposed_get_counts(struct sr_exposed_counts *counts);

#endif
