/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/proxy/device.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "logd/base/opcodes.h"

/* The header has these as macros for functions that are not in the library. */
#undef ibv_query_port
#undef ibv_reg_mr

#define PORTS   2
#define CQ_SIZE 16
#define POLLS   1000  /* before it sleeps */
#define LIMIT   10000 /* ms for one request: loopback takes microseconds, its retries 4 s at most */

static struct {
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *d);
	int (*close_device)(struct ibv_context *context);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int n, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int n);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	const char *(*wc_status_str)(enum ibv_wc_status status);
} lib;

struct sr_device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint8_t port;
	struct ibv_port_attr attr;
	bool has_gid; /* else it is reached by its LID */
	int gid_index;
	union ibv_gid gid;
};

/* --------------------------------------------------------------- the library */

static bool load(char *text, size_t size)
{
	static const struct {
		const char *name;
		void *place;
	} names[] = {
	    {"ibv_get_device_list", &lib.get_device_list},
	    {"ibv_free_device_list", &lib.free_device_list},
	    {"ibv_open_device", &lib.open_device},
	    {"ibv_close_device", &lib.close_device},
	    {"ibv_query_port", &lib.query_port},
	    {"ibv_query_gid", &lib.query_gid},
	    {"ibv_alloc_pd", &lib.alloc_pd},
	    {"ibv_reg_mr", &lib.reg_mr},
	    {"ibv_dereg_mr", &lib.dereg_mr},
	    {"ibv_create_comp_channel", &lib.create_comp_channel},
	    {"ibv_create_cq", &lib.create_cq},
	    {"ibv_get_cq_event", &lib.get_cq_event},
	    {"ibv_ack_cq_events", &lib.ack_cq_events},
	    {"ibv_create_qp", &lib.create_qp},
	    {"ibv_modify_qp", &lib.modify_qp},
	    {"ibv_destroy_qp", &lib.destroy_qp},
	    {"ibv_wc_status_str", &lib.wc_status_str},
	};
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW);

	if (!handle) {
		snprintf(text, size, "libibverbs.so.1 is not installed");
		return false;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *function = dlsym(handle, names[i].name);

		if (!function) {
			snprintf(text, size, "libibverbs.so.1 has no %s", names[i].name);
			return false;
		}
		memcpy(names[i].place, &function, sizeof(function));
	}
	return true;
}

/* ---------------------------------------------------------------- the device */

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/* Prefers a GID with an IPv4 address: the others need an IPv6 link. */
static void find_gid(struct sr_device *d)
{
	static const union ibv_gid none;

	for (int i = 0; i < d->attr.gid_tbl_len; i++) {
		union ibv_gid gid;

		if (lib.query_gid(d->context, d->port, i, &gid) ||
		    !memcmp(&gid, &none, sizeof(gid)))
			continue;
		if (d->has_gid && !is_ipv4(&gid))
			continue;
		d->has_gid = true;
		d->gid_index = i;
		d->gid = gid;
		if (is_ipv4(&gid))
			return;
	}
}

static bool find_port(struct sr_device *d)
{
	for (d->port = 1; d->port <= PORTS; d->port++) {
		memset(&d->attr, 0, sizeof(d->attr));
		if (lib.query_port(d->context, d->port, &d->attr) ||
		    d->attr.state != IBV_PORT_ACTIVE)
			continue;
		d->has_gid = false;
		find_gid(d);
		if (d->has_gid || d->attr.link_layer != IBV_LINK_LAYER_ETHERNET)
			return true;
	}
	return false;
}

static bool has_objects(struct sr_device *d)
{
	d->pd = lib.alloc_pd(d->context);
	d->channel = d->pd ? lib.create_comp_channel(d->context) : NULL;
	d->cq = d->channel ? lib.create_cq(d->context, CQ_SIZE, NULL, d->channel, 0) : NULL;
	return d->cq;
}

static void say_device(const struct sr_device *d, const char *name, char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN] = "";

	if (d->has_gid && is_ipv4(&d->gid))
		inet_ntop(AF_INET, d->gid.raw + 12, address, sizeof(address));
	else if (d->has_gid)
		inet_ntop(AF_INET6, d->gid.raw, address, sizeof(address));
	else
		snprintf(address, sizeof(address), "LID %u", d->attr.lid);
	snprintf(text, size, "%s (%s)", name, address);
}

