/* SPDX-License-Identifier: BSD-2-Clause */
/* device.c: the device, what it says of itself, and its contexts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "local.h"
#include "raw.h"

#undef ibv_query_port

#define NODE_GUID 0x0200000000000001ull

static struct ibv_device *device;

static struct ibv_device *the_device(void)
{
	if (device)
		return device;
	/* Behind it a provider's own device has more, by which providers tell that it is none of
	 * theirs. */
	device = calloc(1, sizeof(*device) + 256);
	if (!device)
		return NULL;
	device->node_type = IBV_NODE_CA;
	device->transport_type = IBV_TRANSPORT_IB;
	strcpy(device->name, "soft0");
	strcpy(device->dev_name, "uverbs0");
	strcpy(device->dev_path, "/sys/class/infiniband_verbs/uverbs0");
	strcpy(device->ibdev_path, "/sys/class/infiniband/soft0");
	return device;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!list || !(list[0] = the_device())) {
		free(list);
		return sd_refuse(ENOMEM);
	}
	if (num_devices)
		*num_devices = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	return NODE_GUID;
}

int ibv_get_device_index(struct ibv_device *d)
{
	return 0;
}

int ibv_fork_init(void)
{
	return 0;
}

/* A child does not share registered pages with its parent (memory.c). */
enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* ----------------------------------------------------------------- queries */

static const struct ibv_device_attr attributes = {
    .fw_ver = "1.0",
    .node_guid = NODE_GUID,
    .sys_image_guid = NODE_GUID,
    .max_mr_size = UINT64_MAX,
    .page_size_cap = 0xfffff000,
    .vendor_id = 0xffffff,
    .max_qp = SD_MAX_QP,
    .max_qp_wr = SD_MAX_WR,
    .device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
			IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
			IBV_DEVICE_RC_RNR_NAK_GEN,
    .max_sge = SD_MAX_SGE,
    .max_sge_rd = SD_MAX_SGE,
    .max_cq = SD_MAX_CQ,
    .max_cqe = 1 << 20,
    .max_mr = SD_MAX_REGION - 1,
    .max_pd = 1 << 20,
    .max_qp_rd_atom = 128,
    .max_res_rd_atom = SD_MAX_QP * 128,
    .max_qp_init_rd_atom = 128,
    .atomic_cap = IBV_ATOMIC_HCA,
    .max_mw = SD_MAX_REGION - 1,
    .max_mcast_grp = SD_MAX_MEMBER,
    .max_mcast_qp_attach = SD_MAX_MEMBER,
    .max_total_mcast_qp_attach = SD_MAX_MEMBER,
    .max_ah = 1 << 20,
    .max_srq = SD_MAX_SRQ,
    .max_srq_wr = SD_MAX_WR,
    .max_srq_sge = SD_MAX_SGE,
    .max_pkeys = 1,
    .local_ca_ack_delay = 15,
    .phys_port_cnt = 1,
};

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex all = {
	    .orig_attr = attributes, .phys_port_cnt_ex = 1, .completion_timestamp_mask = ~0ull};

	if (input && input->comp_mask)
		return EINVAL;
	all.device_cap_flags_ex = attributes.device_cap_flags;
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = attributes;
	return 0;
}

static int query_port_ex(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			 size_t size)
{
	struct ibv_port_attr all = {
	    .state = IBV_PORT_ACTIVE,
	    .max_mtu = IBV_MTU_4096,
	    .active_mtu = IBV_MTU_4096,
	    .gid_tbl_len = SD_GIDS,
	    .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
	    .max_msg_sz = 1u << 30,
	    .pkey_tbl_len = 1,
	    .max_vl_num = 1,
	    .active_width = 2,
	    .active_speed = 32,
	    .phys_state = 5,
	    .link_layer = sd_fabric->infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
	    .lid = sd_lid(),
	    .sm_lid = sd_lid(),
	};

	if (port != 1)
		return EINVAL;
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	/* The layout in programs that were compiled before link_layer and flags were added. */
	return query_port_ex(context, port, (struct ibv_port_attr *)attr,
			     offsetof(struct ibv_port_attr, port_cap_flags2));
}

