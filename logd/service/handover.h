/* SPDX-License-Identifier: BSD-2-Clause */
/* handover.h: from one daemon to the next one of the same user. */
#ifndef LOGD_SERVICE_HANDOVER_H
#define LOGD_SERVICE_HANDOVER_H

/*
 * A daemon that was killed, or told to end, may keep its lock and its port for so long:
 * its successor tries again until then.
 */
#define HANDOVER_MS 3000

#endif
