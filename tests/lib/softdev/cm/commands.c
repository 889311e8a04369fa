/* SPDX-License-Identifier: BSD-2-Clause */
/* commands.c: the commands that a program writes to the device (rdma/rdma_user_cm.h). */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include "internal.h"

#ifndef AF_IB
#define AF_IB 27
#endif

/* A command as it was written, with the length of what follows the header, and the channel. */
struct request {
	struct cm_channel *channel;
	const void *in;
	size_t length;
	size_t room; /* for the response */
};

static void *response(uint64_t pointer)
{
	return (void *)(uintptr_t)pointer;
}

/*
 * Finds the identifier that a command names, once what arrived for it is known. The command's
 * structure starts at r->in.
 */
static struct cm_id *find(const struct request *r, uint32_t handle, int *error)
{
	struct cm_id *id = cm_id_of(r->channel, handle, error);

	if (id && id->state != CM_LISTENING)
		cm_receive(id);
	return id;
}

/* ------------------------------------------------------------ identifiers */

static int qp_type_of(const struct rdma_ucm_create_id *c)
{
	switch (c->ps) {
	case RDMA_PS_TCP:
		return IBV_QPT_RC;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IBV_QPT_UD;
	case RDMA_PS_IB:
		return c->qp_type;
	default:
		return -EINVAL;
	}
}

static int create_id(struct request *r)
{
	const struct rdma_ucm_create_id *c = r->in;
	struct rdma_ucm_create_id_resp *out = response(c->response);
	int type = qp_type_of(c);
	struct cm_id *id;

	if (r->room < sizeof(*out))
		return -ENOSPC;
	if (type < 0)
		return type;
	id = cm_id_make(r->channel, c->ps, (uint8_t)type);
	if (!id)
		return -ENOMEM;
	id->uid = c->uid;
	id->reports = c->uid != 0;
	out->id = id->handle;
	return 0;
}

static int destroy_id(struct request *r)
{
	const struct rdma_ucm_destroy_id *c = r->in;
	struct rdma_ucm_destroy_id_resp *out = response(c->response);
	int error;
	struct cm_id *id = cm_id_of(r->channel, c->id, &error);

	if (r->room < sizeof(*out))
		return -ENOSPC;
	if (!id)
		return error;
	cm_id_destroy(id);
	out->events_reported = id->events_reported;
	return 0;
}

static int migrate_id(struct request *r)
{
	const struct rdma_ucm_migrate_id *c = r->in;
	struct rdma_ucm_migrate_resp *out = response(c->response);
	struct cm_channel *from = cm_channel_find((int)c->fd);
	struct cm_id *id;
	int error;

	if (r->room < sizeof(*out))
		return -ENOSPC;
	if (!from)
		return -EINVAL;
	id = cm_id_of(from, c->id, &error);
	if (!id)
		return error;
	cm_id_move(id, r->channel);
	out->events_reported = id->events_reported;
	return 0;
}

/* -------------------------------------------------------------- addresses */

static int bind_id(struct cm_id *id, const union cm_address *a)
{
	int ret;

	if (id->state != CM_IDLE || !cm_address_length(a))
		return -EINVAL;
	if (!cm_address_is_any(a) && !cm_address_is_local(a))
		return -EADDRNOTAVAIL;
	id->src = *a;
	ret = cm_address_bind(id);
	if (ret) {
		memset(&id->src, 0, sizeof(id->src));
		return ret;
	}
	id->has_device = !cm_address_is_any(a);
	id->state = CM_BOUND;
	return 0;
}

static int bind_ip(struct request *r)
{
	const struct rdma_ucm_bind_ip *c = r->in;
	union cm_address a = {.in6 = c->addr};
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? bind_id(id, &a) : error;
}

static int bind_any_family(struct request *r)
{
	const struct rdma_ucm_bind *c = r->in;
	union cm_address a = {.room = c->addr};
	int error;
	struct cm_id *id = find(r, c->id, &error);

	if (c->reserved || !c->addr_size || c->addr_size != cm_address_length(&a))
		return -EINVAL;
	return id ? bind_id(id, &a) : error;
}

/* The source is the address itself: all that can be reached is this host. */
static union cm_address source_for(const union cm_address *dst)
{
	union cm_address src = *dst;

	cm_address_set_port(&src, 0);
	return src;
}