const union ibv_gid sd_gids[SD_GIDS] = {
    {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2}},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}},
};

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index < 0 || index >= SD_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*gid = sd_gids[index];
	return 0;
}

/* Of the loopback interface, which programs that resolve addresses expect. */
#define INTERFACE 1

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = {.gid_index = index,
				  .port_num = port,
				  .gid_type = sd_fabric->infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
				  .ndev_ifindex = INTERFACE};

	if (flags || size < sizeof(e.gid))
		return EINVAL;
	if (ibv_query_gid(context, (uint8_t)port, (int)index, &e.gid))
		return port == 1 ? ENODATA : EINVAL;
	memcpy(entry, &e, size < sizeof(e) ? size : sizeof(e));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t room, uint32_t flags, size_t size)
{
	ssize_t n;

	if (flags || size < sizeof(entries->gid))
		return -EINVAL;
	if (room < SD_GIDS)
		return -EINVAL; /* not one of them is left out */
	for (n = 0; n < SD_GIDS; n++)
		_ibv_query_gid_ex(context, 1, (uint32_t)n,
				  (void *)((char *)entries + (size_t)n * size), 0, size);
	return n;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	return port == 1 && pkey == 0xffff ? 0 : -1;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint64_t now = sd_now();

	values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
	values->raw_clock =
	    (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
	return 0;
}

/* ---------------------------------------------------------------- contexts */

static void add_operations(struct verbs_context *verbs)
{
	struct ibv_context_ops *ops = &verbs->context.ops;

	ops->poll_cq = sd_poll_cq;
	ops->req_notify_cq = sd_req_notify_cq;
	ops->post_send = sd_post_send;
	ops->post_recv = sd_post_recv;
	ops->post_srq_recv = sd_post_srq_recv;
	ops->alloc_mw = sd_alloc_mw;
	ops->bind_mw = sd_bind_mw;
	ops->dealloc_mw = sd_dealloc_mw;
	verbs->sz = sizeof(*verbs);
	verbs->query_device_ex = query_device_ex;
	verbs->query_port = query_port_ex;
	verbs->query_rt_values = query_rt_values;
	verbs->create_cq_ex = sd_create_cq_ex;
	verbs->create_srq_ex = sd_create_srq_ex;
	verbs->get_srq_num = sd_get_srq_num;
	verbs->create_qp_ex = sd_create_qp_ex;
	sd_objects_add_operations(verbs);
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct sd_context *c = calloc(1, sizeof(*c));
	struct ibv_context *context = c ? &c->verbs.context : NULL;
	int err = c ? sd_fabric_attach() : -ENOMEM;

	if (!err) {
		context->async_fd = sd_channel_open(&c->async);
		err = context->async_fd < 0 ? context->async_fd : 0;
	}
	if (err) {
		free(c);
		return sd_refuse(-err);
	}
	context->device = d;
	context->cmd_fd = raw_open("/dev/null", O_RDWR);
	context->num_comp_vectors = 2;
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&context->mutex, NULL);
	add_operations(&c->verbs);
	return context;
}

/*
 * Two functions of 2006 that call today's functions directly, as in a library that is
 * linked with -Bsymbolic-functions.
 */
extern __typeof__(ibv_get_device_list) direct_get_device_list
    __attribute__((alias("ibv_get_device_list"), visibility("hidden")));
extern __typeof__(ibv_open_device) direct_open_device
    __attribute__((alias("ibv_open_device"), visibility("hidden")));

struct ibv_device **sd_get_device_list_1_0(int *num_devices);
struct ibv_context *sd_open_device_1_0(struct ibv_device *d);
__asm__(".symver sd_get_device_list_1_0, ibv_get_device_list@IBVERBS_1.0");
__asm__(".symver sd_open_device_1_0, ibv_open_device@IBVERBS_1.0");

struct ibv_device **sd_get_device_list_1_0(int *num_devices)
{
	return direct_get_device_list(num_devices);
}

struct ibv_context *sd_open_device_1_0(struct ibv_device *d)
{
	return direct_open_device(d);
}

int ibv_close_device(struct ibv_context *context)
{
	struct sd_context *c = sd_context(context);

	sd_channel_close(c->async, context->async_fd);
	raw_close(context->cmd_fd);
	free(c);
	return 0;
}
