/* SPDX-License-Identifier: BSD-2-Clause */
/* regions.h: keys, and the memory behind them; with the lock held. */
#ifndef SOFTDEV_REGIONS_H
#define SOFTDEV_REGIONS_H

#include "fabric.h"

/* The region or bound memory window with this key; NULL if there is none. */
struct sd_region *sd_region_find(uint32_t key);

/* A part of some process's memory. */
struct sd_span {
	char *at;    /* here, or NULL */
	int32_t pid; /* else: in this process ... */
	uint64_t address;
	uint64_t length;
};

#define SD_SPANS 64

struct sd_spans {
	struct sd_span v[SD_SPANS];
	uint32_t n;
};

/*
 * Appends the memory of that range, if the key covers it, belongs to the domain and allows the
 * access; else false. qpn: the queue pair that the request came by.
 */
bool sd_region_spans(uint32_t key, uint32_t pd, uint32_t qpn, uint64_t addr, uint64_t length,
		     int access, struct sd_spans *spans);

/* Copies as much as both have.  Words that are aligned at the target are written whole, in
 * ascending order. */
void sd_copy(struct sd_spans *to, struct sd_spans *from);

/* Requests to bind and to invalidate; a completion's status. */
int sd_bind(struct sd_qp *qp, const struct sd_send *s);
int sd_invalidate(const struct sd_qp *qp, uint32_t key, bool is_remote);

#endif
