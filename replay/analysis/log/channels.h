/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channels.h: what the descriptors of a recorded process lead to, and what went through them: sockets,
 * pipes, files that the kernel makes.  For explain, which looks for the rank that wrote what another
 * one read.
 */
#ifndef REPLAY_ANALYSIS_LOG_CHANNELS_H
#define REPLAY_ANALYSIS_LOG_CHANNELS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

/* What a descriptor leads to. */
struct sr_channel {
	char what[24];    /* "socket", "pipe", "file" or the call that made it; "": not known */
	uint32_t thread;  /* of the call that made it */
	uint64_t sn;
	int end;          /* of a pair: 0 or 1; -1: it is none */
	char path[256];   /* of a file */
	char local[128], peer[128]; /* addresses: "10.0.0.1:80"; "": not known */
	uint64_t received, sent;    /* bytes so far */
};

/* A call that reads or writes bytes. */
struct sr_channel_use {
	int32_t rank;
	uint32_t thread;
	uint64_t sn;
	bool is_write;
	const struct sr_channel *channel; /* before this call */
	int fd;
	uint64_t bytes;
	/* The first of them, as far as the trace has them. */
	const char *data;
	size_t data_n;
};

/*
 * Calls the function for each of them, in an order in which they can have happened, until it returns
 * false.  shares: NULL, or set if this rank has memory that another process has made (System V, /dev/shm), or that a child has inherited: what they
 * tell each other there is in no record.  0, or -errno and a sentence.
 */
int sr_channels_walk(struct sr_trace *t, int32_t rank,
		     bool (*see)(void *argument, const struct sr_channel_use *u), void *argument,
		     bool *shares, struct sr_error *err);

/* May what was written to `from` have been read from `to`?  The ranks have to be known: of pairs. */
bool sr_channels_are_linked(const struct sr_channel *to, int32_t to_rank,
			    const struct sr_channel *from, int32_t from_rank);

/* A call of a rank as sr_schema_decode() makes it, with its name in "call"; NULL: there is none. */
json_t *sr_channels_call(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t sn);

/* The number of a call's last event; 0: it has none.  e is its record, and at least as large as its head. */
uint64_t sr_entry_last_event(const struct sr_entry *e);

#endif
