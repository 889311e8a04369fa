/* SPDX-License-Identifier: BSD-2-Clause */
/* See names.h. */
#include "shim/verbs/clocks/names.h"

#include <string.h>

#include "shim/core/call.h"

void sr_clock_gid_of_lid(uint16_t lid, uint8_t *gid)
{
	memset(gid, 0, SR_GID_BYTES);
	memcpy(gid, "\xff\xffLID", 5);
	gid[14] = (uint8_t)(lid >> 8);
	gid[15] = (uint8_t)lid;
}

static void add_name(struct sr_queue_pair *names, const uint8_t *gid)
{
	static const uint8_t none[SR_GID_BYTES], empty[SR_GID_BYTES] = {0xfe, 0x80};

	if (names->gids == SR_GIDS || !memcmp(gid, none, sizeof(none)) ||
	    !memcmp(gid, empty, sizeof(empty)))
		return;
	for (uint32_t i = 0; i < names->gids; i++)
		if (!memcmp(names->gid[i], gid, SR_GID_BYTES))
			return;
	memcpy(names->gid[names->gids++], gid, SR_GID_BYTES);
}

static void add_names_of_port(struct ibv_context *context, uint8_t port,
			      struct sr_queue_pair *names)
{
	struct ibv_port_attr attr = {0};
	union ibv_gid gid;
	uint8_t lid[SR_GID_BYTES];
	uint64_t a[] = {(uintptr_t)context, port, (uintptr_t)&attr};

	if ((int)sr_real(&sr_calls[SR_CALL_ibv_query_port], a))
		return;
	if (attr.lid) {
		sr_clock_gid_of_lid(attr.lid, lid);
		add_name(names, lid);
	}
	for (int i = 0; i < attr.gid_tbl_len && names->gids < SR_GIDS; i++) {
		uint64_t g[] = {(uintptr_t)context, port, (uint64_t)i, (uintptr_t)&gid};

		/* GID tables are long and filled from the start: stop at the first empty entry. */
		if ((int)sr_real(&sr_calls[SR_CALL_ibv_query_gid], g))
			break;
		if (!gid.global.interface_id && !gid.global.subnet_prefix)
			break;
		add_name(names, gid.raw);
	}
}

uint32_t sr_clock_name_device(struct ibv_context *context, struct sr_queue_pair *names)
{
	struct ibv_device_attr attr;
	uint64_t a[] = {(uintptr_t)context, (uintptr_t)&attr};

	names->gids = 0;
	if ((int)sr_real(&sr_calls[SR_CALL_ibv_query_device], a))
		return 0;
	names->reads = attr.max_qp_rd_atom > 0 ? (uint32_t)attr.max_qp_rd_atom : 0;
	for (uint8_t port = 1; port <= attr.phys_port_cnt; port++)
		add_names_of_port(context, port, names);
	return attr.max_qp_init_rd_atom > 0 ? (uint32_t)attr.max_qp_init_rd_atom : 0;
}
