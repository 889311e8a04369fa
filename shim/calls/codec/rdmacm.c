/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmacm.c: what librdmacm shows to a program.
 *
 * An rdma_cm_id is a struct that programs read: its addresses, and the device,
 * queue pair, queues and channels that the library made for it.  Events lead to
 * such identifiers.  So the record of a call that may have changed one has the
 * memory of all of them, and a replay lays that memory where it was.  Pieces
 * that did not change are recorded again: these calls are few, and a record that
 * depends on no other one holds in any order of threads.
 */
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include <netinet/in.h>
#include <stdlib.h>

#include "shim/calls/codec/custom.h"
#include "shim/files/fds.h"
#include "shim/memory/heap.h"

/* ----------------------------------------------------------- lists in records */

/* Values whose number is known when all are written. */
struct list {
	struct sr_buf *b;
	size_t count_at;
	uint32_t n;
};

static struct list begin(struct sr_buf *b)
{
	struct list l = {.b = b, .count_at = b->len};

	sr_put_u32(b, 0);
	return l;
}

static void end(struct list *l)
{
	if (l->b->len >= l->count_at + sizeof(l->n))
		memcpy(l->b->p + l->count_at, &l->n, sizeof(l->n));
}

/* Memory that the program can reach; what a library did not allocate is not told by it. */
static void reach(struct list *l, const void *p, size_t size)
{
	struct sr_wire_segment v = {(uintptr_t)p, {p, (uint32_t)size}};

	if (!size || !sr_heap_in_library_arena(p, size))
		return;
	sr_put_segment_fields(l->b, &v);
	l->n++;
}

static void reach_text(struct list *l, const char *s)
{
	if (s)
		reach(l, s, strlen(s) + 1);
}

static void lay(struct sr_cursor *c)
{
	for (uint32_t left = sr_get_u32(c); left && !c->bad; left--) {
		struct sr_wire_segment v;
		void *p;

		sr_get_segment_fields(c, &v);
		p = (void *)(uintptr_t)v.addr;
		if (c->bad || !sr_heap_in_library_arena(p, v.data.n)) {
			c->bad = true;
			return;
		}
		memcpy(p, v.data.p, v.data.n);
	}
}

/* ---------------------------------------------------- identifiers and events */

static void reach_event(struct list *l, const struct rdma_cm_event *event)
{
	/* The data of a connection's and of a datagram's event are at the same place. */
	const struct rdma_conn_param *param = &event->param.conn;

	reach(l, event, sizeof(*event));
	reach(l, param->private_data, param->private_data_len);
}

static void reach_id(struct list *l, const struct rdma_cm_id *id)
{
	reach(l, id, sizeof(*id));
	reach(l, id->channel, sizeof(*id->channel));
	reach(l, id->route.path_rec, (size_t)id->route.num_paths * sizeof(*id->route.path_rec));
	reach(l, id->pd, sizeof(*id->pd));
	reach(l, id->qp, sizeof(*id->qp));
	reach(l, id->srq, sizeof(*id->srq));
	reach(l, id->send_cq_channel, sizeof(*id->send_cq_channel));
	reach(l, id->send_cq, sizeof(*id->send_cq));
	reach(l, id->recv_cq_channel, sizeof(*id->recv_cq_channel));
	reach(l, id->recv_cq, sizeof(*id->recv_cq));
	if (id->event)
		reach_event(l, id->event);
}

static void put_device(struct list *l, struct ibv_context *context)
{
	/* Of a device that was unplugged the memory may be another object's. */
	if (!context || !sr_context_find(context))
		return;
	sr_put_opened(l->b, context);
	l->n++;
}

static void deliver_devices(struct sr_cursor *c)
{
	for (uint32_t left = sr_get_u32(c); left && !c->bad; left--)
		sr_deliver_opened(c);
}

void sr_put_cm_id(struct sr_buf *b, const struct rdma_cm_id *id)
{
	struct list devices = begin(b), memory;

	if (id)
		put_device(&devices, id->verbs);
	end(&devices);
	memory = begin(b);
	if (id)
		reach_id(&memory, id);
	end(&memory);
}

void sr_deliver_cm_id(struct sr_cursor *c, struct rdma_cm_id *id)
{
	deliver_devices(c);
	lay(c);
}

void sr_put_cm_event_kind(struct sr_buf *b, const struct rdma_cm_event *event)
{
	struct sr_wire_cm_event_kind v = {event->event, event->status};

	sr_put_cm_event_kind_fields(b, &v);
}

void sr_deliver_cm_event_kind(struct sr_cursor *c, const struct rdma_cm_event *event)
{
	struct sr_wire_cm_event_kind v;

	sr_get_cm_event_kind_fields(c, &v);
}

void sr_put_cm_event(struct sr_buf *b, const struct rdma_cm_event *event)
{
	struct list devices = begin(b), memory;

	if (event->id)
		put_device(&devices, event->id->verbs);
	end(&devices);
	memory = begin(b);
	reach_event(&memory, event);
	if (event->id)
		reach_id(&memory, event->id);
	if (event->listen_id)
		reach_id(&memory, event->listen_id);
	end(&memory);
}

void sr_deliver_cm_event(struct sr_cursor *c, struct rdma_cm_event *event)
{
	deliver_devices(c);
	lay(c);
}

void sr_put_opened_list(struct sr_buf *b, struct ibv_context **list)
{
	struct list devices = begin(b);

	for (; list && *list; list++)
		put_device(&devices, *list);
	end(&devices);
}

void sr_deliver_opened_list(struct sr_cursor *c, struct ibv_context **list)
{
	uint32_t n = sr_get_u32(c);

	if (!list)
		return;
	if (!sr_heap_in_library_arena(list, ((size_t)n + 1) * sizeof(*list))) {
		c->bad = true;
		return;
	}
	for (uint32_t i = 0; i < n && !c->bad; i++)
		list[i] = sr_deliver_opened(c);
	list[n] = NULL;
}

