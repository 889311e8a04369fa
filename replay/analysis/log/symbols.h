/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * symbols.h: addresses of a recorded process as function, file and line.
 *
 * From the files in process.json, if they are still the recorded ones, and their debug information
 * (elfutils' libdw).  A file is opened when the first address in it is looked up.
 */
#ifndef REPLAY_ANALYSIS_LOG_SYMBOLS_H
#define REPLAY_ANALYSIS_LOG_SYMBOLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct sr_symbols;

/* objects: of process.json, which must outlive it.  NULL: no memory. */
struct sr_symbols *sr_symbols_new(const json_t *objects);
void sr_symbols_free(struct sr_symbols *s);

/* A library that was loaded later.  It counts where no other object lies. */
void sr_symbols_add(struct sr_symbols *s, const char *path, uint64_t begin, uint64_t end);

/*
 * The call that returns to this address: "main (prog.c:12)", "main+0x1f (prog)" or "prog+0x115f";
 * "" if no file is known for it.  Valid as long as s.
 */
const char *sr_symbols_site(struct sr_symbols *s, uint64_t return_address);

/*
 * Prints the stack of a thread of a running process, a line per frame, and stops the process
 * meanwhile.  False: it cannot be read.
 */
bool sr_symbols_print_stack(FILE *out, const char *indent, pid_t process, pid_t thread);

#endif
