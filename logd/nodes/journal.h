/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal.h: the requests that made the directory, in a file next to the
 * daemon's socket, for the successor of a daemon that was killed.
 *
 * It holds the path of a key, never a key.  Without it orders are lost, but no
 * records; so only its first error is reported.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_JOURNAL_H
#define LOGD_NODES_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "logd/ring/protocol.h"

struct journal;

/* NULL: it cannot be opened, which is reported.  All functions but journal_read take NULL. */
struct journal *journal_open(const char *socket_path);
/* Frees it.  keep: the file stays for a successor. */
void journal_close(struct journal *j, bool keep);
/* Drops all entries. */
void journal_empty(struct journal *j);

/* Adds an entry.  pid: the process that it is about, 0 where the message names it. */
void journal_write(struct journal *j, pid_t pid, const struct sr_message *m, const void *body,
		   size_t size);

typedef void (*journal_entry)(void *with, pid_t pid, const struct sr_message *m, const void *body,
			      size_t size);

/* Calls take for each entry, in their order, but not for those of processes that have ended. */
void journal_read(struct journal *j, journal_entry take, void *with);

#endif
