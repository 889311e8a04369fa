/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h: the shim's messages to the user, one line each, on standard error. */
#ifndef LOGD_BASE_SAY_H
#define LOGD_BASE_SAY_H

/* Adds "sreplay: " and the newline.  Formats with libc, writes by the system call itself. */
void sr_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
