/* SPDX-License-Identifier: BSD-2-Clause */
/* addresses.c: address handles for who sent a message, and the Ethernet address of a GID. */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

static int find_gid(struct ibv_context *context, uint8_t port, const union ibv_gid *wanted)
{
	union ibv_gid gid;

	for (int i = 0; !ibv_query_gid(context, port, i, &gid); i++)
		if (!memcmp(&gid, wanted, sizeof(gid)))
			return i;
	return -1;
}

static void map_ipv4(union ibv_gid *gid, const uint8_t *address)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	memcpy(gid->raw, prefix, sizeof(prefix));
	memcpy(gid->raw + sizeof(prefix), address, 4);
}

/* With RoCE v2 these 40 bytes hold an IPv6 header, or end with an IPv4 header. */
static int read_header(const struct ibv_grh *grh, struct ibv_global_route *route,
		       union ibv_gid *received_at)
{
	const uint8_t *ipv4 = (const uint8_t *)grh + 20;
	uint32_t word = be32toh(grh->version_tclass_flow);

	if (word >> 28 == 6) {
		*received_at = grh->dgid;
		route->dgid = grh->sgid;
		route->flow_label = word & 0xfffff;
		route->traffic_class = (uint8_t)(word >> 20);
		route->hop_limit = 0xff;
		return 0;
	}
	if (ipv4[0] != 0x45)
		return EINVAL;
	map_ipv4(received_at, ipv4 + 16);
	map_ipv4(&route->dgid, ipv4 + 12);
	route->traffic_class = ipv4[1];
	route->hop_limit = ipv4[8];
	return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid received_at;
	int index, err;

	*attr = (struct ibv_ah_attr){
	    .dlid = wc->slid, .sl = wc->sl, .src_path_bits = wc->dlid_path_bits, .port_num = port};
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	err = read_header(grh, &attr->grh, &received_at);
	index = err ? -1 : find_gid(context, port, &received_at);
	if (index < 0) {
		errno = EINVAL;
		return -1;
	}
	attr->grh.sgid_index = (uint8_t)index;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port)
{
	struct ibv_ah_attr attr;

	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL
								      : ibv_create_ah(pd, &attr);
}

/* All GIDs are this device's. The first one is made of this address. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vlan)
{
	static const uint8_t address[ETHERNET_LL_SIZE] = {2, 0, 0, 0, 0, 2};

	if (find_gid(context, attr->port_num, &attr->grh.dgid) < 0)
		return ENETUNREACH;
	memcpy(mac, address, sizeof(address));
	if (vlan)
		*vlan = 0xffff;
	return 0;
}