static int resolve(struct cm_id *id, const union cm_address *src, const union cm_address *dst)
{
	union cm_address to = *dst, from;
	uint16_t port;
	int ret;

	if (!cm_address_length(dst) || (id->state != CM_IDLE && id->state != CM_BOUND))
		return -EINVAL;
	if (cm_address_is_any(&to))
		cm_address_set_loopback(&to);
	if (!cm_address_is_local(&to)) {
		cm_event_add(id, CM_ADDR_ERROR, -ENODEV);
		return 0;
	}
	if (id->state == CM_IDLE) {
		from = src && cm_address_length(src) ? *src : source_for(&to);
		ret = bind_id(id, &from);
		if (ret)
			return ret;
	}
	if (cm_address_is_any(&id->src)) {
		port = cm_address_port(&id->src);
		id->src = source_for(&to);
		cm_address_set_port(&id->src, port);
	}
	id->dst = to;
	id->has_device = true;
	id->state = CM_ADDRESS_KNOWN;
	cm_event_add(id, CM_ADDR_RESOLVED, 0);
	return 0;
}

static int resolve_ip(struct request *r)
{
	const struct rdma_ucm_resolve_ip *c = r->in;
	union cm_address src = {.in6 = c->src_addr}, dst = {.in6 = c->dst_addr};
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? resolve(id, &src, &dst) : error;
}

static int resolve_addr(struct request *r)
{
	const struct rdma_ucm_resolve_addr *c = r->in;
	union cm_address src = {.room = c->src_addr}, dst = {.room = c->dst_addr};
	int error;
	struct cm_id *id = find(r, c->id, &error);

	if (c->reserved || !c->dst_size || c->dst_size != cm_address_length(&dst) ||
	    (c->src_size && c->src_size != cm_address_length(&src)))
		return -EINVAL;
	return id ? resolve(id, c->src_size ? &src : NULL, &dst) : error;
}

static int route_found(struct cm_id *id)
{
	if (id->state != CM_ADDRESS_KNOWN)
		return -EINVAL;
	id->state = CM_ROUTE_KNOWN;
	cm_event_add(id, CM_ROUTE_RESOLVED, 0);
	return 0;
}

static int resolve_route(struct request *r)
{
	const struct rdma_ucm_resolve_route *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? route_found(id) : error;
}

/* ---------------------------------------------------------------- queries */

static int query_route(struct request *r)
{
	const struct rdma_ucm_query *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	/* Without the index at its end: that was added later. */
	if (r->room < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	return id ? cm_query_route(id, response(c->response), r->room) : error;
}

static int query(struct request *r)
{
	const struct rdma_ucm_query *c = r->in;
	size_t least = offsetof(struct rdma_ucm_query_addr_resp, ibdev_index);
	int error;
	struct cm_id *id = find(r, c->id, &error);

	if (c->option == RDMA_USER_CM_QUERY_PATH)
		least = sizeof(struct rdma_ucm_query_path_resp);
	if (r->room < least)
		return -ENOSPC;
	return id ? cm_query(id, c->option, response(c->response), r->room) : error;
}

static int init_qp_attr(struct request *r)
{
	const struct rdma_ucm_init_qp_attr *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	if (r->room < sizeof(struct ib_uverbs_qp_attr))
		return -ENOSPC;
	return id ? cm_init_qp_attr(id, c->qp_state, response(c->response), r->room) : error;
}

/* ------------------------------------------------------------ connections */

static int connect_id(struct request *r)
{
	struct rdma_ucm_connect c = {.id = 0};
	struct cm_id *id;
	int error;

	memcpy(&c, r->in, r->length < sizeof(c) ? r->length : sizeof(c));
	if (!c.conn_param.valid)
		return -EINVAL;
	id = find(r, c.id, &error);
	return id ? cm_connect(id, &c) : error;
}

static int listen_id(struct request *r)
{
	const struct rdma_ucm_listen *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? cm_listen(id, c->backlog) : error;
}

static int accept_id(struct request *r)
{
	const struct rdma_ucm_accept *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? cm_accept(id, c, r->length) : error;
}

static int reject_id(struct request *r)
{
	const struct rdma_ucm_reject *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? cm_reject(id, c) : error;
}

static int disconnect_id(struct request *r)
{
	const struct rdma_ucm_disconnect *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? cm_disconnect(id) : error;
}

static int notify_id(struct request *r)
{
	const struct rdma_ucm_notify *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	return id ? cm_notify(id, c->event) : error;
}

/* ---------------------------------------------------------------- options */

static int set_id_option(struct cm_id *id, uint32_t name, const void *value, uint32_t length)
{
	int number = 0;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return length == 1 ? 0 : -EINVAL;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (length != sizeof(number))
			return -EINVAL;
		memcpy(&number, value, sizeof(number));
		if (name == RDMA_OPTION_ID_REUSEADDR)
			id->reuse_address = number;
		else if (id->state != CM_IDLE)
			return -EINVAL;
		else
			id->only_own_family = number;
		return 0;
	default:
		return -ENOSYS;
	}
}

