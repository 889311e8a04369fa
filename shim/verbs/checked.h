/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checked.h: does what a request sends stay as it is until the request is over (record --check-buffers)?
 *
 * A checksum of the bytes is taken at the post, and again when the program polls the completion: until then the device may read
 * them.  Where they differ, a record says so (SR_REC_CHANGED).
 */
#ifndef SHIM_VERBS_CHECKED_H
#define SHIM_VERBS_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"

struct sr_wqe;

extern bool sr_checks_buffers SR_HIDDEN;

/* The thread is about to post the request, which has kept its list, as the call's request of this number. */
void sr_checked_begins(struct sr_wqe *wqe, uint32_t number);
/* It has succeeded, and the call under way gives the program that. */
void sr_checked_ends(const struct sr_wqe *wqe);

#endif
