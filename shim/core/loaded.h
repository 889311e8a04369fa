/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loaded.h: which of the loaded objects (the program, its libraries) an address is in.
 *
 * Any thread, in a section or in a fault's handler; allocates nothing.  Takes no lock with
 * glibc 2.35 and later, which have a function for this.  Earlier ones have none: there it takes
 * ld.so's lock on the list of objects, as the unwinder does there, too.  A thread that has it may
 * take it again.
 */
#ifndef SHIM_CORE_LOADED_H
#define SHIM_CORE_LOADED_H

#include <stdbool.h>
#include <stdint.h>

struct sr_loaded {
	uintptr_t begin, end; /* where it lies */
	uintptr_t base;       /* what its addresses in the file are relative to */
	const char
	    *name; /* its path, "" for the program; it stays there until the object is unloaded */
};

bool sr_loaded_at(uintptr_t address, struct sr_loaded *object);
/* The same, without the function of glibc 2.35. */
bool sr_loaded_at_by_list(uintptr_t address, struct sr_loaded *object);

/* Calls `look` for each object, until it returns true.  No other thread may load libraries
 * meanwhile. */
void sr_loaded_each(bool (*look)(const struct sr_loaded *object, void *argument), void *argument);

#endif
