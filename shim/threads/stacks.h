/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stacks.h: the stacks of the program's threads, at addresses that are recorded and never
 * used again (program_threads.h).
 */
#ifndef SHIM_THREADS_STACKS_H
#define SHIM_THREADS_STACKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/processor.h"

/* Arguments of a new thread, and the shim's data about it until its stack is unmapped. */
struct sr_thread_start {
	void *routine; /* sr_start_routine, or thrd_start_t */
	void *arg;
	bool c11;
	bool inner; /* a library's thread, not the program's */
	bool inside_rdmacm;
	uint32_t number;
	uint64_t hidden, mask; /* signals.h */
	struct sr_cpu_number chosen_cpu; /* its creator's */
	bool own_mask;         /* its attributes give the mask */
	uint64_t stack;        /* 0: not mapped by the shim */
	size_t stack_size, guard; /* guard: bytes at its lower end without access */
	_Atomic int32_t tid;
	bool released; /* joined or detached */
	struct sr_thread_start *next;
};

/* Did the program give the thread a stack? */
bool sr_attr_has_stack(const pthread_attr_t *attr);

/*
 * Maps a stack as attr asks, at s->stack or, if that is 0, at the next free address. 0 or
 * an errno.
 */
int sr_stack_map(struct sr_thread_start *s, pthread_attr_t *attr);

/* Was a stack mapped there, now or earlier?  Any thread, no lock. */
bool sr_stack_is_placed(const void *addr);

/* A thread with this stack is about to be created; or could not be. */
void sr_stack_list(struct sr_thread_start *s, const pthread_attr_t *attr);
void sr_stack_unlist(struct sr_thread_start *s);

/* It was, and the creating thread does not need its data any more: s may be freed from now on. */
void sr_stack_created(struct sr_thread_start *s, pthread_t id);

/* The thread was joined or detached. */
void sr_stack_release(pthread_t id);

/* Unmaps stacks that are not needed any more. */
void sr_stacks_unmap(void);

#endif
