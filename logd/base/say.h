/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h: the shim's own words, one line on standard error, straight to the kernel. */
#ifndef LOGD_BASE_SAY_H
#define LOGD_BASE_SAY_H

void sr_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
