/* SPDX-License-Identifier: BSD-2-Clause */
/* states.h: changes of pages' states, and what they bring.  All with the lock held. */
#ifndef SHIM_EXPOSED_PAGE_STATES_H
#define SHIM_EXPOSED_PAGE_STATES_H

#include "shim/exposed/page/thread.h"

/* Did this thread open the page? */
bool is_mine(const struct page *p);

/* The shadow copies of these pages, at most OPEN_MAX, are complete: the program may read them. */
void page_show_snapshots(uintptr_t begin, uintptr_t end);
/* A snapshot whose loads are watched: from now on they are not. */
void page_show_unwatched(uintptr_t user);
/* Who watches learns that accesses to this page may be unseen, or a call's. */
void page_tell_unwatched(uintptr_t user);
/* The same for one instruction, which is watched; then page_hide_again(). */
void page_show_hidden(uintptr_t user);
void page_hide_again(uintptr_t user);
/* Every access faults.  What changed under a page that was passed through goes into the event. */
void page_protect(uintptr_t user);
/* Maps the backing mapping at the program's address.  False: that failed. */
bool page_map_through(uintptr_t user);
/* The same of neighbouring pages, for stores.  False: not now, and the store faults again. */
bool page_pass_through(uintptr_t begin, uintptr_t end);
/* Within a call: nobody learns what is accessed there. */
void page_open_silently(uintptr_t user);
/* Protects another thread's page so that its owner does not notice; this thread's own page for good. */
void page_suspend(uintptr_t user);
/* The owner of a suspended page goes on: with a new snapshot, or passed through again.  False: the access faults again. */
void page_renew_snapshot(uintptr_t user);
bool page_reopen(uintptr_t user);
/* The page becomes the program's own memory again. */
void page_release(uintptr_t user);

void protect_mine(void);
void protect_pass_through(void);
/* Suspends the snapshots that memory differs from now. */
void suspend_changed(void);
void suspend_all(void);

/*
 * Memory has been read at this moment.  Snapshots that it differs from are protected, so that all open pages together
 * show memory as it is now.
 */
void check_snapshots(void);

/*
 * The same, if something new was read since there were so many values.  Else for some of them in turn: the program may as well
 * have read before what it has known before.  A loop that looks here and there still comes to see what changes in a snapshot.
 */
void check_snapshots_since(uint64_t values);

/* Records what differs from the shadow copy in the range, which lies within a page that is not passed through. */
void take_sample(uintptr_t at, size_t length);

/* Replay: at the end of an event, protects the pages that it protected when it was recorded. */
void replay_protected(void);

#endif
