/* SPDX-License-Identifier: BSD-2-Clause */
/* shared.c: see shared.h. */
#include "shared.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 10000

union address address_of(const char *text, int port)
{
	union address a = {.in.sin_family = AF_INET};

	if (inet_pton(AF_INET, text, &a.in.sin_addr) != 1) {
		a.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
		EXPECT(inet_pton(AF_INET6, text, &a.in6.sin6_addr) == 1);
	}
	a.in.sin_port = htons((uint16_t)port); /* at the same place in both */
	return a;
}

struct rdma_event_channel *channel_of(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	EXPECT(channel);
	return channel;
}

struct rdma_cm_id *id_of(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	EXPECT(!rdma_create_id(channel, &id, NULL, ps));
	return id;
}

struct rdma_cm_id *listen_at(struct rdma_event_channel *channel, enum rdma_port_space ps,
			     const char *text, int *port)
{
	struct rdma_cm_id *id = id_of(channel, ps);
	union address a = address_of(text, *port);

	EXPECT(!rdma_bind_addr(id, &a.sa));
	EXPECT(!rdma_listen(id, 8));
	*port = ntohs(rdma_get_src_port(id));
	EXPECT(*port);
	return id;
}

bool is_readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1 && p.revents == POLLIN;
}

struct rdma_cm_event *event_of(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	EXPECT(is_readable(channel->fd, WAIT_MS));
	EXPECT(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		printf("%s, status %d\n", rdma_event_str(event->event), event->status);
	EXPECT(event->event == type);
	return event;
}

struct rdma_cm_id *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
				int status)
{
	struct rdma_cm_event *event = event_of(channel, type);
	struct rdma_cm_id *id = event->id;

	EXPECT(event->status == status);
	EXPECT(!rdma_ack_cm_event(event));
	return id;
}

struct rdma_cm_id *resolved(struct rdma_event_channel *channel, enum rdma_port_space ps,
			    const char *text, int port)
{
	struct rdma_cm_id *id = id_of(channel, ps);
	union address a = address_of(text, port);

	EXPECT(!rdma_resolve_addr(id, NULL, &a.sa, 1000));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0) == id);
	EXPECT(!rdma_resolve_route(id, 1000));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0) == id);
	return id;
}

static struct rdma_conn_param with(const char *text)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};

	param.retry_count = 5;
	param.rnr_retry_count = 6;
	param.qp_num = 0x1234;
	param.private_data = text;
	param.private_data_len = (uint8_t)strlen(text);
	return param;
}

void start_connect(struct rdma_cm_id *id, const char *text)
{
	struct rdma_conn_param param = with(text);

	EXPECT(!rdma_connect(id, &param));
}

void accept_with(struct rdma_cm_id *id, const char *text)
{
	struct rdma_conn_param param = with(text);

	param.qp_num = 0x4321;
	EXPECT(!rdma_accept(id, &param));
}

struct pair connected_pair(void)
{
	struct pair p = {.channel = channel_of()};

	p.listener = listen_at(p.channel, RDMA_PS_TCP, "127.0.0.1", &p.port);
	p.active = resolved(p.channel, RDMA_PS_TCP, "127.0.0.1", p.port);
	start_connect(p.active, "");
	p.passive = expect_event(p.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	accept_with(p.passive, "");
	expect_event(p.channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	EXPECT(!rdma_establish(p.active));
	EXPECT(expect_event(p.channel, RDMA_CM_EVENT_ESTABLISHED, 0) == p.passive);
	return p;
}

void destroy_pair(struct pair *p)
{
	EXPECT(!rdma_destroy_id(p->active));
	EXPECT(!rdma_destroy_id(p->passive));
	EXPECT(!rdma_destroy_id(p->listener));
	rdma_destroy_event_channel(p->channel);
}

int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	EXPECT(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

struct child start_child(void (*f)(int from, int to))
{
	int down[2], up[2];
	struct child child;

	EXPECT(!pipe(down) && !pipe(up));
	fflush(stdout);
	child.pid = fork();
	EXPECT(child.pid >= 0);
	if (!child.pid) {
		close(down[1]);
		close(up[0]);
		f(down[0], up[1]);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	child.from = up[0];
	child.to = down[1];
	return child;
}

void tell(int fd, int value)
{
	EXPECT(write(fd, &value, sizeof(value)) == sizeof(value));
}

int hear(int fd)
{
	int value;

	EXPECT(is_readable(fd, WAIT_MS));
	EXPECT(read(fd, &value, sizeof(value)) == sizeof(value));
	return value;
}

void join_child(struct child *child)
{
	int status;

	close(child->to);
	EXPECT(waitpid(child->pid, &status, 0) == child->pid);
	EXPECT(!status);
	close(child->from);
}