/* The route itself is no matter: there is but one. */
static int set_path(struct cm_id *id, const struct ib_path_rec_data *data, uint32_t length)
{
	uint32_t flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

	if (!length || length % sizeof(*data))
		return -EINVAL;
	for (uint32_t n = 0; n < length / sizeof(*data); n++)
		if (data[n].flags == flags)
			return route_found(id);
	return -EINVAL;
}

static int set_option(struct request *r)
{
	const struct rdma_ucm_set_option *c = r->in;
	int error;
	struct cm_id *id = find(r, c->id, &error);

	if (!id)
		return error;
	if (c->level == RDMA_OPTION_ID)
		return set_id_option(id, c->optname, response(c->optval), c->optlen);
	if (c->level == RDMA_OPTION_IB && c->optname == RDMA_OPTION_IB_PATH)
		return set_path(id, response(c->optval), c->optlen);
	return -ENOSYS;
}

/* -------------------------------------------------------------- multicast */

/* As the kernel does for RoCE v2. */
static void group_gid(uint8_t gid[16], const union cm_address *a)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (a->sa.sa_family == AF_INET && a->in.sin_addr.s_addr) {
		memcpy(gid, mapped, sizeof(mapped));
		memcpy(gid + 12, &a->in.sin_addr, 4);
	} else if (a->sa.sa_family == AF_INET6) {
		memcpy(gid, &a->in6.sin6_addr, 16);
	} else if (a->sa.sa_family == AF_IB) {
		memcpy(gid, &a->ib.sib_addr, 16);
	}
}

static int join(struct cm_id *id, uint64_t uid, const union cm_address *a,
		struct rdma_ucm_create_id_resp *out)
{
	struct cm_group *group;
	struct cm_event *e;
	uint8_t gid[16] = {0};

	if (!id->has_device || !cm_is_datagram(id))
		return -EINVAL;
	group = cm_group_join(id, uid);
	if (!group)
		return -ENOMEM;
	out->id = group->handle;
	e = cm_group_event(id, group);
	if (!e)
		return 0;
	group_gid(gid, a);
	cm_fill_ah(&e->resp.param.ud.ah_attr, gid);
	e->resp.param.ud.qp_num = 0xffffff;
	e->resp.param.ud.qkey = id->qkey;
	return 0;
}

static int join_ip_mcast(struct request *r)
{
	const struct rdma_ucm_join_ip_mcast *c = r->in;
	union cm_address a = {.in6 = c->addr};
	int error;
	struct cm_id *id = find(r, c->id, &error);

	if (r->room < sizeof(struct rdma_ucm_create_id_resp))
		return -ENOSPC;
	return id ? join(id, c->uid, &a, response(c->response)) : error;
}

