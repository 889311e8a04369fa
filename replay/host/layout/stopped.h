/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stopped.h: a process that ptrace has stopped: its memory, its registers, system calls on its behalf.
 *
 * x86-64 only.  One thread, the tracer, uses it.
 */
#ifndef REPLAY_HOST_LAYOUT_STOPPED_H
#define REPLAY_HOST_LAYOUT_STOPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct sr_stopped {
	pid_t pid;
	int memory;			/* /proc/PID/mem */
	uint64_t code;			/* room for a few bytes of code, which are restored behind each call */
	struct user_regs_struct regs;	/* with which it goes on */
};

/* Waits.  True: it has stopped, with its wait status.  An end is not consumed. */
bool sr_stopped_wait(pid_t pid, int *status);

/* False: /proc or ptrace refuses.  The code is where the process is. */
bool sr_stopped_open(struct sr_stopped *s, pid_t pid);
void sr_stopped_close(struct sr_stopped *s);

bool sr_stopped_read(const struct sr_stopped *s, uint64_t at, void *to, size_t size);
/* Writes read-only private memory, too. */
bool sr_stopped_write(const struct sr_stopped *s, uint64_t at, const void *from, size_t size);

/* Makes the process do a system call: its result, or -EIO. */
long sr_stopped_call(const struct sr_stopped *s, long nr, const uint64_t a[6]);

/* A line of /proc/PID/maps. */
struct sr_mapping {
	uint64_t from, to;
	char name[256]; /* empty: anonymous.  A longer path is cut. */
};

/* In ascending order. */
struct sr_mappings {
	struct sr_mapping *list;
	size_t n;
};

/* False: they cannot be read. */
bool sr_mappings_read(struct sr_mappings *m, pid_t pid);
void sr_mappings_free(struct sr_mappings *m);

#endif
