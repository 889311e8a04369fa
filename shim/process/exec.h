/* SPDX-License-Identifier: BSD-2-Clause */
/* exec.h: an exec of the recorded program, by libc or by a system call. */
#ifndef SHIM_PROCESS_EXEC_H
#define SHIM_PROCESS_EXEC_H

#include <stdbool.h>

struct sr_exec {
	int directory; /* AT_FDCWD, or that of execveat; fexecve: the program */
	int flags;
	bool search; /* a name without a slash is looked for in PATH */
	const char *path;
	char *const *argv;
	char *const *envp; /* the program's; while it is recorded, the next image's */
	char **made;       /* that, in the shim's heap; or NULL */
};

/* The kernel refuses another one. */
bool sr_exec_is_readable(const struct sr_exec *e);

/* "" if that is no memory. */
const char *sr_exec_path(const struct sr_exec *e);

/*
 * Recording, in a section: records the exec that is about to be made, and adds to its environment
 * what the next image needs.  sr_exec_failed comes after it.
 */
void sr_exec_begins(struct sr_exec *e);
void sr_exec_failed(struct sr_exec *e);

/* Replay: does not return if the recorded program was executed, or did something else. */
void sr_exec_replayed(const struct sr_exec *e, void *site);

#endif
