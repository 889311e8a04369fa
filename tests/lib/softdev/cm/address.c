/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * address.c: addresses, and the ports of the fabric.
 *
 * A port is an abstract UNIX address: fabric, port space, port and IP address. Binding a socket
 * to it reserves the port; a connection finds who listens there. The kernel frees it when the
 * process ends, however it ends.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "internal.h"

#ifndef AF_IB
#define AF_IB 27
#endif

/* Where Linux takes ports from that a program does not choose. */
#define FIRST_PORT 32768
#define PORTS      28232

static uint64_t fabric;

/* FNV-1a. The path may be longer than an abstract address. */
__attribute__((constructor)) static void read_fabric(void)
{
	const char *path = getenv("SOFTDEV_FABRIC");

	fabric = 0xcbf29ce484222325ull;
	for (; path && *path; path++)
		fabric = (fabric ^ (unsigned char)*path) * 0x100000001b3ull;
}

/* An address as IPv6, as its name has it. */
struct ip {
	uint8_t bytes[16];
};

static struct ip ip_of(const union cm_address *a)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	struct ip ip = {{0}};

	switch (a->sa.sa_family) {
	case AF_INET:
		memcpy(ip.bytes, mapped, sizeof(mapped));
		memcpy(ip.bytes + 12, &a->in.sin_addr, 4);
		break;
	case AF_INET6:
		memcpy(ip.bytes, &a->in6.sin6_addr, 16);
		break;
	case AF_IB:
		memcpy(ip.bytes, &a->ib.sib_addr, 16);
		break;
	}
	return ip;
}

static bool is_ipv4(const struct ip *ip)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return !memcmp(ip->bytes, mapped, sizeof(mapped));
}

unsigned int cm_address_length(const union cm_address *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return sizeof(a->in);
	case AF_INET6:
		return sizeof(a->in6);
	case AF_IB:
		return sizeof(a->ib);
	default:
		return 0;
	}
}

bool cm_address_is_any(const union cm_address *a)
{
	struct ip ip = ip_of(a);

	for (int n = is_ipv4(&ip) ? 12 : 0; n < 16; n++)
		if (ip.bytes[n])
			return false;
	return true;
}

bool cm_address_is_local(const union cm_address *a)
{
	union cm_address free_port = *a;
	struct ip ip = ip_of(a);
	long fd, ret;

	if (a->sa.sa_family == AF_IB) {
		if (!memcmp(ip.bytes, cm_gid, sizeof(cm_gid)))
			return true;
		free_port = (union cm_address){.in6 = {.sin6_family = AF_INET6}};
		memcpy(&free_port.in6.sin6_addr, ip.bytes, 16);
	}
	cm_address_set_port(&free_port, 0);
	fd = cm_sys(SYS_socket, free_port.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	ret = cm_sys(SYS_bind, fd, &free_port, cm_address_length(&free_port));
	cm_sys(SYS_close, fd);
	return !ret;
}

uint16_t cm_address_port(const union cm_address *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return ntohs(a->in.sin_port);
	case AF_INET6:
		return ntohs(a->in6.sin6_port);
	case AF_IB:
		return (uint16_t)be64toh(a->ib.sib_sid);
	default:
		return 0;
	}
}

void cm_address_set_port(union cm_address *a, uint16_t port)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		a->in.sin_port = htons(port);
		break;
	case AF_INET6:
		a->in6.sin6_port = htons(port);
		break;
	case AF_IB:
		a->ib.sib_sid = htobe64((be64toh(a->ib.sib_sid) & ~0xffffull) | port);
		break;
	}
}

void cm_address_set_loopback(union cm_address *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		a->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		break;
	case AF_INET6:
		a->in6.sin6_addr = in6addr_loopback;
		break;
	case AF_IB:
		memcpy(&a->ib.sib_addr, cm_gid, sizeof(cm_gid));
		break;
	}
}

/* An identifier of the port space IB names in its address the port space that it is in. */
static unsigned int port_space(const struct cm_id *id, const union cm_address *a)
{
	uint64_t sid = a->sa.sa_family == AF_IB ? be64toh(a->ib.sib_sid) >> 16 : 0;

	return id->ps == RDMA_PS_IB && (sid == RDMA_PS_TCP || sid == RDMA_PS_UDP) ? (unsigned)sid
										  : id->ps;
}

struct name {
	struct sockaddr_un un;
	unsigned int length;
};

/* The suffix tells listeners on [::] for IPv6 alone from those for IPv4 as well. */
static struct name name_of(unsigned int ps, const struct ip *ip, uint16_t port, const char *suffix)
{
	struct name name = {.un = {.sun_family = AF_UNIX}};
	char *p = name.un.sun_path;
	int n;

	/* The first byte stays 0: an abstract address. */
	n = 1 + snprintf(p + 1, sizeof(name.un.sun_path) - 1, "softdev-cm/%016llx/%x/%u/",
			 (unsigned long long)fabric, ps, port);
	for (int i = 0; i < 16; i++)
		n += snprintf(p + n, sizeof(name.un.sun_path) - (size_t)n, "%02x", ip->bytes[i]);
	n += snprintf(p + n, sizeof(name.un.sun_path) - (size_t)n, "%s", suffix);
	name.length = (unsigned int)(offsetof(struct sockaddr_un, sun_path) + (size_t)n);
	return name;
}

static int reserve(const struct cm_id *id, int fd, uint16_t port)
{
	struct ip ip = ip_of(&id->src);
	bool alone = id->only_own_family && cm_address_is_any(&id->src) && !is_ipv4(&ip);
	struct name name = name_of(port_space(id, &id->src), &ip, port, alone ? "only" : "");

	return (int)cm_sys(SYS_bind, fd, &name.un, name.length);
}

int cm_address_bind(struct cm_id *id)
{
	uint16_t port = cm_address_port(&id->src);
	uint32_t start = 0;
	int fd, ret = 0;

	fd = cm_move_fd(
	    (int)cm_sys(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fd;
	if (port)
		ret = reserve(id, fd, port);
	else
		cm_sys(SYS_getrandom, &start, sizeof(start), 0);
	for (uint32_t n = 0; !cm_address_port(&id->src) && n < PORTS; n++) {
		port = (uint16_t)(FIRST_PORT + (start + n) % PORTS);
		ret = reserve(id, fd, port);
		if (ret != -EADDRINUSE)
			break;
	}
	if (ret) {
		cm_sys(SYS_close, fd);
		return ret;
	}
	cm_address_set_port(&id->src, port);
	id->sock = fd;
	return 0;
}

static int connect_to(struct cm_id *id, const struct ip *ip, const char *suffix)
{
	struct name name = name_of(port_space(id, &id->dst), ip, cm_address_port(&id->dst), suffix);

	return (int)cm_sys(SYS_connect, id->sock, &name.un, name.length);
}

/* Those who listen at this very address come before those who listen at all. */
int cm_address_connect(struct cm_id *id)
{
	struct ip ip = ip_of(&id->dst), any4 = {{[10] = 0xff, [11] = 0xff}}, any6 = {{0}};
	int ret = connect_to(id, &ip, "");

	if (ret == -ECONNREFUSED && (is_ipv4(&ip) || id->dst.sa.sa_family == AF_IB))
		ret = connect_to(id, &any4, "");
	if (ret == -ECONNREFUSED)
		ret = connect_to(id, &any6, "");
	if (ret == -ECONNREFUSED && !is_ipv4(&ip))
		ret = connect_to(id, &any6, "only");
	return ret;
}
