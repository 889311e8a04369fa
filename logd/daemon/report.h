/* SPDX-License-Identifier: BSD-2-Clause */
/* report.h: the text of sreplay-logd --status. */
#ifndef LOGD_DAEMON_REPORT_H
#define LOGD_DAEMON_REPORT_H

struct recordings;

/* A memfd with the text, or -errno. */
int report_make(const struct recordings *list, const char *socket_path);

#endif
