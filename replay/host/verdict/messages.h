/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * messages.h: what a rank did, or met, that the recording does not have: a message for each outcome of a replay (enum
 * sr_replay_outcome). All print to standard error.
 */
#ifndef REPLAY_HOST_VERDICT_MESSAGES_H
#define REPLAY_HOST_VERDICT_MESSAGES_H

struct sr_replay_control;
struct sr_verdict;

/* What the program did: calls.c. */
void sr_verdict_say_divergence(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_early_exit(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_late_call(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_missed_load(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_waits(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_no_exposed(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_cut(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_unsupported(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_bad_record(const struct sr_verdict *v, const struct sr_replay_control *c);

/* What the other ranks of a group, or a device, did or did not: group.c. */
void sr_verdict_say_not_transferred(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_not_produced(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_other_produced(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_other_sent(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_other_received(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_causes_end(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_peer_exited(const struct sr_verdict *v, const struct sr_replay_control *c);

/* Received values that are not what their senders send, and values that no rank has written; nothing if there are none. */
void sr_verdict_mismatch(const struct sr_verdict *v, const struct sr_replay_control *c);
void sr_verdict_say_unexplained(const struct sr_verdict *v);

#endif
