/* SPDX-License-Identifier: BSD-2-Clause */
/* connections.c: cases that connect, reject and disconnect. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared.h"

#define REQUEST_ROOM     56
#define REPLY_ROOM       196
#define REJECT_ROOM      148
#define CONSUMER_DEFINED 28
#define NO_SUCH_SERVICE  8
#define SIDR_UNSUPPORTED 1
#define SIDR_REJECTED    2

/* The kernel reports all the room of a message, the rest of it as zeros. */
static void check_data(const struct rdma_cm_event *event, const char *text, int room)
{
	const struct rdma_conn_param *p = &event->param.conn;
	const char *data = p->private_data;

	EXPECT(p->private_data_len == room && !strcmp(data, text));
	for (int n = (int)strlen(text); n < room; n++)
		EXPECT(!data[n]);
}

void connects(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *listener, *active, *passive;
	struct rdma_cm_event *event;
	int port = 0;

	listener = listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
	EXPECT(active->verbs && active->port_num == 1 && active->route.num_paths == 1);
	EXPECT(ntohs(rdma_get_dst_port(active)) == port);
	start_connect(active, "let me in");

	event = event_of(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	EXPECT(event->listen_id == listener && passive != listener && !event->status);
	check_data(event, "let me in", REQUEST_ROOM);
	EXPECT(event->param.conn.qp_num == 0x1234 && event->param.conn.retry_count == 5);
	EXPECT(event->param.conn.rnr_retry_count == 6);
	EXPECT(event->param.conn.initiator_depth == 1 &&
	       event->param.conn.responder_resources == 1);
	EXPECT(rdma_get_src_port(passive) == rdma_get_dst_port(active));
	EXPECT(rdma_get_dst_port(passive) == rdma_get_src_port(active));
	EXPECT(passive->verbs == active->verbs && passive->route.num_paths == 1);
	rdma_ack_cm_event(event);

	accept_with(passive, "come in");
	event = event_of(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT(event->id == active && event->param.conn.qp_num == 0x4321);
	check_data(event, "come in", REPLY_ROOM);
	rdma_ack_cm_event(event);
	EXPECT(!is_readable(channel->fd, 0));
	EXPECT(!rdma_establish(active));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0) == passive);
	EXPECT(!is_readable(channel->fd, 0));

	EXPECT(!rdma_destroy_id(active));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == passive);
	EXPECT(!rdma_destroy_id(passive));
	EXPECT(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* A client that connects again at once: the first connection is established before the second one's request comes. */
void keeps_the_order_of_connections(void)
{
	struct rdma_event_channel *at = channel_of(), *from = channel_of();
	struct rdma_cm_id *listener, *active[3], *passive[3];
	int port = 0;

	listener = listen_at(at, RDMA_PS_TCP, "127.0.0.1", &port);
	for (int n = 0; n < 3; n++) {
		active[n] = resolved(from, RDMA_PS_TCP, "127.0.0.1", port);
		start_connect(active[n], "");
		if (n)
			EXPECT(expect_event(at, RDMA_CM_EVENT_ESTABLISHED, 0) == passive[n - 1]);
		passive[n] = expect_event(at, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		accept_with(passive[n], "");
		EXPECT(expect_event(from, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == active[n]);
		EXPECT(!rdma_establish(active[n]));
	}
	EXPECT(expect_event(at, RDMA_CM_EVENT_ESTABLISHED, 0) == passive[2]);
	for (int n = 0; n < 3; n++) {
		EXPECT(!rdma_destroy_id(active[n]));
		EXPECT(!rdma_destroy_id(passive[n]));
	}
	EXPECT(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(at);
	rdma_destroy_event_channel(from);
}

/* ------------------------------------------------------- between processes */

/* Accepts one connection after the other, and waits for the end of each. */
static void serve(int from, int to)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *passive;
	int port = 0;

	listen_at(channel, RDMA_PS_TCP, "0.0.0.0", &port);
	tell(to, port);
	for (int n = hear(from); n; n--) {
		passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		accept_with(passive, "from afar");
		expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
		expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		EXPECT(!rdma_destroy_id(passive));
	}
}

static struct rdma_cm_id *connect_to(struct rdma_event_channel *channel, int port)
{
	struct rdma_cm_id *active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
	struct rdma_cm_event *event;

	start_connect(active, "");
	event = event_of(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	check_data(event, "from afar", REPLY_ROOM);
	rdma_ack_cm_event(event);
	EXPECT(!rdma_establish(active));
	return active;
}

void connects_processes(void)
{
	struct child child = start_child(serve);
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *active;
	int port = hear(child.from);

	tell(child.to, 20);
	for (int n = 0; n < 20; n++) {
		active = connect_to(channel, port);
		EXPECT(!rdma_disconnect(active));
		expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		EXPECT(!rdma_destroy_id(active));
	}
	join_child(&child);
	rdma_destroy_event_channel(channel);
}

void survives_a_killed_peer(void)
{
	struct child child = start_child(serve);
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *active;
	int port = hear(child.from);

	tell(child.to, 1);
	active = connect_to(channel, port);
	EXPECT(!is_readable(channel->fd, 20));
	kill(child.pid, SIGKILL);
	EXPECT(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == active);
	EXPECT(!is_readable(channel->fd, 0));
	EXPECT(!rdma_disconnect(active));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0) == active);
	waitpid(child.pid, NULL, 0);

	/* Its port is free again. */
	listen_at(channel, RDMA_PS_TCP, "0.0.0.0", &port);
}

static void take_and_wait(int from, int to)
{
	struct rdma_event_channel *channel = channel_of();
	int port = 0;

	listen_at(channel, RDMA_PS_TCP, "0.0.0.0", &port);
	tell(to, port);
	if (hear(from))
		expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	tell(to, 0);
	pause();
}

void rejects_what_a_killed_listener_had(void)
{
	for (int taken = 0; taken < 2; taken++) {
		struct child child = start_child(take_and_wait);
		struct rdma_event_channel *channel = channel_of();
		struct rdma_cm_id *active =
		    resolved(channel, RDMA_PS_TCP, "127.0.0.1", hear(child.from));

		start_connect(active, "");
		tell(child.to, taken);
		hear(child.from);
		kill(child.pid, SIGKILL);
		EXPECT(expect_event(channel, RDMA_CM_EVENT_REJECTED, CONSUMER_DEFINED) == active);
		waitpid(child.pid, NULL, 0);
		EXPECT(!rdma_destroy_id(active));
		rdma_destroy_event_channel(channel);
	}
}

/* ---------------------------------------------------- refused and rejected */

void refuses_where_nobody_listens(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *bound = id_of(channel, RDMA_PS_TCP);
	union address a = address_of("127.0.0.1", 0);
	struct rdma_cm_id *id;

	EXPECT(!rdma_bind_addr(bound, &a.sa)); /* but does not listen */
	id = resolved(channel, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(bound)));
	start_connect(id, "");
	EXPECT(expect_event(channel, RDMA_CM_EVENT_REJECTED, NO_SUCH_SERVICE) == id);
	EXPECT(!rdma_destroy_id(id));

	id = resolved(channel, RDMA_PS_UDP, "127.0.0.1", 1);
	start_connect(id, "");
	EXPECT(expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, SIDR_UNSUPPORTED) == id);
	EXPECT(!rdma_destroy_id(id));

	/* An identifier with a channel of its own gets an error. */
	EXPECT(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	a = address_of("127.0.0.1", 1);
	EXPECT(!rdma_resolve_addr(id, NULL, &a.sa, 1000));
	EXPECT(!rdma_resolve_route(id, 1000));
	EXPECT_ERROR(ECONNREFUSED, rdma_connect(id, &(struct rdma_conn_param){.qp_num = 1}));
	EXPECT(!rdma_destroy_id(id));
}

void rejects(void)
{
	static const int reasons[] = {28, 35};
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *active, *passive;
	struct rdma_cm_event *event;
	int port = 0;

	listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	for (int n = 0; n < 2; n++) {
		active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
		start_connect(active, "");
		passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		EXPECT(!(n ? rdma_reject_ece(passive, "no", 2) : rdma_reject(passive, "no", 2)));
		event = event_of(channel, RDMA_CM_EVENT_REJECTED);
		EXPECT(event->id == active && event->status == reasons[n]);
		check_data(event, "no", REJECT_ROOM);
		rdma_ack_cm_event(event);
		EXPECT_ERROR(EINVAL, rdma_accept(passive, &(struct rdma_conn_param){.qp_num = 1}));
		EXPECT(!rdma_destroy_id(active) && !rdma_destroy_id(passive));
	}

	/* The active side may reject the reply. */
	active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
	start_connect(active, "");
	passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	accept_with(passive, "");
	EXPECT(expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == active);
	EXPECT(!rdma_reject(active, NULL, 0));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_REJECTED, CONSUMER_DEFINED) == passive);

	/* Who connects may be gone before he is accepted. */
	active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
	start_connect(active, "");
	passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	EXPECT(!rdma_destroy_id(active));
	EXPECT(!is_readable(channel->fd, 10));
	EXPECT_ERROR(EINVAL, rdma_accept(passive, &(struct rdma_conn_param){.qp_num = 1}));
}

