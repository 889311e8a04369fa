/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmacm.c ADDRESS: calls all of librdmacm, and prints what it gets: results,
 * addresses of objects and what they hold, descriptors, events, data.  A replay
 * has to print the same.
 *
 * Both ends of each connection are in one thread, so that the order of calls is
 * the program's own.  Between the calls it opens a file: its number shows
 * whether a replay has taken those that the library took.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#define WAIT_MS 20000

static struct sockaddr_in address; /* port 0 */

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Prints a call's result, and errno if it failed. */
static long said(const char *what, long result)
{
	if (result == -1)
		printf("%s: -1 (%s)\n", what, strerrorname_np(errno));
	else
		printf("%s: %ld\n", what, result);
	return result;
}

static void next_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY);

	printf("next descriptor %d\n", fd);
	close(fd);
}

static void print_bytes(const char *what, const void *p, size_t n)
{
	const unsigned char *byte = p;

	printf("%s:", what);
	for (size_t i = 0; i < n; i++)
		printf(" %02x", byte[i]);
	putchar('\n');
}

/* ------------------------------------------------------------- identifiers */

static void print_id(const char *what, struct rdma_cm_id *id)
{
	printf("%s %p: context %p channel %p fd %d port %d type %d\n", what, (void *)id,
	       id->context, (void *)id->channel, id->channel ? id->channel->fd : -1, id->port_num,
	       id->qp_type);
	printf("  source %d destination %d", ntohs(rdma_get_src_port(id)),
	       ntohs(rdma_get_dst_port(id)));
	if (id->verbs)
		printf(" device %p %s async %d", (void *)id->verbs, id->verbs->device->name,
		       id->verbs->async_fd);
	if (id->pd)
		printf(" pd %p %u", (void *)id->pd, id->pd->handle);
	if (id->qp)
		printf(" qp %p %u state %d", (void *)id->qp, id->qp->qp_num, id->qp->state);
	if (id->srq)
		printf(" srq %p %u", (void *)id->srq, id->srq->handle);
	if (id->send_cq)
		printf(" send cq %p of %d channel %d", (void *)id->send_cq, id->send_cq->cqe,
		       id->send_cq_channel->fd);
	if (id->recv_cq)
		printf(" recv cq %p of %d channel %d", (void *)id->recv_cq, id->recv_cq->cqe,
		       id->recv_cq_channel->fd);
	putchar('\n');
	for (int i = 0; i < id->route.num_paths; i++)
		print_bytes("  path", &id->route.path_rec[i], sizeof(id->route.path_rec[i]));
	print_bytes("  address", &id->route.addr.src_sin, sizeof(id->route.addr.src_sin));
	print_bytes("  gid", &id->route.addr.addr.ibaddr.sgid, 16);
}

/* The next event on the channel, of the given type; others are told and acknowledged. */
static struct rdma_cm_event *expect(struct rdma_event_channel *channel,
				    enum rdma_cm_event_type type)
{
	struct pollfd pollfd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	for (;;) {
		if (poll(&pollfd, 1, WAIT_MS) <= 0)
			fail("no event");
		if (rdma_get_cm_event(channel, &event)) {
			if (errno == EAGAIN)
				continue;
			fail("rdma_get_cm_event");
		}
		printf("event %p %s status %d id %p listen %p\n", (void *)event,
		       rdma_event_str(event->event), event->status, (void *)event->id,
		       (void *)event->listen_id);
		if (event->event == type)
			return event;
		rdma_ack_cm_event(event);
	}
}

static void expect_and_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(expect(channel, type));
}

static struct rdma_cm_id *listening(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;
	int on = 1;

	if (rdma_create_id(channel, &id, (void *)0x11, RDMA_PS_TCP))
		fail("rdma_create_id");
	said("reuse",
	     rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)));
	if (rdma_bind_addr(id, (struct sockaddr *)&address))
		fail("rdma_bind_addr");
	said("bound again", rdma_bind_addr(id, (struct sockaddr *)&address));
	if (rdma_listen(id, 4))
		fail("rdma_listen");
	print_id("listener", id);
	return id;
}

/* A new identifier with a route to the listener, and a queue pair. */
static struct rdma_cm_id *routed(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct ibv_qp_init_attr attr = {
	    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_ece ece = {.vendor_id = 1, .options = 2};
	struct sockaddr_in to = address;
	struct rdma_cm_id *id;

	to.sin_port = rdma_get_src_port(listener);
	if (rdma_create_id(channel, &id, (void *)0x22, RDMA_PS_TCP))
		fail("rdma_create_id");
	said("local ece", rdma_set_local_ece(id, &ece));
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000))
		fail("rdma_resolve_addr");
	expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		fail("rdma_resolve_route");
	expect_and_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (rdma_create_qp(id, NULL, &attr))
		fail("rdma_create_qp");
	printf("inline %u\n", attr.cap.max_inline_data);
	print_id("client", id);
	next_descriptor();
	return id;
}

