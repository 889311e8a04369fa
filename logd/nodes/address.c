/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The port depends on the user alone, so that the daemons of one user find each other. */
#define PORT_BASE  24000
#define PORT_RANGE 8000

static struct sockaddr_storage listen_address;
static bool is_given;

static in_port_t default_port(void)
{
	return htons((in_port_t)(PORT_BASE + geteuid() % PORT_RANGE));
}

in_port_t *node_address_port(struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? &((struct sockaddr_in *)a)->sin_port
				       : &((struct sockaddr_in6 *)a)->sin6_port;
}

static bool parse_ip(const char *text, struct sockaddr_storage *a)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)a)->sin_addr) == 1)
		a->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)a)->sin6_addr) == 1)
		a->ss_family = AF_INET6;
	else
		return false;
	return true;
}

bool node_address_parse(const char *text, struct sockaddr_storage *a)
{
	char host[64], *colon, *end;
	long port = 0;

	if (strlen(text) >= sizeof(host))
		return false;
	strcpy(host, text);
	if (host[0] == '[') {
		memmove(host, host + 1, strlen(host));
		colon = strchr(host, ']');
		if (!colon || (colon[1] && colon[1] != ':'))
			return false;
		*colon = 0;
		colon = colon[1] ? colon + 1 : NULL;
	} else {
		colon = strchr(host, ':');
		if (colon && strchr(colon + 1, ':'))
			colon = NULL;
	}
	if (colon) {
		*colon = 0;
		port = strtol(colon + 1, &end, 10);
		if (*end || port < 1 || port > 65535)
			return false;
	}
	if (!parse_ip(host, a))
		return false;
	*node_address_port(a) = port ? htons((in_port_t)port) : 0;
	return true;
}

int node_set_address(const char *text)
{
	is_given = node_address_parse(text, &listen_address);
	return is_given ? 0 : -EINVAL;
}

void node_inherit_address(const struct sockaddr_storage *a)
{
	if (!is_given)
		listen_address = *a;
}

const struct sockaddr_storage *node_listen_address(void)
{
	return &listen_address;
}

in_port_t node_common_port(void)
{
	in_port_t port = listen_address.ss_family ? *node_address_port(&listen_address) : 0;

	return port ? port : default_port();
}

void node_address_print(const struct sockaddr_storage *a, char *text, size_t size)
{
	const void *ip = a->ss_family == AF_INET
			     ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
			     : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;

	if (!inet_ntop(a->ss_family, ip, text, (socklen_t)size))
		snprintf(text, size, "?");
}

bool node_address_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return !memcmp(a, b, sizeof(*a));
}

bool node_address_of_gid(const uint8_t *gid, struct sockaddr_storage *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memset(a, 0, sizeof(*a));
	if (!memcmp(gid, mapped, sizeof(mapped))) {
		a->ss_family = AF_INET;
		memcpy(&((struct sockaddr_in *)a)->sin_addr, gid + 12, 4);
	} else if (gid[0] >> 5 == 1) {
		a->ss_family = AF_INET6;
		memcpy(&((struct sockaddr_in6 *)a)->sin6_addr, gid, 16);
	} else {
		return false;
	}
	*node_address_port(a) = node_common_port();
	return true;
}