void disconnects(void)
{
	struct pair p = connected_pair();

	EXPECT_ERROR(EISCONN, rdma_notify(p.passive, IBV_EVENT_COMM_EST));
	/* One side asks, and hears of it when the other has agreed. */
	EXPECT(!rdma_disconnect(p.active));
	EXPECT(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0) == p.passive);
	EXPECT(!is_readable(p.channel->fd, 20));
	EXPECT(!rdma_disconnect(p.passive));
	EXPECT(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0) == p.active);
	EXPECT(!is_readable(p.channel->fd, 0));
	expect_event(p.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_event(p.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy_pair(&p);

	/* Both ask at once. */
	p = connected_pair();
	EXPECT(!rdma_disconnect(p.active) && !rdma_disconnect(p.passive));
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	EXPECT(!is_readable(p.channel->fd, 0));
	destroy_pair(&p);
}

void answers_datagram_services(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *active, *passive;
	struct rdma_cm_event *event;
	int port = 0;

	listen_at(channel, RDMA_PS_UDP, "127.0.0.1", &port);
	active = resolved(channel, RDMA_PS_UDP, "127.0.0.1", port);
	start_connect(active, "which one?");
	event = event_of(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	EXPECT(event->param.ud.private_data_len == 180);
	EXPECT(!strcmp(event->param.ud.private_data, "which one?"));
	rdma_ack_cm_event(event);
	accept_with(passive, "this one");
	event = event_of(channel, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT(event->id == active && event->param.ud.qp_num == 0x4321);
	EXPECT(event->param.ud.qkey == 0x01234567 && event->param.ud.private_data_len == 136);
	EXPECT(!strcmp(event->param.ud.private_data, "this one"));
	EXPECT(event->param.ud.ah_attr.is_global && event->param.ud.ah_attr.port_num == 1);
	EXPECT(event->param.ud.ah_attr.grh.sgid_index == 1);
	rdma_ack_cm_event(event);
	EXPECT(!rdma_destroy_id(active) && !rdma_destroy_id(passive));
	EXPECT(!is_readable(channel->fd, 0));

	active = resolved(channel, RDMA_PS_UDP, "127.0.0.1", port);
	start_connect(active, "");
	passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	EXPECT(!rdma_reject(passive, NULL, 0));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, SIDR_REJECTED) == active);
}

void limits_private_data(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_conn_param param = {.qp_num = 1, .private_data_len = REQUEST_ROOM + 1};
	struct rdma_cm_id *active, *passive;
	char data[256] = {0};
	int port = 0;

	param.private_data = data;
	listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
	EXPECT_ERROR(EINVAL, rdma_connect(active, &param));
	param.private_data_len = REQUEST_ROOM;
	EXPECT(!rdma_connect(active, &param));
	passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	param.private_data_len = REPLY_ROOM + 1;
	EXPECT_ERROR(EINVAL, rdma_accept(passive, &param));
	EXPECT_ERROR(EINVAL, rdma_reject(passive, data, REJECT_ROOM + 1));
	param.private_data_len = REPLY_ROOM;
	EXPECT(!rdma_accept(passive, &param));
	expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
}

void gives_attributes(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *active, *passive;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT}, other = {.qp_state = IBV_QPS_RTS};
	int port = 0, mask;

	listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
	EXPECT(!rdma_init_qp_attr(active, &attr, &mask));
	EXPECT(mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	EXPECT(attr.port_num == 1 && !attr.qp_access_flags);
	attr.qp_state = IBV_QPS_RTR;
	EXPECT_ERROR(EINVAL, rdma_init_qp_attr(active, &attr, &mask));

	start_connect(active, "");
	passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	EXPECT(!rdma_init_qp_attr(passive, &attr, &mask));
	EXPECT(mask == (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	EXPECT(attr.dest_qp_num == 0x1234 && attr.path_mtu == IBV_MTU_4096);
	EXPECT(attr.ah_attr.is_global && attr.ah_attr.grh.sgid_index == 1);
	accept_with(passive, "");
	expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	EXPECT(!rdma_init_qp_attr(active, &other, &mask));
	EXPECT(mask == (IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	EXPECT(other.sq_psn == attr.rq_psn && other.retry_cnt == 5 && other.rnr_retry == 6);
	EXPECT(!rdma_init_qp_attr(active, &attr, &mask) && attr.dest_qp_num == 0x4321);
}

/* More than the backlog: the kernel's clients repeat their requests, and get in as well. */
void queues_many_requests(void)
{
	enum { MANY = 100 };
	struct rdma_event_channel *channel = channel_of(), *others = channel_of();
	struct rdma_cm_id *passive[MANY];
	int port = 0;

	listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	for (int n = 0; n < MANY; n++)
		start_connect(resolved(others, RDMA_PS_TCP, "127.0.0.1", port), "");
	for (int n = 0; n < MANY; n++)
		passive[n] = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	EXPECT(!is_readable(channel->fd, 0) && !is_readable(others->fd, 0));
	for (int n = 0; n < MANY; n++)
		accept_with(passive[n], "");
	for (int n = 0; n < MANY; n++)
		EXPECT(!rdma_establish(expect_event(others, RDMA_CM_EVENT_CONNECT_RESPONSE, 0)));
	for (int n = 0; n < MANY; n++)
		expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}