static struct rdma_cm_id *requested(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	struct ibv_ece ece;

	print_bytes("request", event->param.conn.private_data, event->param.conn.private_data_len);
	printf("depth %d resources %d qp %u\n", event->param.conn.initiator_depth,
	       event->param.conn.responder_resources, event->param.conn.qp_num);
	if (!said("remote ece", rdma_get_remote_ece(id, &ece)))
		printf("ece %x %x\n", ece.vendor_id, ece.options);
	print_id("request", id);
	rdma_ack_cm_event(event);
	return id;
}

static struct rdma_conn_param param_of(const char *text)
{
	return (struct rdma_conn_param){
	    .private_data = text,
	    .private_data_len = (uint8_t)strlen(text),
	    .responder_resources = 1,
	    .initiator_depth = 1,
	    .retry_count = 7,
	};
}

static void rejected(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct rdma_cm_id *client = routed(channel, listener), *request;
	struct rdma_conn_param param = param_of("let me in");
	struct rdma_cm_event *event;

	said("connect", rdma_connect(client, &param));
	request = requested(channel);
	said("reject", rdma_reject(request, "no", 2));
	event = expect(channel, RDMA_CM_EVENT_REJECTED);
	print_bytes("answer", event->param.conn.private_data, 2);
	rdma_ack_cm_event(event);
	said("destroy", rdma_destroy_id(request));
	rdma_destroy_qp(client);
	print_id("without queue pair", client);
	said("destroy", rdma_destroy_id(client));
	next_descriptor();
}

static void serve(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_qp_init_attr_ex attr = {
	    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .sq_sig_all = 1,
	};
	struct ibv_qp_attr state = {.qp_state = IBV_QPS_RTR};
	int mask = 0;

	said("srq", rdma_create_srq(id, NULL, &srq));
	printf("%u receives\n", srq.attr.max_wr);
	if (rdma_create_qp_ex(id, &attr))
		fail("rdma_create_qp_ex");
	said("attributes", rdma_init_qp_attr(id, &state, &mask));
	printf("mask %x destination %u mtu %d\n", mask, state.dest_qp_num, state.path_mtu);
	print_id("server", id);
}

/* Messages and a READ, by the inline functions of rdma_verbs.h. */
static void talk(struct rdma_cm_id *client, struct rdma_cm_id *server)
{
	static char here[64], there[64], fetched[64];
	struct ibv_mr *mr = rdma_reg_msgs(client, here, sizeof(here));
	struct ibv_mr *mr_there = rdma_reg_read(server, there, sizeof(there));
	struct ibv_mr *mr_fetched = rdma_reg_msgs(client, fetched, sizeof(fetched));
	struct ibv_wc wc = {0};

	strcpy(here, "a message");
	said("receive", rdma_post_recv(server, (void *)0x33, there, sizeof(there), mr_there));
	said("send", rdma_post_send(client, (void *)0x44, here, 16, mr, IBV_SEND_SIGNALED));
	said("sent", rdma_get_send_comp(client, &wc));
	printf("wr %lx\n", (long)wc.wr_id);
	said("received", rdma_get_recv_comp(server, &wc));
	printf("wr %lx %u bytes: %s\n", (long)wc.wr_id, wc.byte_len, there);
	said("read", rdma_post_read(client, (void *)0x55, fetched, 16, mr_fetched,
				    IBV_SEND_SIGNALED, (uintptr_t)there, mr_there->rkey));
	said("fetched", rdma_get_send_comp(client, &wc));
	printf("wr %lx: %s\n", (long)wc.wr_id, fetched);
	rdma_dereg_mr(mr);
	rdma_dereg_mr(mr_there);
	rdma_dereg_mr(mr_fetched);
}

/* A message whose receive nobody polls: the end of the server's queue pair takes its completion with it. */
static void leave_message(struct rdma_cm_id *client, struct rdma_cm_id *server, char *to)
{
	static char from[64] = "left behind";
	struct ibv_mr *mr_to = rdma_reg_msgs(server, to, 64), *mr_from = rdma_reg_msgs(client, from, sizeof(from));
	struct ibv_wc wc;

	said("receive", rdma_post_recv(server, NULL, to, 64, mr_to));
	said("send", rdma_post_send(client, NULL, from, sizeof(from), mr_from, IBV_SEND_SIGNALED));
	said("sent", rdma_get_send_comp(client, &wc));
	rdma_dereg_mr(mr_from);
}

