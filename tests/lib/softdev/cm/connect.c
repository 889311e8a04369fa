/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c: the active side of a connection, its end, and what arrives at either side. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <infiniband/verbs.h>

#include "internal.h"

/* What the kernel takes for RoCE: twice 4.096 us * 2^16, and 15 unanswered disconnects. */
#define TIMEWAIT_NS   537000000ull
#define DISCONNECT_NS 8000000000ull

bool cm_send(struct cm_id *id, const struct cm_message *message)
{
	struct cm_message m = *message;

	m.sent = cm_now();
	return cm_sys(SYS_sendto, id->sock, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0) ==
	       (long)sizeof(m);
}

uint64_t cm_next_sent(const struct cm_id *id)
{
	struct cm_message m;
	long n = cm_sys(SYS_recvfrom, id->sock, &m, sizeof(m), MSG_DONTWAIT | MSG_PEEK, NULL, NULL);

	return n == (long)sizeof(m) ? m.sent : 0;
}

int cm_receive_message(struct cm_id *id, struct cm_message *m)
{
	long n;

	/* The peer closed it without having read all. The error comes once, then what it sent. */
	do
		n = cm_sys(SYS_recvfrom, id->sock, m, sizeof(*m), MSG_DONTWAIT, NULL, NULL);
	while (n == -ECONNRESET || n == -EINTR);
	if (n == -EAGAIN)
		return -EAGAIN;
	return n == (long)sizeof(*m);
}

uint8_t cm_request_room(const struct cm_id *id)
{
	int family = id->dst.sa.sa_family;

	return (uint8_t)((cm_is_datagram(id) ? SIDR_REQUEST_DATA : REQUEST_DATA) -
			 (family == AF_INET || family == AF_INET6 ? IP_HEADER : 0));
}

void cm_copy_conn_event(struct cm_event *e, const struct cm_message *m, uint8_t length)
{
	struct rdma_ucm_conn_param *p = &e->resp.param.conn;

	memcpy(p->private_data, m->private_data, length);
	p->private_data_len = length;
	p->qp_num = m->qpn;
	/* What the peer offers to answer is what may be asked here. */
	p->responder_resources = m->initiator_depth;
	p->initiator_depth = m->responder_resources;
	p->flow_control = m->flow_control;
	p->retry_count = m->retry_count;
	p->rnr_retry_count = m->rnr_retry_count;
	p->srq = m->srq;
	e->resp.ece = m->ece;
}

void cm_copy_ud_event(struct cm_event *e, const struct cm_message *m, uint8_t length)
{
	struct rdma_ucm_ud_param *p = &e->resp.param.ud;

	memcpy(p->private_data, m->private_data, length);
	p->private_data_len = length;
	p->qp_num = m->qpn;
	p->qkey = m->qkey;
	cm_fill_ah(&p->ah_attr, cm_gid);
}

/* --------------------------------------------------------- the active side */

static void reject_at_once(struct cm_id *id, int error)
{
	id->state = CM_OVER;
	cm_id_close_socket(id);
	if (error == -EAGAIN) /* thousands wait for that listener already */
		cm_event_add(id, CM_UNREACHABLE, -ETIMEDOUT);
	else if (cm_is_datagram(id))
		cm_event_add(id, CM_UNREACHABLE, SIDR_UNSUPPORTED);
	else
		cm_event_add(id, CM_REJECTED, INVALID_SERVICE_ID);
}

int cm_connect(struct cm_id *id, const struct rdma_ucm_connect *command)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	struct cm_message m = {.type = CM_MSG_REQUEST};
	int ret;

	if (id->state != CM_ROUTE_KNOWN || p->private_data_len > cm_request_room(id))
		return -EINVAL;
	m.qpn = p->qp_num & 0xffffff;
	m.qkey = id->qkey;
	m.psn = id->psn;
	m.qp_type = id->qp_type;
	m.responder_resources = p->responder_resources;
	m.initiator_depth = p->initiator_depth;
	m.flow_control = p->flow_control;
	m.retry_count = p->retry_count & 7;
	m.rnr_retry_count = p->rnr_retry_count & 7;
	m.srq = p->srq;
	m.ece = command->ece;
	m.src = id->src;
	m.dst = id->dst;
	m.private_length = p->private_data_len;
	memcpy(m.private_data, p->private_data, p->private_data_len);
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	id->retry_count = m.retry_count;
	id->rnr_retry_count = m.rnr_retry_count;

	ret = cm_address_connect(id);
	if (!ret && !cm_send(id, &m))
		ret = -ECONNREFUSED;
	if (ret == -EAGAIN || ret == -ECONNREFUSED) {
		reject_at_once(id, ret);
		return 0;
	}
	if (ret)
		return ret;
	id->state = CM_REQUEST_SENT;
	cm_channel_watch(id->channel, id);
	return 0;
}

static void take_reply(struct cm_id *id, const struct cm_message *m)
{
	struct cm_event *e;

	if (cm_is_datagram(id)) {
		id->state = CM_OVER;
		e = cm_event_add(id, CM_ESTABLISHED, 0);
		if (e)
			cm_copy_ud_event(e, m, SIDR_REPLY_DATA);
		cm_id_close_socket(id);
		return;
	}
	id->remote_qpn = m->qpn;
	id->remote_psn = m->psn;
	id->initiator_depth = m->responder_resources;
	id->responder_resources = m->initiator_depth;
	id->state = CM_REPLY_RECEIVED;
	e = cm_event_add(id, CM_CONNECT_RESPONSE, 0);
	if (e)
		cm_copy_conn_event(e, m, REPLY_DATA);
}