/*
 * Does the device reach itself?  Some cannot be connected like this (iWARP), or have no atomics.
 * That must show here, not during the replay.
 */
static bool does_it(struct sr_device *d, const char *name, char *text, size_t size)
{
	static _Alignas(4096) uint64_t words[512];
	struct ibv_mr *mr = sr_device_register(d, words, sizeof(words));
	struct sr_transfer t = {
	    .opcode = IBV_WR_RDMA_WRITE,
	    .local = words,
	    .local_mr = mr,
	    .remote = words + 1,
	    .remote_mr = mr,
	    .length = sizeof(words[0]),
	    .compare_add = 1,
	};
	char why[64];
	struct sr_wire w;
	int error = mr ? sr_device_connect(d, &w) : -errno;
	bool done;

	words[0] = 41;
	if (error) {
		snprintf(text, size, "%s cannot be connected to itself: %s", name,
			 strerror(-error));
		if (mr)
			sr_device_release(d, mr);
		return false;
	}
	done = sr_device_do(d, &w, 0, &t, why, sizeof(why));
	t.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	done = done && sr_device_do(d, &w, 1, &t, why, sizeof(why));
	if (!done)
		snprintf(text, size, "%s does not reach itself: %s", name, why);
	else if (words[0] != 41 || words[1] != 42)
		snprintf(text, size, "%s does not reach itself", name);
	lib.destroy_qp(w.end[0]);
	lib.destroy_qp(w.end[1]);
	sr_device_release(d, mr);
	return done && words[0] == 41 && words[1] == 42;
}

/* Nothing is freed here after an error: the process ends, and the device's objects with it. */
static bool open_one(struct sr_device *d, struct ibv_device *device, char *text, size_t size)
{
	d->context = lib.open_device(device);
	if (!d->context)
		snprintf(text, size, "%s cannot be opened: %s", device->name, strerror(errno));
	else if (!find_port(d))
		snprintf(text, size, "%s has no active port", device->name);
	else if (!has_objects(d))
		snprintf(text, size, "%s refuses a completion queue: %s", device->name,
			 strerror(errno));
	else if (does_it(d, device->name, text, size))
		return say_device(d, device->name, text, size), true;
	if (d->context)
		lib.close_device(d->context);
	return false;
}

struct sr_device *sr_device_open(char *text, size_t size)
{
	struct sr_device *d = calloc(1, sizeof(*d));
	struct ibv_device **list;
	bool found = false;
	int n = 0;

	if (!d || !load(text, size))
		return free(d), NULL;
	list = lib.get_device_list(&n);
	if (!n)
		snprintf(text, size, "there is no RDMA device");
	for (int i = 0; list && i < n && !found; i++)
		found = open_one(d, list[i], text, size);
	if (list)
		lib.free_device_list(list);
	if (!found)
		free(d);
	return found ? d : NULL;
}

/* -------------------------------------------------------------------- memory */

struct ibv_mr *sr_device_register(struct sr_device *d, void *memory, size_t size)
{
	return lib.reg_mr(d->pd, memory, size,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
}

void sr_device_release(struct sr_device *d, struct ibv_mr *mr)
{
	lib.dereg_mr(mr);
}

/* --------------------------------------------------------------- connections */

static struct ibv_qp *make_end(struct sr_device *d)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = d->cq,
	    .recv_cq = d->cq,
	    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};

	return lib.create_qp(d->pd, &attr);
}

