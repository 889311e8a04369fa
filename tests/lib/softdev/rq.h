/* SPDX-License-Identifier: BSD-2-Clause */
/* rq.h: receive queues, of a queue pair or shared; with the lock held. */
#ifndef SOFTDEV_RQ_H
#define SOFTDEV_RQ_H

#include "fabric.h"

/* false if there is no room in the fabric. */
bool sd_rq_make(struct sd_rq *rq, uint32_t max_wr, uint32_t max_sge);
void sd_rq_end(struct sd_rq *rq);

#endif