/* ------------------------------------------------------------------ arguments */

static socklen_t length_of(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return sizeof(addr->sa_family);
	}
}

void sr_put_cm_sockaddr(struct sr_buf *b, const struct sockaddr *addr)
{
	sr_put_sockaddr(b, addr, addr ? length_of(addr) : 0);
}

static void put_param(struct sr_buf *b, const struct rdma_conn_param *param,
		      const struct rdma_cm_id *id, uint8_t retry_count)
{
	struct sr_wire_rdma_conn_param v = {
	    .private_data = {param->private_data,
			     param->private_data ? param->private_data_len : 0},
	    .responder_resources = param->responder_resources,
	    .initiator_depth = param->initiator_depth,
	    .flow_control = param->flow_control,
	    .retry_count = retry_count,
	    .rnr_retry_count = param->rnr_retry_count,
	};

	/* The library does not look at them if it knows the queue pair. */
	if (!id->qp) {
		v.srq = param->srq;
		v.qp_num = param->qp_num;
	}
	sr_put_rdma_conn_param_fields(b, &v);
}

void sr_put_connect_param(struct sr_buf *b, const struct rdma_conn_param *param,
			  const struct rdma_cm_id *id)
{
	sr_put_u8(b, param != NULL);
	if (param)
		put_param(b, param, id, param->retry_count);
}

void sr_put_accept_param(struct sr_buf *b, const struct rdma_conn_param *param,
			 const struct rdma_cm_id *id)
{
	sr_put_u8(b, param != NULL);
	if (param)
		put_param(b, param, id, 0); /* the retries are the connecting side's to choose */
}

void sr_put_rdma_addrinfo(struct sr_buf *b, const struct rdma_addrinfo *ai)
{
	struct sr_wire_rdma_addrinfo v;

	sr_put_u8(b, ai != NULL);
	if (!ai)
		return;
	v = (struct sr_wire_rdma_addrinfo){
	    .flags = ai->ai_flags,
	    .family = ai->ai_family,
	    .qp_type = ai->ai_qp_type,
	    .port_space = ai->ai_port_space,
	    .src_addr = {ai->ai_src_addr, ai->ai_src_len},
	    .dst_addr = {ai->ai_dst_addr, ai->ai_dst_len},
	    .route = {ai->ai_route, (uint32_t)ai->ai_route_len},
	    .connect = {ai->ai_connect, (uint32_t)ai->ai_connect_len},
	};
	sr_put_rdma_addrinfo_fields(b, &v);
}

void sr_put_rdma_addrinfo_list(struct sr_buf *b, const struct rdma_addrinfo *ai)
{
	struct list memory = begin(b);

	for (; ai; ai = ai->ai_next) {
		reach(&memory, ai, sizeof(*ai));
		reach(&memory, ai->ai_src_addr, ai->ai_src_len);
		reach(&memory, ai->ai_dst_addr, ai->ai_dst_len);
		reach_text(&memory, ai->ai_src_canonname);
		reach_text(&memory, ai->ai_dst_canonname);
		reach(&memory, ai->ai_route, ai->ai_route_len);
		reach(&memory, ai->ai_connect, ai->ai_connect_len);
	}
	end(&memory);
}

void sr_deliver_rdma_addrinfo_list(struct sr_cursor *c, const struct rdma_addrinfo *ai)
{
	lay(c);
}

/* The numbers below nfds that are in the set: what lies behind is not looked at. */
void sr_put_fd_numbers(struct sr_buf *b, const fd_set *set, int nfds)
{
	uint8_t bits[sizeof(fd_set)] = {0};
	int n = nfds < 0 ? 0 : nfds > FD_SETSIZE ? FD_SETSIZE : nfds;

	for (int fd = 0; set && fd < n; fd++)
		if (FD_ISSET(fd, set))
			bits[fd / 8] |= (uint8_t)(1 << fd % 8);
	sr_put_bytes(b, set ? bits : NULL, ((size_t)n + 7) / 8);
}

/* ---------------------------------------------------- the library's descriptors */

void sr_put_library_fds(struct sr_buf *b, int unused)
{
	struct sr_wire_library_fd v;
	struct list fds = begin(b);
	bool open;

	while (sr_fd_next_change(&v.fd, &open)) {
		v.open = open;
		sr_put_library_fd_fields(b, &v);
		fds.n++;
	}
	end(&fds);
}

void sr_deliver_library_fds(struct sr_cursor *c, int unused)
{
	for (uint32_t left = sr_get_u32(c); left && !c->bad; left--) {
		struct sr_wire_library_fd v;

		sr_get_library_fd_fields(c, &v);
		if (c->bad)
			return;
		if (v.open)
			sr_fd_hold(v.fd);
		else
			sr_fd_drop(v.fd);
	}
}

/* ---------------------------------------------------- what the program has put in */

static void free_programs(void *p)
{
	if (p && !sr_heap_in_library_arena(p, 1))
		free(p);
}

/*
 * A list that is freed may have addresses in it that the program allocated (libfabric
 * does so): the library freed them in the recording.
 */
void sr_replayed_rdma_freeaddrinfo(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	for (struct rdma_addrinfo *ai = (struct rdma_addrinfo *)a[0]; ai; ai = ai->ai_next) {
		free_programs(ai->ai_connect);
		free_programs(ai->ai_route);
		free_programs(ai->ai_src_canonname);
		free_programs(ai->ai_dst_canonname);
		free_programs(ai->ai_src_addr);
		free_programs(ai->ai_dst_addr);
	}
}
