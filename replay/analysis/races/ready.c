/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/ready.h"

void sr_ready_push(struct sr_ready *r, uint32_t moment)
{
	size_t i = r->n++;

	while (i && r->at[(i - 1) / 2] > moment) {
		r->at[i] = r->at[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	r->at[i] = moment;
}

uint32_t sr_ready_pop(struct sr_ready *r)
{
	uint32_t top = r->at[0], last = r->at[--r->n];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < r->n) {
		if (child + 1 < r->n && r->at[child + 1] < r->at[child])
			child++;
		if (r->at[child] >= last)
			break;
		r->at[i] = r->at[child];
		i = child;
	}
	r->at[i] = last;
	return top;
}
