/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h: the daemon's words, to standard error (which is the journal under
 * systemd).  Any thread.
 */
#ifndef LOGD_SERVICE_LOG_H
#define LOGD_SERVICE_LOG_H

__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);

/* Also into daemon.log of the directory dir_fd (of a trace), if that can be written. */
__attribute__((format(printf, 2, 3))) void log_trace(int dir_fd, const char *format, ...);

#endif
