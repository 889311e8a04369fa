/* SPDX-License-Identifier: BSD-2-Clause */
/* mappings.h: the mappings behind views, the backing mapping and shadow: system calls only. */
#ifndef SHIM_EXPOSED_MAPPINGS_H
#define SHIM_EXPOSED_MAPPINGS_H

#include <stdatomic.h>
#include <stdint.h>

#include "shim/exposed/page/events.h"

/* Tests only: a simulated NIC pins nothing, so it needs a mapping of its own of the same memory. */
extern bool map_accepts_shared;

/* Makes the shadow's memfd.  -errno. */
int map_init(void);

/* The pages move to the backing mapping, closed views take their place; all or nothing. */
enum sr_exposed_refusal map_take(uintptr_t begin, uintptr_t end);

/* How often pages have ceased to be exposed regions'. */
extern atomic_uint_fast64_t pages_given_back;

/* The reverse: the backing mapping becomes the program's memory. */
void map_return(uintptr_t begin, uintptr_t end);

/* The same in a forked child, whose shadow is its parent's. */
void map_return_in_child(uintptr_t begin, uintptr_t end);
void map_forget(void);
int map_fd(void);

/* One page: the backing mapping and shadow go, what is at the view stays. */
void map_drop(uintptr_t user);

/* A view's access.  -errno. */
int map_protect(uintptr_t user, int prot);

/* What is mapped there of a file, privately, and from where in it. */
struct mapped_file {
	uintptr_t begin, end;
	bool is_text; /* may be read and executed, and no more */
	uint64_t offset, inode;
	uint32_t device; /* major, minor: twelve and twenty bits */
	char path[512];
};

/* False: no file is. */
bool map_file_of(uintptr_t addr, struct mapped_file *f);

/* One page: the backing mapping at the view, and back. */
int map_give(uintptr_t user);
void map_take_back(uintptr_t user);

#endif
