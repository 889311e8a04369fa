/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.h: which file descriptors are captured. Calls on a captured descriptor are recorded,
 * and a replay answers them from the trace. All other descriptors (regular files, standard
 * output) work normally in both runs.
 *
 * A replay keeps a placeholder open for every captured descriptor. So the kernel gives all
 * other files the numbers that they had in the recording.
 */
#ifndef SHIM_FILES_FDS_H
#define SHIM_FILES_FDS_H

#include <stdbool.h>
#include <stdint.h>

/* Larger descriptors are never captured. */
#define SR_MAX_FD 65536

/* The recorder's own descriptors have numbers from floor on.  A replay is told the same. */
void sr_fd_ordinary_below(int floor);

/* True unless fd is a number that the recorder reserves for itself. */
bool sr_fd_is_ordinary(int fd);

bool sr_fd_captured(int fd);
void sr_fd_capture(int fd);
void sr_fd_release(int fd);

/*
 * Captures a file that other processes write, too.  A replay has the file there, in place of a placeholder, and writes to it what the
 * program writes, but what the program reads there comes from the trace.
 */
void sr_fd_capture_file(int fd);
/* The descriptor leads to a file.  Do other processes write it, too?  Else it is not captured. */
void sr_fd_found_file(int fd, bool shared);
/* Is it captured so? */
bool sr_fd_is_captured_file(int fd);
/* Is it captured, with a placeholder in a replay? */
bool sr_fd_is_held(int fd);

/* `to` is a duplicate of `from`: it is captured if that is. */
void sr_fd_share(int from, int to);

/* The first listener is called when a captured descriptor ends, before the number is free; the second for a duplicate of one. */
void sr_fd_listen(void (*on_release)(int fd), void (*on_share)(int from, int to));

/*
 * librdmacm opens descriptors that its caller may never see, in the program's thread or in a
 * thread of its own. A replay must keep these numbers occupied. So each record of a librdmacm call
 * lists the descriptors that the library captured or released since the previous such record. This
 * function returns the next one, and whether it is open now; false when none is left.
 */
bool sr_fd_next_change(int32_t *fd, bool *open);

/*
 * A descriptor has the lowest free number for a moment, before it gets another one. A replay gives
 * descriptors their recorded numbers, whatever has these; so both hold this lock meanwhile. In a
 * section.
 */
void sr_fd_lock_numbers(void);
void sr_fd_unlock_numbers(void);

/* Replay: occupies the number with a placeholder and captures it. */
void sr_fd_hold(int fd);

/* Replay: a duplicate that the program does not see, or -1: the program may close its own before it is needed. */
int sr_fd_keep(int fd);

/* Replay: moves the open file fd to the given number. */
void sr_fd_renumber(int fd, int number);

/* Replay: frees the number again, if it is captured. */
void sr_fd_drop(int fd);

#endif