int cm_ready(struct cm_id *id)
{
	struct cm_message m = {.type = CM_MSG_READY};

	if (id->state != CM_REPLY_RECEIVED)
		return -EINVAL;
	id->state = CM_CONNECTED;
	cm_send(id, &m); /* if the peer is gone, the next message says so */
	return 0;
}

/* ----------------------------------------------------------------- the end */

static void enter_timewait(struct cm_id *id)
{
	id->state = CM_TIMEWAIT;
	cm_id_close_socket(id);
	cm_id_set_timer(id, TIMEWAIT_NS);
}

int cm_disconnect(struct cm_id *id)
{
	struct cm_message m = {.type = CM_MSG_DISCONNECT};

	if (cm_is_datagram(id) || id->state < CM_REQUEST_SENT)
		return -EINVAL;
	if (id->state == CM_CONNECTED) {
		id->state = CM_DISCONNECT_SENT;
		cm_id_set_timer(id, DISCONNECT_NS);
		cm_send(id, &m);
	} else if (id->state == CM_DISCONNECT_RECEIVED) {
		m.type = CM_MSG_DISCONNECTED;
		if (id->sock >= 0)
			cm_send(id, &m);
		enter_timewait(id);
	}
	return 0;
}

void cm_timer_expired(struct cm_id *id)
{
	if (id->state == CM_TIMEWAIT) {
		id->state = CM_OVER;
		cm_event_add(id, CM_TIMEWAIT_EXIT, 0);
	} else if (id->state == CM_DISCONNECT_SENT) {
		enter_timewait(id);
		cm_event_add(id, CM_DISCONNECTED, -ETIMEDOUT);
	}
}

/* The first data came before the message that says that the active side is ready. */
int cm_notify(struct cm_id *id, uint32_t event)
{
	if (!id->has_device)
		return 0;
	if (event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	if (id->state == CM_CONNECTED)
		return -EISCONN;
	if (id->state != CM_REPLY_SENT)
		return -EINVAL;
	id->state = CM_CONNECTED;
	cm_event_add(id, CM_ESTABLISHED, 0);
	return 0;
}

static void take_rejection(struct cm_id *id, const struct cm_message *m)
{
	struct cm_event *e;

	id->state = CM_OVER;
	cm_id_close_socket(id);
	if (cm_is_datagram(id)) {
		e = cm_event_add(id, CM_UNREACHABLE, SIDR_REJECT);
		if (e)
			cm_copy_ud_event(e, m, SIDR_REPLY_DATA);
		return;
	}
	e = cm_event_add(id, CM_REJECTED, (int)m->reason);
	if (!e)
		return;
	memcpy(e->resp.param.conn.private_data, m->private_data, REJECT_DATA);
	e->resp.param.conn.private_data_len = REJECT_DATA;
}

/* The peer disconnected, destroyed its identifier or was killed. */
static void take_disconnect(struct cm_id *id, bool is_gone)
{
	if (id->state == CM_DISCONNECT_SENT && is_gone) {
		enter_timewait(id);
	} else {
		id->state = CM_DISCONNECT_RECEIVED;
		cm_id_set_timer(id, 0);
		cm_channel_unwatch(id);
	}
	cm_event_add(id, CM_DISCONNECTED, 0);
}

static void take_end(struct cm_id *id)
{
	struct cm_message rejection = {.reason = CONSUMER_DEFINED};

	switch (id->state) {
	case CM_REQUEST_SENT:
	case CM_REPLY_RECEIVED:
	case CM_REPLY_SENT:
		take_rejection(id, &rejection);
		break;
	case CM_CONNECTED:
	case CM_DISCONNECT_SENT:
		take_disconnect(id, true);
		break;
	case CM_ACCEPTED_SOCKET:
		cm_id_destroy(id);
		break;
	default:
		id->state = CM_OVER;
		cm_id_close_socket(id);
	}
}

static void take_message(struct cm_id *id, const struct cm_message *m)
{
	switch (m->type) {
	case CM_MSG_REPLY:
		if (id->state == CM_REQUEST_SENT)
			take_reply(id, m);
		break;
	case CM_MSG_READY:
		if (id->state != CM_REPLY_SENT) /* CM_CONNECTED: cm_notify() was first */
			break;
		id->state = CM_CONNECTED;
		cm_event_add(id, CM_ESTABLISHED, 0);
		break;
	case CM_MSG_REJECT:
		take_rejection(id, m);
		break;
	case CM_MSG_DISCONNECT:
		if (id->state == CM_CONNECTED || id->state == CM_DISCONNECT_SENT)
			take_disconnect(id, false);
		break;
	case CM_MSG_DISCONNECTED:
		if (id->state == CM_DISCONNECT_SENT)
			take_disconnect(id, true);
		break;
	}
}

static bool takes_messages(const struct cm_id *id)
{
	return id->sock >= 0 && id->state >= CM_REQUEST_SENT && id->state < CM_DISCONNECT_RECEIVED;
}

bool cm_receive_one(struct cm_id *id)
{
	struct cm_message m;
	int ret;

	if (id->state == CM_ACCEPTED_SOCKET) {
		cm_take_request(id);
		return false;
	}
	if (!takes_messages(id))
		return false;
	ret = cm_receive_message(id, &m);
	if (ret == 1)
		take_message(id, &m);
	if (!ret)
		take_end(id);
	return ret == 1;
}

void cm_receive(struct cm_id *id)
{
	if (id->state == CM_LISTENING)
		cm_take_connections(id);
	else
		while (cm_receive_one(id))
			;
}
