/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/checked.h"

#include "logd/base/checksum.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/wq.h"

bool sr_checks_buffers;

/* Where the bytes can be read without a fault: what the program finds in exposed memory is recorded, but not what is found here. */
static const void *readable(const struct sr_wqe *wqe, const struct ibv_sge *sge)
{
	const void *p = sr_mr_memory(wqe->wq->context, sge->lkey, sge->addr, sge->length);

	if (!p || !sge->length || !sr_regions_on || !sr_exposed_touches(p, sge->length))
		return p;
	return sr_exposed_covers(p, sge->length) ? sr_exposed_backing(p) : NULL;
}

/* False: some of it is no memory any more, or none that can be read so. */
static bool sum(const struct sr_wqe *wqe, uint64_t *checksum)
{
	*checksum = 0;
	for (uint32_t i = 0; i < wqe->num_sge; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		const void *p = readable(wqe, sge);

		if (!p)
			return false;
		if (sge->length)
			*checksum = sr_checksum(p, sge->length, *checksum);
	}
	return wqe->num_sge > 0;
}

void sr_checked_begins(struct sr_wqe *wqe, uint32_t number)
{
	wqe->checked.on = sum(wqe, &wqe->checked.checksum);
	wqe->checked.sn = sr_self.sn + 1; /* the call under way */
	wqe->checked.thread = sr_self.number;
	wqe->checked.number = number;
}

void sr_checked_ends(const struct sr_wqe *wqe)
{
	struct sr_changed_payload p = {.sn = wqe->checked.sn, .thread = wqe->checked.thread, .number = wqe->checked.number};

	if (wqe->checked.on && sum(wqe, &p.checksum) && p.checksum != wqe->checked.checksum)
		sr_engine_note(&sr_self, SR_REC_CHANGED, &p, sizeof(p));
}
