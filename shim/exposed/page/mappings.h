/* SPDX-License-Identifier: BSD-2-Clause */
/* mappings.h: the user mapping, the backing mapping and the shadow copy of pages, by system calls. */
#ifndef SHIM_EXPOSED_MAPPINGS_H
#define SHIM_EXPOSED_MAPPINGS_H

#include <stdatomic.h>
#include <stdint.h>

#include "shim/exposed/page/events.h"

/* Makes the memfd of shadow copies.  -errno. */
int map_init(void);

/* Moves pages to the backing mapping; protected user mappings take their place.  All or nothing. */
enum sr_exposed_refusal map_take(uintptr_t begin, uintptr_t end);

/* How often pages have ceased to be exposed. */
extern atomic_uint_fast64_t pages_returned;

/* The reverse: the pages are the program's memory again. */
void map_return(uintptr_t begin, uintptr_t end);

/* The same in a forked child, which shares the shadow copies with its parent. */
void map_return_in_child(uintptr_t begin, uintptr_t end);
void map_forget(void);
int map_fd(void);

/* Unmaps the backing mapping and the shadow copy of neighbouring pages; what is at the program's addresses stays. */
void map_drop(uintptr_t begin, uintptr_t end);

/* Sets what the program may do at its address.  -errno. */
int map_protect(uintptr_t user, int prot);
int map_protect_range(uintptr_t begin, uintptr_t end, int prot);

/* A private mapping of a file, or of nothing. */
struct mapped_file {
	uintptr_t begin, end;
	bool is_text; /* it may be read and executed, and not written */
	uint64_t offset, inode;
	uint32_t device; /* major, minor: twelve and twenty bits */
	char path[512]; /* empty: it is of no file */
};

/* False: no file is mapped at addr. */
bool map_file_of(uintptr_t addr, struct mapped_file *f);

/* The same, or it is code that the program itself has made: memory of no file that may be executed, and not written. */
bool map_code_of(uintptr_t addr, struct mapped_file *f);

/* Calls this for each file that is mapped privately, and may be read and executed but not written. */
void map_each_text(void (*with)(const struct mapped_file *f));

/* Moves neighbouring pages from the backing mapping to the program's addresses, and back. */
int map_through(uintptr_t begin, uintptr_t end);
void map_take_back(uintptr_t begin, uintptr_t end);
/* Shows the shadow copy at the program's address, protected, whatever is there.  -errno. */
int map_shadow(uintptr_t user);

#endif
