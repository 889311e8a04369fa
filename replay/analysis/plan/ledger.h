/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger.h: records that come nearly in order, kept on disk and read back in order.
 *
 * What one rank finds out about another's calls comes in the order in which the first rank found
 * it out.  The latest records are kept sorted in memory; older ones go to a temporary file.  A
 * record that is older than those is kept apart, up to a limit; beyond that it is dropped and
 * counted.
 */
#ifndef REPLAY_ANALYSIS_PLAN_LEDGER_H
#define REPLAY_ANALYSIS_PLAN_LEDGER_H

#include <stddef.h>
#include <stdint.h>

struct sr_ledger;

/* In the directory, under this name.  NULL: no memory. */
struct sr_ledger *sr_ledger_new(const char *dir, const char *name, size_t bytes);
void sr_ledger_free(struct sr_ledger *l); /* and its file */

/* 0 or -errno. */
int sr_ledger_add(struct sr_ledger *l, uint64_t key, const void *record);

/* After the last add: from the lowest key on.  1, 0 at the end, -errno. */
int sr_ledger_next(struct sr_ledger *l, uint64_t *key, void *record);

uint64_t sr_ledger_dropped(const struct sr_ledger *l);

#endif
