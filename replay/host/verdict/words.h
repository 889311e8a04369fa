/* SPDX-License-Identifier: BSD-2-Clause */
/* words.h: where in a rank's run something happened, and what it was: the parts of messages. All print to standard error. */
#ifndef REPLAY_HOST_VERDICT_WORDS_H
#define REPLAY_HOST_VERDICT_WORDS_H

#include <stdint.h>

struct sr_replay_report;
struct sr_verdict;

/* The name of a call, or of another event of the program, by the kind of its record. */
const char *sr_verdict_name(const struct sr_verdict *v, uint16_t kind);

/* "rank 0 thread 0 SN 42: " */
void sr_verdict_where(const struct sr_verdict *v, const struct sr_replay_report *r);

/* What the thread called before that. */
void sr_verdict_last_calls(const struct sr_verdict *v, const struct sr_replay_report *r);

/* A line with these bytes. */
void sr_verdict_bytes(const char *what, const uint8_t *bytes, uint32_t n);

/* A line with a call of this kind, or a load (address is not 0), and its place in the program. */
void sr_verdict_place(const struct sr_verdict *v, const char *what, uint64_t site, uint64_t address, uint16_t kind);

#endif
