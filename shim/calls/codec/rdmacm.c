/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmacm.c: the structs that librdmacm shows to a program.
 *
 * Programs read an rdma_cm_id: its addresses, and the device, queue pair, completion queues and
 * channels that the library made for it.  Events lead to such identifiers.  So the record of a call
 * that may have changed one has the memory of all of them, and a replay puts that memory where it
 * was.  Unchanged memory is recorded again: these calls are few, and a record that depends on no
 * other record holds in any order of threads.
 */
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include <netinet/in.h>
#include <stdlib.h>

#include "shim/calls/codec/custom.h"
#include "shim/files/fds.h"
#include "shim/memory/heap.h"

/* -------------------------------------------------------- memory and devices */

/* Adds memory that the program can reach, if a library allocated it. */
static void reach(struct sr_list *l, const void *p, size_t size)
{
	struct sr_wire_segment v = {(uintptr_t)p, {p, (uint32_t)size}};

	if (!size || !sr_heap_in_library_arena(p, size))
		return;
	sr_put_segment_fields(l->b, &v);
	l->n++;
}

static void reach_text(struct sr_list *l, const char *s)
{
	if (s)
		reach(l, s, strlen(s) + 1);
}

/* Puts recorded memory where it was. */
static void place_memory(struct sr_cursor *c)
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

static void reach_event(struct sr_list *l, const struct rdma_cm_event *event)
{
	/* The events of connections and of datagrams have their data at the same place. */
	const struct rdma_conn_param *param = &event->param.conn;

	reach(l, event, sizeof(*event));
	reach(l, param->private_data, param->private_data_len);
}

static void reach_id(struct sr_list *l, const struct rdma_cm_id *id)
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

static void put_device(struct sr_list *l, struct ibv_context *context)
{
	/* The memory of an unplugged device may be another object by now. */
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
	struct sr_list devices = sr_list_begin(b), memory;

	if (id)
		put_device(&devices, id->verbs);
	sr_list_end(&devices);
	memory = sr_list_begin(b);
	if (id)
		reach_id(&memory, id);
	sr_list_end(&memory);
}

void sr_deliver_cm_id(struct sr_cursor *c, struct rdma_cm_id *id)
{
	deliver_devices(c);
	place_memory(c);
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
	struct sr_list devices = sr_list_begin(b), memory;

	if (event->id)
		put_device(&devices, event->id->verbs);
	sr_list_end(&devices);
	memory = sr_list_begin(b);
	reach_event(&memory, event);
	if (event->id)
		reach_id(&memory, event->id);
	if (event->listen_id)
		reach_id(&memory, event->listen_id);
	sr_list_end(&memory);
}

void sr_deliver_cm_event(struct sr_cursor *c, struct rdma_cm_event *event)
{
	deliver_devices(c);
	place_memory(c);
}

void sr_put_opened_list(struct sr_buf *b, struct ibv_context **list)
{
	struct sr_list devices = sr_list_begin(b);

	for (; list && *list; list++)
		put_device(&devices, *list);
	sr_list_end(&devices);
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

	/* The library ignores these members if it knows the queue pair. */
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
		put_param(b, param, id, 0); /* the connecting side chooses the retries */
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
	struct sr_list memory = sr_list_begin(b);

	for (; ai; ai = ai->ai_next) {
		reach(&memory, ai, sizeof(*ai));
		reach(&memory, ai->ai_src_addr, ai->ai_src_len);
		reach(&memory, ai->ai_dst_addr, ai->ai_dst_len);
		reach_text(&memory, ai->ai_src_canonname);
		reach_text(&memory, ai->ai_dst_canonname);
		reach(&memory, ai->ai_route, ai->ai_route_len);
		reach(&memory, ai->ai_connect, ai->ai_connect_len);
	}
	sr_list_end(&memory);
}

void sr_deliver_rdma_addrinfo_list(struct sr_cursor *c, const struct rdma_addrinfo *ai)
{
	place_memory(c);
}

/* ---------------------------------------------------- the library's descriptors */

void sr_put_library_fds(struct sr_buf *b, int unused)
{
	struct sr_wire_library_fd v;
	struct sr_list fds = sr_list_begin(b);
	bool open;

	while (sr_fd_next_change(&v.fd, &open)) {
		v.open = open;
		sr_put_library_fd_fields(b, &v);
		fds.n++;
	}
	sr_list_end(&fds);
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

/* ------------------------------------------------------ the program's own memory */

static void free_programs(void *p)
{
	if (p && !sr_heap_in_library_arena(p, 1))
		free(p);
}

/*
 * A program may have put addresses that it allocated itself into the list (libfabric does).  The
 * library has freed them in the recording, so a replay frees them too.
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