static void accepted(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	static char left[64];
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *client = routed(channel, listener), *server;
	struct rdma_conn_param param = param_of("hello");

	said("connect", rdma_connect(client, &param));
	server = requested(channel);
	serve(server);
	said("migrate", rdma_migrate_id(server, other));
	print_id("migrated", server);
	param = param_of("welcome");
	said("accept", rdma_accept(server, &param));
	expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	expect_and_ack(other, RDMA_CM_EVENT_ESTABLISHED);
	print_id("connected", client);
	said("establish", rdma_establish(client));
	said("notify", rdma_notify(server, IBV_EVENT_COMM_EST));
	talk(client, server);
	leave_message(client, server, left);
	said("disconnect", rdma_disconnect(client));
	expect_and_ack(other, RDMA_CM_EVENT_DISCONNECTED);
	said("disconnect", rdma_disconnect(server));
	expect_and_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(server);
	printf("%s\n", left);
	rdma_destroy_srq(server);
	print_id("bare", server);
	said("destroy", rdma_destroy_id(server));
	rdma_destroy_qp(client);
	said("destroy", rdma_destroy_id(client));
	rdma_destroy_event_channel(other);
	next_descriptor();
}

static void connections(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	struct rdma_cm_event *event;

	if (!channel)
		fail("rdma_create_event_channel");
	printf("channel %p %d\n", (void *)channel, channel->fd);
	said("nonblocking", fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	said("no event", rdma_get_cm_event(channel, &event));
	listener = listening(channel);
	rejected(channel, listener);
	accepted(channel, listener);
	said("destroy", rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
	next_descriptor();
}

/* -------------------------------------------------- devices, endpoints, groups */

static void devices(void)
{
	int n = 0;
	struct ibv_context **list = rdma_get_devices(&n);

	printf("%d devices\n", n);
	for (int i = 0; i < n; i++)
		printf("%p %s %s\n", (void *)list[i], list[i]->device->name,
		       ibv_get_device_name(list[i]->device));
	rdma_free_devices(list);
}

static void endpoint(const char *name, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = {
	    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	    .sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(name, "7474", &hints, &info))
		fail("rdma_getaddrinfo");
	printf("address %p flags %x family %d type %d\n", (void *)info, info->ai_flags,
	       info->ai_family, info->ai_qp_type);
	print_bytes("source", info->ai_src_addr, info->ai_src_len);
	print_bytes("destination", info->ai_dst_addr, info->ai_dst_len);
	if (!said("endpoint", rdma_create_ep(&id, info, NULL, &attr))) {
		print_id("endpoint", id);
		next_descriptor();
		rdma_destroy_ep(id);
	}
	rdma_freeaddrinfo(info);
	next_descriptor();
}

static void group(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct rdma_cm_join_mc_attr_ex attr = {
	    .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
	    .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
	    .addr = (struct sockaddr *)&to,
	};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	inet_pton(AF_INET, "239.1.2.4", &to.sin_addr);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&address))
		fail("a datagram identifier");
	said("join", rdma_join_multicast_ex(id, &attr, (void *)0x66));
	event = expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	printf("qp %x qkey %x context %p\n", event->param.ud.qp_num, event->param.ud.qkey,
	       event->param.ud.private_data);
	print_bytes("group", &event->param.ud.ah_attr.grh.dgid, 16);
	rdma_ack_cm_event(event);
	said("leave", rdma_leave_multicast(id, (struct sockaddr *)&to));
	said("leave again", rdma_leave_multicast(id, (struct sockaddr *)&to));
	said("destroy", rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* ---------------------------------------------------------------- rsockets */

static void ready(int fd, short events)
{
	struct pollfd pollfd = {.fd = fd, .events = events};

	said("rpoll", rpoll(&pollfd, 1, WAIT_MS));
	printf("revents %x\n", pollfd.revents);
}

static void print_options(int fd)
{
	struct sockaddr_in name;
	socklen_t length = sizeof(name);
	int value = 0;

	said("peer", rgetpeername(fd, (struct sockaddr *)&name, &length));
	print_bytes("peer", &name, length);
	length = sizeof(value);
	said("option", rgetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &length));
	printf("buffer %d (%u)\n", value, length);
	said("flags", rfcntl(fd, F_GETFL));
}

static void messages(int client, int server)
{
	char first[8] = "", second[32] = "";
	struct iovec iov[2] = {{first, 7}, {second, 31}};
	struct iovec parts[2] = {{"in two ", 7}, {"parts", 5}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	fd_set readable;

	said("rsend", rsend(client, "one", 3, 0));
	ready(server, POLLIN);
	said("rrecv", rrecv(server, first, 7, MSG_PEEK));
	said("rread", rread(server, first, 7));
	printf("%s\n", first);
	said("rwritev", rwritev(client, parts, 2));
	FD_ZERO(&readable);
	FD_SET(server, &readable);
	said("rselect", rselect(server + 1, &readable, NULL, NULL, &(struct timeval){20, 0}));
	printf("readable %d\n", FD_ISSET(server, &readable));
	said("rreadv", rreadv(server, iov, 2));
	said("rrecv", rrecv(server, second, 31, 0));
	printf("%s%s\n", first, second);
	said("rsendmsg", rsendmsg(server, &message, 0));
	ready(client, POLLIN);
	message = (struct msghdr){.msg_iov = iov + 1, .msg_iovlen = 1};
	said("rrecvmsg", rrecvmsg(client, &message, 0));
	said("rwrite", rwrite(server, "", 0));
	said("nothing", rrecv(server, first, 7, MSG_DONTWAIT));
}

/* What riowrite puts into the mapped buffer is not printed: nobody says when it is there. */
static void mapped(int client, int server)
{
	static char buffer[256];
	off_t offset = said("riomap", riomap(server, buffer, sizeof(buffer), PROT_WRITE, 0, 0));

	/* The next message of the server's tells the client of the mapping. */
	said("rsend", rsend(server, "go", 2, 0));
	ready(client, POLLIN);
	said("rrecv", rrecv(client, (char[8]){0}, 8, 0));
	said("riowrite", (long)riowrite(client, "written", 8, offset, 0));
	said("riounmap", riounmap(server, buffer, sizeof(buffer)));
}

static void stream(void)
{
	struct sockaddr_in name = address;
	socklen_t length = sizeof(name);
	int on = 1, client, server, listener = rsocket(AF_INET, SOCK_STREAM, 0);

	said("listener", listener);
	said("maps", rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &on, sizeof(on)));
	if (rbind(listener, (struct sockaddr *)&name, sizeof(name)) || rlisten(listener, 1))
		fail("rlisten");
	said("name", rgetsockname(listener, (struct sockaddr *)&name, &length));
	print_bytes("name", &name, length);
	next_descriptor();
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	said("client", client);
	said("maps", rsetsockopt(client, SOL_RDMA, RDMA_IOMAPSIZE, &on, sizeof(on)));
	said("nonblocking", rfcntl(client, F_SETFL, O_NONBLOCK));
	said("rconnect", rconnect(client, (struct sockaddr *)&name, sizeof(name)));
	length = sizeof(name);
	server = raccept(listener, (struct sockaddr *)&name, &length);
	said("raccept", server);
	print_bytes("from", &name, length);
	ready(client, POLLOUT);
	print_options(client);
	messages(client, server);
	mapped(client, server);
	said("rshutdown", rshutdown(client, SHUT_RDWR));
	said("end", rrecv(server, &on, sizeof(on), 0));
	said("rclose", rclose(client));
	said("rclose", rclose(server));
	said("rclose", rclose(listener));
	said("rclose", rclose(listener));
	next_descriptor();
}

static void datagrams(void)
{
	struct sockaddr_in name = address;
	socklen_t length = sizeof(name);
	int receiver = rsocket(AF_INET, SOCK_DGRAM, 0), sender = rsocket(AF_INET, SOCK_DGRAM, 0);
	char text[32] = "";
	int flags = 0;

	said("receiver", receiver);
	said("sender", sender);
	if (rbind(receiver, (struct sockaddr *)&name, sizeof(name)))
		fail("rbind");
	rgetsockname(receiver, (struct sockaddr *)&name, &length);
	/* Without a GRH, which they do not ask for, librdmacm's datagrams do not get over RoCE. */
	if (said("rsendto",
		 rsendto(sender, "a datagram", 11, 0, (struct sockaddr *)&name, length)) < 0)
		flags = MSG_DONTWAIT;
	length = sizeof(name);
	said("rrecvfrom",
	     rrecvfrom(receiver, text, sizeof(text), flags, (struct sockaddr *)&name, &length));
	printf("%s from %d\n", text, ntohs(name.sin_port));
	said("rclose", rclose(sender));
	said("rclose", rclose(receiver));
	next_descriptor();
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	setlinebuf(stdout); /* should it hang, it has said where */
	/* Neither moves with the kernel nor with what the libraries allocate. */
	printf("stack %p\n", (void *)&argc);
	address.sin_family = AF_INET;
	if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
		return 2;
	next_descriptor();
	devices();
	connections();
	endpoint(argv[1], RAI_PASSIVE);
	endpoint(argv[1], 0);
	group();
	stream();
	datagrams();
	printf("heap %p %p\n", malloc(100), malloc(1 << 20));
	printf("done\n");
	return 0;
}
