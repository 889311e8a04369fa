/* SPDX-License-Identifier: BSD-2-Clause */
/* addresses.c: cases of addresses and ports. */
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared.h"

static void connect_to_any(const char *listen, const union address *to)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *active = id_of(channel, RDMA_PS_TCP), *passive;
	union address dst = *to;
	int port = 0;

	listen_at(channel, RDMA_PS_TCP, listen, &port);
	dst.in.sin_port = htons((uint16_t)port);
	EXPECT(!rdma_resolve_addr(active, NULL, &dst.sa, 1000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	EXPECT(!rdma_resolve_route(active, 1000));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	start_connect(active, "");
	passive = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	EXPECT(!memcmp(rdma_get_local_addr(passive), rdma_get_peer_addr(active), sizeof(dst.in)));
	EXPECT(!memcmp(rdma_get_peer_addr(passive), rdma_get_local_addr(active), sizeof(dst.in)));
}

static bool is_usable(const struct ifaddrs *i)
{
	int family = i->ifa_addr ? i->ifa_addr->sa_family : 0;

	return (i->ifa_flags & IFF_UP) && (family == AF_INET || family == AF_INET6);
}

void has_all_local_addresses(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *id;
	union address a = address_of("127.0.0.1", 0);
	struct ifaddrs *list;

	connect_to_any("0.0.0.0", &a);
	connect_to_any("::", &a);
	a = address_of("127.9.9.9", 0);
	connect_to_any("0.0.0.0", &a);

	EXPECT(!getifaddrs(&list));
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (!is_usable(i))
			continue;
		memcpy(&a, i->ifa_addr,
		       i->ifa_addr->sa_family == AF_INET ? sizeof(a.in) : sizeof(a.in6));
		connect_to_any("::", &a);
		id = id_of(channel, RDMA_PS_TCP);
		EXPECT(!rdma_bind_addr(id, &a.sa));
		EXPECT(id->verbs && id->port_num == 1);
		EXPECT(!rdma_destroy_id(id));
	}
	freeifaddrs(list);

	/* A listener at all addresses belongs to no device. */
	id = id_of(channel, RDMA_PS_TCP);
	a = address_of("0.0.0.0", 0);
	EXPECT(!rdma_bind_addr(id, &a.sa) && !id->verbs);

	/* For documents: no host has it. */
	a = address_of("192.0.2.1", 7471);
	id = id_of(channel, RDMA_PS_TCP);
	EXPECT_ERROR(EADDRNOTAVAIL, rdma_bind_addr(id, &a.sa));
	EXPECT(!rdma_resolve_addr(id, NULL, &a.sa, 1000));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV) == id);
}

static void hold_port(int from, int to)
{
	struct rdma_event_channel *channel = channel_of();
	int port = 0;

	listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	tell(to, port);
	pause();
}

void reserves_ports(void)
{
	struct child child = start_child(hold_port);
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *id = id_of(channel, RDMA_PS_TCP), *other;
	union address a = address_of("127.0.0.1", hear(child.from));

	EXPECT_ERROR(EADDRINUSE, rdma_bind_addr(id, &a.sa));
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	EXPECT(!rdma_bind_addr(id, &a.sa));
	EXPECT_ERROR(EINVAL, rdma_bind_addr(id, &a.sa));
	other = id_of(channel, RDMA_PS_TCP);
	EXPECT_ERROR(EADDRINUSE, rdma_bind_addr(other, &a.sa));
	EXPECT(!rdma_destroy_id(id));
	EXPECT(!rdma_bind_addr(other, &a.sa));
	EXPECT(!rdma_destroy_id(other));
}

/* Who asks for an address gets who listens there, and else who listens at all. */
void finds_the_closest_listener(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *exact, *any;
	struct rdma_cm_event *event;
	int port = 0;

	exact = listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	any = listen_at(channel, RDMA_PS_TCP, "0.0.0.0", &port);
	start_connect(resolved(channel, RDMA_PS_TCP, "127.0.0.1", port), "");
	event = event_of(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT(event->listen_id == exact);
	rdma_ack_cm_event(event);
	start_connect(resolved(channel, RDMA_PS_TCP, "127.0.0.2", port), "");
	event = event_of(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT(event->listen_id == any);
	rdma_ack_cm_event(event);
}

void keeps_port_spaces_apart(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *only;
	union address a;
	int port = 0, on = 1;

	listen_at(channel, RDMA_PS_UDP, "127.0.0.1", &port);
	start_connect(resolved(channel, RDMA_PS_TCP, "127.0.0.1", port), "");
	expect_event(channel, RDMA_CM_EVENT_REJECTED, 8);
	listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	listen_at(channel, RDMA_PS_IB, "127.0.0.1", &port);

	/* A listener for IPv6 alone does not get who comes by IPv4. */
	only = id_of(channel, RDMA_PS_TCP);
	a = address_of("::", 0);
	EXPECT(!rdma_set_option(only, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)));
	EXPECT(!rdma_bind_addr(only, &a.sa) && !rdma_listen(only, 1));
	start_connect(resolved(channel, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(only))),
		      "");
	expect_event(channel, RDMA_CM_EVENT_REJECTED, 8);
}
