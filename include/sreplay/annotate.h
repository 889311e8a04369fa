/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotate.h: a program says what `sreplay races` cannot see: locks and barriers by memory that processes share, by a
 * library of its own or by processes that are not recorded, and memory in which races do no harm.
 *
 * A program that is not recorded does nothing here, and needs no library of sreplay: it loads one address and tests it.  Recorded,
 * each of these is a call with a record of 20 bytes.  All may be called by any thread, but not by a signal handler; none
 * fails.  Compile position-independent code (-fPIE, -fPIC), which is what compilers of distributions do by default.
 */
#ifndef SREPLAY_ANNOTATE_H
#define SREPLAY_ANNOTATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sreplay_annotation {
	SREPLAY_ANNOTATION_LOCK,
	SREPLAY_ANNOTATION_UNLOCK,
	SREPLAY_ANNOTATION_ENTER, /* a barrier */
	SREPLAY_ANNOTATION_LEAVE,
	SREPLAY_ANNOTATION_BENIGN,
};

/* What libsreplay_verbs.so exports; call the functions below instead.  what: enum sreplay_annotation. */
void sreplay_on_annotation(uint32_t what, uint64_t name, uint64_t bytes) __attribute__((weak));

static inline void sreplay_annotate(enum sreplay_annotation what, uint64_t name, uint64_t bytes)
{
	if (sreplay_on_annotation)
		sreplay_on_annotation(what, name, bytes);
}

/*
 * This thread has taken a lock, or is about to give it back.  `lock` names the same lock in all ranks: any number that the program
 * chooses.  Two accesses of different ranks that are over while their threads have the same lock are no race.
 */
static inline void sreplay_lock(uint64_t lock)
{
	sreplay_annotate(SREPLAY_ANNOTATION_LOCK, lock, 0);
}

static inline void sreplay_unlock(uint64_t lock)
{
	sreplay_annotate(SREPLAY_ANNOTATION_UNLOCK, lock, 0);
}

/*
 * This rank enters a barrier, or has left it.  `barrier` names the group of ranks: the n-th entry of each of them comes before the
 * n-th leaving of all of them.
 */
static inline void sreplay_barrier_enter(uint64_t barrier)
{
	sreplay_annotate(SREPLAY_ANNOTATION_ENTER, barrier, 0);
}

static inline void sreplay_barrier_leave(uint64_t barrier)
{
	sreplay_annotate(SREPLAY_ANNOTATION_LEAVE, barrier, 0);
}

/* Races in these bytes of this rank, in all of the run, do no harm: they are notes. */
static inline void sreplay_benign(const void *address, size_t bytes)
{
	sreplay_annotate(SREPLAY_ANNOTATION_BENIGN, (uintptr_t)address, bytes);
}

#ifdef __cplusplus
}
#endif

#endif
