/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * address.h: where the daemons of a job's nodes listen.
 *
 * An address is IPv4 or IPv6 with a port.  Unused bytes are 0, so that equal addresses are equal
 * memory.  The daemons of a user listen on the same port on every host, unless --listen or
 * the job's host list says otherwise.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_ADDRESS_H
#define LOGD_NODES_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* "1.2.3.4", "1.2.3.4:5", "::1", "[::1]:5"; without a port it is 0.  False: none of these. */
bool node_address_parse(const char *text, struct sockaddr_storage *a);

/* The IP address alone; "?" if it is none. */
void node_address_print(const struct sockaddr_storage *a, char *text, size_t size);

in_port_t *node_address_port(struct sockaddr_storage *a);
bool node_address_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* The address of a GID that is one: ::ffff:a.b.c.d, or global IPv6.  False: it is none. */
bool node_address_of_gid(const uint8_t *gid, struct sockaddr_storage *a);

/* Where this daemon listens: an address as above.  -EINVAL: it is none. */
int node_set_address(const char *text);

/* Where its predecessor listened: this daemon does so too, unless node_set_address was called. */
void node_inherit_address(const struct sockaddr_storage *a);

/* The address that was set or inherited; ss_family 0: none. */
const struct sockaddr_storage *node_listen_address(void);

/* The port of all daemons of a job, but for those that its host list gives another one. */
in_port_t node_common_port(void);

#endif
