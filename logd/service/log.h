/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h: the daemon's messages, on standard error (under systemd: in the journal).  Any thread.
 */
#ifndef LOGD_SERVICE_LOG_H
#define LOGD_SERVICE_LOG_H

__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);

/* Also into daemon.log of a trace's directory, dir_fd (-1: none), if that can be written. */
__attribute__((format(printf, 2, 3))) void log_trace(int dir_fd, const char *format, ...);

#endif
