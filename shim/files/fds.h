/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.h: which file descriptors are captured.  Calls on these are recorded, and answered from
 * the trace in a replay.  The others (regular files, standard output) are the program's own in
 * both runs.
 *
 * In a replay a placeholder keeps a captured descriptor open, so that the kernel gives the
 * recorded numbers to all other files.
 */
#ifndef SHIM_FILES_FDS_H
#define SHIM_FILES_FDS_H

#include <stdbool.h>
#include <stdint.h>

/* Larger descriptors are never captured. */
#define SR_MAX_FD 65536

/*
 * Is it not among the numbers that the recorder or a replay uses?  These differ; what happens
 * to an ordinary descriptor is the same in both runs.
 */
bool sr_fd_is_ordinary(int fd);

/* What the program has opened.  Part of the trace format. */
enum sr_fd_class {
	SR_FD_PLAIN,   /* a regular file, a directory, /dev/null, ...: not captured */
	SR_FD_OUTSIDE, /* anything else: devices, FIFOs, /proc, /sys */
};

bool sr_fd_captured(int fd);
void sr_fd_capture(int fd);
void sr_fd_release(int fd);

/*
 * librdmacm opens descriptors that its caller may never see, in the program's thread or in one
 * of its own.  A replay must keep their numbers taken.  So each record of a librdmacm call has
 * what changed since the last one: the next number that was captured or released inside the
 * library, and whether it is open now.  False when there is none left.
 */
bool sr_fd_next_change(int32_t *fd, bool *open);

/* Replay: the number becomes taken, and captured. */
void sr_fd_hold(int fd);

/* Replay: the number becomes that of fd, which is closed if it is another. */
void sr_fd_renumber(int fd, int number);

/* Replay: the number becomes free again. */
void sr_fd_drop(int fd);

#endif
