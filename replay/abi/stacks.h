/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stacks.h: the file by which `sreplay races` learns from which callers a replayed process makes
 * its calls, and its loads from exposed memory.
 *
 * The process appends records: struct sr_stack_note, and, of a stack that it has not named before,
 * its frames (u64 each); and struct sr_stack_object, with its path behind it, before what is in a
 * library that it has not named.
 */
#ifndef REPLAY_ABI_STACKS_H
#define REPLAY_ABI_STACKS_H

#include <stdint.h>

/* From here on what the thread does at this site has this stack; hash 0: only the site's name is told. */
struct sr_stack_note {
	uint64_t sn, site, hash;
	uint64_t code;             /* the site, as sr_stack_place() names it */
	uint32_t thread, fault;    /* fault: not 0: of an access to exposed memory after the call */
	uint32_t frames;           /* that follow; 0: the stack is known */
	uint32_t path;             /* not 0: it is a struct sr_stack_object */
};

/* A library as the process has loaded it, in place of a note. */
struct sr_stack_object {
	uint64_t begin, end; /* addresses */
	uint64_t reserved[2];
	uint32_t reserved_too[3];
	uint32_t path; /* bytes that follow, without a NUL */
};
_Static_assert(sizeof(struct sr_stack_object) == sizeof(struct sr_stack_note), "one is read in place of the other");

#endif
