/* SPDX-License-Identifier: BSD-2-Clause */
/* passive.c: listening, and what the passive side of a connection does. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "internal.h"

/*
 * The kernel drops requests beyond the backlog, and their senders repeat them until there is
 * room: they wait. Here they wait in the socket's queue, which is as long as it may be.
 */
int cm_listen(struct cm_id *id, uint32_t backlog)
{
	int ret = 0;

	if (id->state == CM_IDLE) {
		id->src = (union cm_address){.in = {.sin_family = AF_INET}};
		ret = cm_address_bind(id);
		if (!ret)
			id->state = CM_BOUND;
	}
	if (ret || id->state != CM_BOUND)
		return ret ? ret : -EINVAL;
	ret = (int)cm_sys(SYS_listen, id->sock, 4096);
	if (ret)
		return ret;
	id->state = CM_LISTENING;
	cm_channel_watch(id->channel, id);
	return 0;
}

static void accept_one(struct cm_id *listener, int fd)
{
	struct cm_id *id = cm_id_make(listener->channel, listener->ps, listener->qp_type);

	fd = cm_move_fd(fd);
	if (!id) {
		cm_sys(SYS_close, fd);
		return;
	}
	id->sock = fd;
	id->listener = listener->handle + 1;
	id->state = CM_ACCEPTED_SOCKET;
	cm_channel_watch(id->channel, id);
}

void cm_take_connections(struct cm_id *listener)
{
	long fd;

	while ((fd = cm_sys(SYS_accept4, listener->sock, NULL, NULL,
			    SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		accept_one(listener, (int)fd);
}

/*
 * Until the program accepts, nothing that the peer does makes an event, so its socket must not
 * make the channel readable.
 */
void cm_take_request(struct cm_id *id)
{
	struct cm_id *listener = cm_id_find(id->listener - 1);
	struct cm_message m;
	struct cm_event *e;
	int ret = cm_receive_message(id, &m);

	if (ret == -EAGAIN)
		return;
	e = NULL;
	if (ret == 1 && listener && m.qp_type == id->qp_type)
		e = cm_event_add(listener, CM_CONNECT_REQUEST, 0);
	if (!e) {
		cm_id_destroy(id);
		return;
	}
	cm_channel_unwatch(id);
	id->state = CM_REQUEST_RECEIVED;
	id->has_device = true;
	id->src = m.dst;
	id->dst = m.src;
	id->remote_qpn = m.qpn;
	id->remote_psn = m.psn;
	id->initiator_depth = m.responder_resources;
	id->responder_resources = m.initiator_depth;
	id->retry_count = m.retry_count;
	id->rnr_retry_count = m.rnr_retry_count;
	e->arrived = id->handle + 1;
	e->resp.id = id->handle;
	if (cm_is_datagram(id))
		cm_copy_ud_event(e, &m, cm_request_room(id));
	else
		cm_copy_conn_event(e, &m, cm_request_room(id));
}

/* The key and the queue pair of a datagram service. No connection remains. */
static int answer(struct cm_id *id, const struct cm_message *m)
{
	if (!cm_send(id, m))
		return -EINVAL;
	if (cm_is_datagram(id)) {
		id->state = CM_OVER;
		cm_id_close_socket(id);
	} else {
		id->state = CM_REPLY_SENT;
		cm_channel_watch(id->channel, id);
	}
	return 0;
}

int cm_accept(struct cm_id *id, const struct rdma_ucm_accept *command, size_t length)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	struct cm_message m = {.type = CM_MSG_REPLY};
	bool is_datagram = cm_is_datagram(id);
	int ret;

	if (!p->valid)
		return cm_ready(id);
	if (id->state != CM_REQUEST_RECEIVED)
		return -EINVAL;
	if (p->private_data_len > (is_datagram ? SIDR_REPLY_DATA : REPLY_DATA))
		return -EINVAL;
	m.qpn = p->qp_num & 0xffffff;
	m.qkey = id->qkey = p->qkey ? p->qkey : id->qkey;
	m.psn = id->psn;
	m.responder_resources = p->responder_resources;
	m.initiator_depth = p->initiator_depth;
	m.flow_control = p->flow_control;
	m.rnr_retry_count = p->rnr_retry_count & 7;
	m.srq = p->srq;
	if (length >= sizeof(*command))
		m.ece = command->ece;
	m.private_length = p->private_data_len;
	memcpy(m.private_data, p->private_data, p->private_data_len);
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	ret = answer(id, &m);
	if (!ret) {
		id->uid = command->uid;
		id->reports = true;
	}
	return ret;
}

int cm_reject(struct cm_id *id, const struct rdma_ucm_reject *command)
{
	struct cm_message m = {.type = CM_MSG_REJECT};

	m.reason = command->reason ? command->reason : CONSUMER_DEFINED;
	if (m.reason != CONSUMER_DEFINED && m.reason != VENDOR_OPTION_NOT_SUPPORTED)
		return -EINVAL;
	if (command->private_data_len > (cm_is_datagram(id) ? SIDR_REPLY_DATA : REJECT_DATA))
		return -EINVAL;
	if (id->state != CM_REQUEST_RECEIVED && id->state != CM_REPLY_RECEIVED)
		return -EINVAL;
	m.private_length = command->private_data_len;
	memcpy(m.private_data, command->private_data, command->private_data_len);
	cm_send(id, &m);
	id->state = CM_OVER;
	cm_id_close_socket(id);
	return 0;
}
