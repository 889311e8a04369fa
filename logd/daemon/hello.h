/* SPDX-License-Identifier: BSD-2-Clause */
/* hello.h: what a process says of itself, and its place in the trace. */
#ifndef LOGD_DAEMON_HELLO_H
#define LOGD_DAEMON_HELLO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "logd/ring/protocol.h"
#include "logd/trace/layouts.h"

/* A rank's place in a trace. */
struct trace_place {
	char *dir; /* the trace's, malloc'ed; NULL: none */
	int trace_fd, rank_fd;
	dev_t device; /* with inode: which directory the trace is, whatever its name */
	ino_t inode;
	const struct sr_layouts *layouts; /* of its records, shared; NULL: its schema does not say */
};

/* The image before it, if the process has executed a program; false: it has not. */
bool hello_image(const struct sr_message *hello, struct sr_image_origin *image);
/* Its parent, if a recorded process has forked it; false: none has. */
bool hello_parent(const struct sr_message *hello, struct sr_image_origin *parent);

/* Is it a hello that this daemon can take?  0, or -errno and perhaps a sentence. */
int hello_check(const struct sr_message *hello, int body_fd, char *error, size_t error_size);

/*
 * Reads the texts of the hello and claims its rank in the trace's directory, for the process
 * pid.  *steps grows meanwhile.  0, or -errno and perhaps a sentence; trace_place_free in both
 * cases.
 */
int hello_claim(struct trace_place *place, pid_t pid, const struct sr_message *hello, int body_fd,
		_Atomic unsigned int *steps, char *error, size_t error_size);
void trace_place_free(struct trace_place *place);

#endif
