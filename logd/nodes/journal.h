/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal.h: the requests that made the directory, in a file next to the
 * daemon's socket, for the daemon that comes after one that was killed.
 *
 * It holds no key but the path of one.  Its loss costs orders, not records: all
 * errors are passed over in silence but the first.
 */
#ifndef LOGD_NODES_JOURNAL_H
#define LOGD_NODES_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "logd/ring/protocol.h"

struct journal;
struct server;

/* NULL: there will be none. */
struct journal *journal_open(const char *socket_path);
/* Frees it; keep: the file stays. */
void journal_close(struct journal *j, bool keep);
/* Nothing in it is worth keeping. */
void journal_empty(struct journal *j);

/* NULL is a journal that keeps nothing. */
void journal_write(struct journal *j, pid_t pid, const struct sr_message *m, const void *body,
		   size_t size);

typedef void (*journal_entry)(struct server *s, void *with, pid_t pid, const struct sr_message *m,
			      const void *body, size_t size);

/* Each entry of a process that still lives, in their order. */
void journal_read(struct journal *j, struct server *s, journal_entry take, void *with);

#endif
