/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relay.h: passes on what a rank of a group prints, line by line with the rank in front, so that
 * lines of several ranks never mix; optionally with an unchanged copy in a file.
 */
#ifndef REPLAY_HOST_GROUP_RELAY_H
#define REPLAY_HOST_GROUP_RELAY_H

#include <stddef.h>
#include <stdio.h>

struct sr_relay {
	int fd;      /* to read from, non-blocking; -1: at its end */
	int write_fd; /* the other end, until the rank has it; -1 */
	FILE *out;
	FILE *copy; /* or NULL */
	const char *name; /* the rank's */
	char *line;  /* that has no end yet */
	size_t held, room;
};

/* 0 or -errno.  path: of the copy, or NULL. */
int sr_relay_open(struct sr_relay *r, const char *name, FILE *out, const char *path);

/* In the parent, when the rank has its end. */
void sr_relay_started(struct sr_relay *r);

/* Passes on what is there. */
void sr_relay_move(struct sr_relay *r);

/* Call when the rank has ended: passes on the rest, and ends an incomplete last line. */
void sr_relay_close(struct sr_relay *r);

#endif