static int join_mcast(struct request *r)
{
	const struct rdma_ucm_join_mcast *c = r->in;
	union cm_address a = {.room = c->addr};
	int error;
	struct cm_id *id = find(r, c->id, &error);

	if (r->room < sizeof(struct rdma_ucm_create_id_resp))
		return -ENOSPC;
	if (!c->addr_size || c->addr_size != cm_address_length(&a) ||
	    c->join_flags > RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return -EINVAL;
	return id ? join(id, c->uid, &a, response(c->response)) : error;
}

static int leave_mcast(struct request *r)
{
	const struct rdma_ucm_destroy_id *c = r->in;
	struct rdma_ucm_destroy_id_resp *out = response(c->response);
	struct cm_group *group = cm_group_find(c->id);
	struct cm_id *id = group ? cm_id_find(group->id) : NULL;

	if (r->room < sizeof(*out))
		return -ENOSPC;
	if (!id)
		return -ENOENT;
	if (id->channel != r->channel)
		return -EINVAL;
	cm_group_leave(group);
	out->events_reported = group->events_reported;
	return 0;
}

/* ----------------------------------------------------------------- events */

static int get_event(struct request *r, int fd)
{
	const struct rdma_ucm_get_event *c = r->in;
	size_t length = sizeof(struct rdma_ucm_event_resp);
	struct cm_event *e;
	struct cm_id *id;
	int error;

	if (r->room < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	e = cm_channel_take_event(fd, &r->channel, &error);
	if (!e)
		return error;
	memcpy(response(c->response), &e->resp, r->room < length ? r->room : length);
	id = cm_id_find(e->id);
	id->events_reported++;
	if (e->group)
		cm_group_find(e->group - 1)->events_reported++;
	if (e->arrived)
		cm_id_find(e->arrived - 1)->listener = 0;
	cm_event_free(e);
	return 0;
}

/* --------------------------------------------------------------- dispatch */

static const struct {
	int (*run)(struct request *r);
	size_t least; /* bytes after the header */
} commands[] = {
    [RDMA_USER_CM_CMD_CREATE_ID] = {create_id, sizeof(struct rdma_ucm_create_id)},
    [RDMA_USER_CM_CMD_DESTROY_ID] = {destroy_id, sizeof(struct rdma_ucm_destroy_id)},
    [RDMA_USER_CM_CMD_BIND_IP] = {bind_ip, sizeof(struct rdma_ucm_bind_ip)},
    [RDMA_USER_CM_CMD_RESOLVE_IP] = {resolve_ip, sizeof(struct rdma_ucm_resolve_ip)},
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {resolve_route, sizeof(struct rdma_ucm_resolve_route)},
    [RDMA_USER_CM_CMD_QUERY_ROUTE] = {query_route, offsetof(struct rdma_ucm_query, option)},
    [RDMA_USER_CM_CMD_CONNECT] = {connect_id, offsetof(struct rdma_ucm_connect, ece)},
    [RDMA_USER_CM_CMD_LISTEN] = {listen_id, sizeof(struct rdma_ucm_listen)},
    [RDMA_USER_CM_CMD_ACCEPT] = {accept_id, offsetof(struct rdma_ucm_accept, ece)},
    [RDMA_USER_CM_CMD_REJECT] = {reject_id, sizeof(struct rdma_ucm_reject)},
    [RDMA_USER_CM_CMD_DISCONNECT] = {disconnect_id, sizeof(struct rdma_ucm_disconnect)},
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = {init_qp_attr, sizeof(struct rdma_ucm_init_qp_attr)},
    [RDMA_USER_CM_CMD_SET_OPTION] = {set_option, sizeof(struct rdma_ucm_set_option)},
    [RDMA_USER_CM_CMD_NOTIFY] = {notify_id, sizeof(struct rdma_ucm_notify)},
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {join_ip_mcast, sizeof(struct rdma_ucm_join_ip_mcast)},
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = {leave_mcast, sizeof(struct rdma_ucm_destroy_id)},
    [RDMA_USER_CM_CMD_MIGRATE_ID] = {migrate_id, sizeof(struct rdma_ucm_migrate_id)},
    [RDMA_USER_CM_CMD_QUERY] = {query, sizeof(struct rdma_ucm_query)},
    [RDMA_USER_CM_CMD_BIND] = {bind_any_family, sizeof(struct rdma_ucm_bind)},
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = {resolve_addr, sizeof(struct rdma_ucm_resolve_addr)},
    [RDMA_USER_CM_CMD_JOIN_MCAST] = {join_mcast, sizeof(struct rdma_ucm_join_mcast)},
};

static int run(int fd, struct request *r, unsigned int command)
{
	if (command == RDMA_USER_CM_CMD_GET_EVENT)
		return r->length < sizeof(struct rdma_ucm_get_event) ? -EINVAL : get_event(r, fd);
	if (command >= sizeof(commands) / sizeof(commands[0]))
		return -EINVAL;
	if (!commands[command].run) /* GET_OPTION, which the kernel does not have either */
		return -ENOSYS;
	return r->length < commands[command].least ? -EINVAL : commands[command].run(r);
}

ssize_t cm_command(int fd, const void *buffer, size_t length)
{
	const struct rdma_ucm_cmd_hdr *header = buffer;
	struct request r = {.in = header + 1};
	int ret;

	cm_lock();
	r.channel = cm_channel_find(fd);
	if (!r.channel) {
		ret = -EBADF;
	} else if (length < sizeof(*header) || header->in + sizeof(*header) > length) {
		ret = -EINVAL;
	} else {
		r.length = header->in;
		r.room = header->out;
		ret = run(fd, &r, header->cmd);
	}
	cm_unlock();
	return ret ? ret : (ssize_t)length;
}
