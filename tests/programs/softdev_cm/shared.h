/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared.h: what the cases of softdev_cm share. They use librdmacm without queue pairs: what
 * they prove is the software device's connection manager (tests/lib/softdev/cm).
 *
 * A case that fails says where, and the process exits with 1.
 */
#ifndef SOFTDEV_CM_SHARED_H
#define SOFTDEV_CM_SHARED_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <rdma/rdma_cma.h>

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("%s:%d: not %s (errno %s)\n", __FILE__, __LINE__, #condition,       \
			       strerrorname_np(errno));                                            \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define EXPECT_ERROR(error, call)                                                                  \
	do {                                                                                       \
		errno = 0;                                                                         \
		EXPECT((call) == -1 && errno == (error));                                          \
	} while (0)

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

union address address_of(const char *text, int port);

struct rdma_event_channel *channel_of(void);
struct rdma_cm_id *id_of(struct rdma_event_channel *channel, enum rdma_port_space ps);

/* An identifier that listens; *port is its port. */
struct rdma_cm_id *listen_at(struct rdma_event_channel *channel, enum rdma_port_space ps,
			     const char *text, int *port);

/* An identifier that has resolved address and route. */
struct rdma_cm_id *resolved(struct rdma_event_channel *channel, enum rdma_port_space ps,
			    const char *text, int port);

/* Waits for an event, which must be of this type. */
struct rdma_cm_event *event_of(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* The same, and acknowledges it. Returns the identifier. */
struct rdma_cm_id *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
				int status);

void start_connect(struct rdma_cm_id *id, const char *text);
void accept_with(struct rdma_cm_id *id, const char *text);

/* A connection within the process, on one channel. */
struct pair {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *active, *passive;
	int port;
};
struct pair connected_pair(void);
void destroy_pair(struct pair *pair);

/* Is an event there within so many milliseconds? */
bool is_readable(int fd, int ms);

int count_descriptors(void);

/* A process that runs f with one end of a pipe, and has the other end. */
struct child {
	pid_t pid;
	int from, to;
};
struct child start_child(void (*f)(int from, int to));
void tell(int fd, int value);
int hear(int fd);
/* Waits for its end; it must have been good. */
void join_child(struct child *child);

/* The cases; each file's first lines say what they prove. */
#define CASES(X)                                                                                   \
	X(connects)                                                                                \
	X(keeps_the_order_of_connections)                                                          \
	X(connects_processes)                                                                      \
	X(refuses_where_nobody_listens)                                                            \
	X(rejects)                                                                                 \
	X(disconnects)                                                                             \
	X(survives_a_killed_peer)                                                                  \
	X(rejects_what_a_killed_listener_had)                                                      \
	X(answers_datagram_services)                                                               \
	X(limits_private_data)                                                                     \
	X(gives_attributes)                                                                        \
	X(queues_many_requests)                                                                    \
	X(has_all_local_addresses)                                                                 \
	X(reserves_ports)                                                                          \
	X(finds_the_closest_listener)                                                              \
	X(keeps_port_spaces_apart)                                                                 \
	X(is_readable_while_an_event_waits)                                                        \
	X(wakes_a_blocked_thread)                                                                  \
	X(interrupts_as_the_kernel_does)                                                           \
	X(can_be_cancelled)                                                                        \
	X(migrates)                                                                                \
	X(counts_reported_events)                                                                  \
	X(joins_groups)                                                                            \
	X(leaves_no_descriptors)                                                                   \
	X(outlives_children)                                                                       \
	X(answers_wrong_commands)

#define X(name) void name(void);
CASES(X)
#undef X

#endif