static int connect_end(const struct sr_device *d, struct ibv_qp *qp, const struct ibv_qp *to)
{
	struct ibv_qp_attr init = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = d->port,
	    .qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp_attr receive = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = d->attr.active_mtu,
	    .dest_qp_num = to->qp_num,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 12,
	    .ah_attr = {.dlid = d->attr.lid, .port_num = d->port, .is_global = d->has_gid},
	};
	struct ibv_qp_attr send = {
	    .qp_state = IBV_QPS_RTS,
	    .timeout = 17, /* half a second: a busy host is no lost packet */
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .max_rd_atomic = 1,
	};
	int error;

	receive.ah_attr.grh = (struct ibv_global_route){
	    .dgid = d->gid, .sgid_index = (uint8_t)d->gid_index, .hop_limit = 64};
	error = lib.modify_qp(qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!error)
		error = lib.modify_qp(qp, &receive,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
	if (!error)
		error =
		    lib.modify_qp(qp, &send,
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return error;
}

int sr_device_connect(struct sr_device *d, struct sr_wire *w)
{
	int error = 0;

	w->end[0] = make_end(d);
	w->end[1] = w->end[0] ? make_end(d) : NULL;
	if (!w->end[1])
		error = errno;
	if (!error)
		error = connect_end(d, w->end[0], w->end[1]);
	if (!error)
		error = connect_end(d, w->end[1], w->end[0]);
	for (int i = 0; error && i < 2; i++)
		if (w->end[i])
			lib.destroy_qp(w->end[i]);
	return -error;
}

/* ------------------------------------------------------------------ requests */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

/* False: none came in time.  Most are there at once. */
static bool next_completion(struct sr_device *d, struct ibv_wc *wc, int64_t until)
{
	struct pollfd p = {.fd = d->channel->fd, .events = POLLIN};

	for (int i = 0; i < POLLS; i++)
		if (ibv_poll_cq(d->cq, 1, wc) > 0)
			return true;
	for (;;) {
		int64_t left = until - now_ms();
		struct ibv_cq *cq;
		void *context;

		/* Checks again after arming: a completion in between raises no event. */
		if (ibv_req_notify_cq(d->cq, 0))
			return false;
		if (ibv_poll_cq(d->cq, 1, wc) > 0)
			return true;
		if (left <= 0 || poll(&p, 1, (int)left) < 0)
			return false;
		if (p.revents & POLLIN && !lib.get_cq_event(d->channel, &cq, &context))
			lib.ack_cq_events(cq, 1);
	}
}

static int post_receive(struct ibv_qp *at, const struct sr_transfer *t)
{
	struct ibv_sge list = {(uintptr_t)t->remote, t->length, t->remote_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &list, .num_sge = 1}, *bad;

	return ibv_post_recv(at, &wr, &bad);
}

static int post(struct ibv_qp *from, const struct sr_transfer *t)
{
	struct ibv_sge list = {(uintptr_t)t->local, t->length, t->local_mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &list,
	    .num_sge = t->length ? 1 : 0,
	    .opcode = t->opcode,
	    .send_flags = IBV_SEND_SIGNALED,
	    .imm_data = t->imm_data,
	};
	struct ibv_send_wr *bad;

	if (sr_op(t->opcode) & SR_OP_ATOMIC) {
		wr.wr.atomic.remote_addr = (uintptr_t)t->remote;
		wr.wr.atomic.rkey = t->remote_mr->rkey;
		wr.wr.atomic.compare_add = t->compare_add;
		wr.wr.atomic.swap = t->swap;
	} else if (sr_op(t->opcode) & SR_OP_REMOTE) {
		wr.wr.rdma.remote_addr = (uintptr_t)t->remote;
		wr.wr.rdma.rkey = t->remote_mr->rkey;
	}
	return ibv_post_send(from, &wr, &bad);
}

/* A receive's completion says what was sent; the device may have lost some of it. */
static bool is_as_sent(const struct sr_transfer *t, const struct ibv_wc *wc, char *text,
		       size_t size)
{
	const bool has_imm = wc->wc_flags & IBV_WC_WITH_IMM;

	if (wc->opcode == IBV_WC_RECV && wc->byte_len != t->length)
		snprintf(text, size, "%u bytes arrived", wc->byte_len);
	else if (wc->opcode & IBV_WC_RECV && has_imm && wc->imm_data != t->imm_data)
		snprintf(text, size, "other immediate data arrived");
	else
		return true;
	return false;
}

bool sr_device_do(struct sr_device *d, const struct sr_wire *w, int from,
		  const struct sr_transfer *t, char *text, size_t size)
{
	const bool received = sr_op(t->opcode) & SR_OP_RECEIVED;
	const int64_t until = now_ms() + LIMIT;
	int error = received ? post_receive(w->end[!from], t) : 0;

	if (!error)
		error = post(w->end[from], t);
	if (error) {
		snprintf(text, size, "it cannot be posted: %s", strerror(error));
		return false;
	}
	for (int left = received ? 2 : 1; left; left--) {
		struct ibv_wc wc;

		if (!next_completion(d, &wc, until)) {
			snprintf(text, size, "no completion within %d s", LIMIT / 1000);
			return false;
		}
		if (wc.status != IBV_WC_SUCCESS) {
			snprintf(text, size, "%s", lib.wc_status_str(wc.status));
			return false;
		}
		if (!is_as_sent(t, &wc, text, size))
			return false;
	}
	return true;
}
