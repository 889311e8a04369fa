/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * symbols.h: addresses of a recorded process as function, file and line.
 *
 * From the files that process.json lists, where they are still the recorded
 * ones, and what debug information is to be had for them (elfutils' libdw).  A
 * file is opened at the first address in it.
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

/*
 * Where the call was made that returns to this address: "main (prog.c:12)",
 * "main+0x1f (prog)" or "prog+0x115f"; "" if no file is known for it.  Valid as
 * long as s.
 */
const char *sr_symbols_site(struct sr_symbols *s, uint64_t return_address);

/*
 * Print the stack of a thread of a running process, a line per frame; false if
 * it cannot be had.  The process is stopped meanwhile.
 */
bool sr_symbols_print_stack(FILE *out, const char *indent, pid_t process, pid_t thread);

#endif
