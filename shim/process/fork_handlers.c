/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/fork_handlers.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"
#include "shim/memory/heap_order.h"

#define MOST 256

typedef void (*handler)(void);
typedef int (*register_function)(handler prepare, handler parent, handler child, void *library);

/* glibc declares neither. */
int __register_atfork(handler before, handler in_parent, handler in_child, void *library);
void __cxa_finalize(void *library);

/* In the order in which they came. */
static struct {
	handler prepare, parent, child;
	void *library;
	_Atomic bool is_set; /* and its library is loaded */
} list[MOST];
static _Atomic uint32_t count;

static register_function real_register(void)
{
	SR_NEXT(next, "__register_atfork");

	return (register_function)sr_next(&next);
}

static uint32_t listed(void)
{
	uint32_t n = atomic_load(&count);

	return n < MOST ? n : MOST;
}

static void run(handler h)
{
	if (h)
		h();
}

void sr_fork_prepares(void)
{
	for (uint32_t i = listed(); i-- > 0;)
		if (atomic_load(&list[i].is_set))
			run(list[i].prepare);
}

void sr_fork_goes_on_in_parent(void)
{
	for (uint32_t i = 0; i < listed(); i++)
		if (atomic_load(&list[i].is_set))
			run(list[i].parent);
}

void sr_fork_goes_on_in_child(void)
{
	for (uint32_t i = 0; i < listed(); i++)
		if (atomic_load(&list[i].is_set))
			run(list[i].child);
}

/* ---------------------------------------------------------- for libc's fork */

static void prepare(void)
{
	if (!sr_self.runs_fork_handlers)
		sr_fork_prepares();
}

static void parent(void)
{
	if (!sr_self.runs_fork_handlers)
		sr_fork_goes_on_in_parent();
}

static void child(void)
{
	if (!sr_self.runs_fork_handlers)
		sr_fork_goes_on_in_child();
}

int sr_fork_add_own(handler before, handler in_parent, handler in_child)
{
	return real_register()(before, in_parent, in_child, NULL);
}

/* --------------------------------------------------------- the program's calls */

/* pthread_atfork is a part of the program, and calls this. */
SR_EXPORT int __register_atfork(handler before, handler in_parent, handler in_child, void *library)
{
	static _Atomic bool is_known;
	uint32_t n;
	bool begun;

	if (sr_self.depth)
		return real_register()(before, in_parent, in_child, library);
	if (!atomic_exchange(&is_known, true))
		real_register()(prepare, parent, child, NULL);
	/* Threads register in the order of their heap operations. */
	begun = sr_heap_begin();
	n = atomic_fetch_add(&count, 1);
	if (n < MOST) {
		list[n].prepare = before;
		list[n].parent = in_parent;
		list[n].child = in_child;
		list[n].library = library;
		atomic_store(&list[n].is_set, true);
	}
	sr_heap_end(begun);
	return n < MOST ? 0 : real_register()(before, in_parent, in_child, library);
}

/* A library that is unloaded calls this, and its handlers go with it. */
SR_EXPORT void __cxa_finalize(void *library)
{
	SR_NEXT(next, "__cxa_finalize");

	for (uint32_t i = 0; library && i < listed(); i++)
		if (list[i].library == library)
			atomic_store(&list[i].is_set, false);
	((void (*)(void *))sr_next(&next))(library);
}
