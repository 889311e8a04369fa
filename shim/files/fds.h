/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.h: which file descriptors are captured: calls on them are recorded, and
 * on replay answered from the trace.  The others (regular files, what is
 * printed) are the program's own in both runs.
 *
 * On replay a captured descriptor is held open by a placeholder, so that the
 * kernel hands out the recorded numbers for everything else.
 */
#ifndef SHIM_FILES_FDS_H
#define SHIM_FILES_FDS_H

#include <stdbool.h>
#include <stdint.h>

/* Larger descriptors are never captured. */
#define SR_MAX_FD 65536

/*
 * Not among the numbers where the recorder and a replay have their own, which differ:
 * what happens to an ordinary one is the same in both runs.
 */
bool sr_fd_is_ordinary(int fd);

/* What an open of the program's found.  Part of the trace format. */
enum sr_fd_class {
	SR_FD_PLAIN,   /* a regular file, a directory, /dev/null, ...: not captured */
	SR_FD_OUTSIDE, /* anything else: devices, FIFOs, /proc, /sys */
};

bool sr_fd_captured(int fd);
void sr_fd_capture(int fd);
void sr_fd_release(int fd);

/*
 * librdmacm opens descriptors that its caller may never see, in the program's
 * thread or in one of its own; a replay must have their numbers taken.  Each
 * record of a librdmacm call has what came and went since the last one: the
 * next number that was captured or released inside the library, and whether it
 * is open now.  False when there is none left.
 */
bool sr_fd_next_change(int32_t *fd, bool *open);

/* Replay: the number becomes taken, and captured. */
void sr_fd_hold(int fd);

/* Replay: the number becomes that of fd, which is closed if it is another. */
void sr_fd_renumber(int fd, int number);

/* Replay: the number becomes free again. */
void sr_fd_drop(int fd);

#endif
