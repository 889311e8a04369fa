/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal.h: the connection manager of the software device.
 *     calls.c      the functions that replace libc's
 *     commands.c   the commands that a program writes to the device
 *     channel.c    channels (open files of the device), and waiting for an event
 *     ids.c        identifiers, their events and timers
 *     address.c    addresses, and the ports of the fabric
 *     connect.c    connecting, and the messages between two identifiers
 *     passive.c    listening, and what the passive side of a connection does
 *     query.c      what a program may ask of an identifier
 *
 * There is no daemon and no thread. A channel's descriptor is an epoll instance, so that programs
 * can poll it. It holds
 *     an eventfd    readable while an event is queued in this process
 *     a timerfd     expires when the next event of a timer is due
 *     sockets       of its identifiers: abstract UNIX sockets, named after fabric and port
 * A message that arrives at a socket makes the descriptor readable. It becomes an event in the
 * call that takes events, or in the next command that names its identifier.
 *
 * Everything below is called with the lock held (cm_lock() in calls.c). All memory is static:
 * the process may be one that orders the calls of malloc.
 */
#ifndef SOFTDEV_CM_INTERNAL_H
#define SOFTDEV_CM_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/ib.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include "cm.h"

/* The device as tests/lib/softdev has it. */
#ifndef CM_NODE_GUID
#define CM_NODE_GUID 0x0200000000000001ull
#endif
#define CM_PORT         1
#define CM_PKEY         0xffff
#define CM_GID_INDEX    1

#define CM_MAX_CHANNELS 4096
#define CM_MAX_IDS      16384
#define CM_MAX_EVENTS   32768
#define CM_MAX_GROUPS   1024 /* memberships in multicast groups */

/* The events of rdma_cm_event_type: the kernel's interface has no names for them. */
enum cm_event_type {
	CM_ADDR_RESOLVED,
	CM_ADDR_ERROR,
	CM_ROUTE_RESOLVED,
	CM_ROUTE_ERROR,
	CM_CONNECT_REQUEST,
	CM_CONNECT_RESPONSE,
	CM_CONNECT_ERROR,
	CM_UNREACHABLE,
	CM_REJECTED,
	CM_ESTABLISHED,
	CM_DISCONNECTED,
	CM_DEVICE_REMOVAL,
	CM_MULTICAST_JOIN,
	CM_MULTICAST_ERROR,
	CM_ADDR_CHANGE,
	CM_TIMEWAIT_EXIT,
};

/* Numbers of the connection manager's protocol: reasons of a rejection, ... */
enum {
	INVALID_SERVICE_ID = 8,
	CONSUMER_DEFINED = 28,
	VENDOR_OPTION_NOT_SUPPORTED = 35,
	/* ... of a datagram service (SIDR), ... */
	SIDR_UNSUPPORTED = 1,
	SIDR_REJECT = 2,
	/*
	 * ... and the room for private data in its messages. The kernel reports all of it, whatever
	 * the peer used. In a request the addresses take 36 bytes of it.
	 */
	REQUEST_DATA = 92,
	SIDR_REQUEST_DATA = 216,
	IP_HEADER = 36,
	REPLY_DATA = 196,
	REJECT_DATA = 148,
	SIDR_REPLY_DATA = 136,
};

union cm_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_ib ib;
	struct __kernel_sockaddr_storage room;
};

enum cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_ADDRESS_KNOWN,
	CM_ROUTE_KNOWN,
	CM_LISTENING,
	CM_REQUEST_SENT,
	CM_REPLY_RECEIVED,
	CM_ACCEPTED_SOCKET, /* a connection whose request has not arrived yet */
	CM_REQUEST_RECEIVED,
	CM_REPLY_SENT,
	CM_CONNECTED,
	CM_DISCONNECT_SENT,
	CM_DISCONNECT_RECEIVED,
	CM_TIMEWAIT,
	CM_OVER, /* rejected, or a datagram service that was asked */
};

struct cm_channel {
	int fd; /* the epoll instance */
	int event_fd, timer_fd;
	pid_t owner; /* a forked child that closes it must not end its connections */
	struct cm_event *first, **last;
};

struct cm_id {
	bool used;
	bool has_device;
	bool reports; /* the program gave it a uid: its events are wanted */
	bool watched; /* its socket is in the channel's epoll instance */
	bool reuse_address, only_own_family;
	uint8_t qp_type;
	uint16_t ps;
	uint32_t handle;
	uint64_t uid;
	struct cm_channel *channel;
	enum cm_state state;
	uint32_t listener; /* the handle + 1 of a connection's that the program has not seen yet */
	union cm_address src, dst;
	int sock;
	uint32_t remote_qpn, qkey;
	uint32_t psn, remote_psn;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint32_t events_reported;
	uint64_t deadline; /* of its timer, on CLOCK_MONOTONIC in ns; 0: none */
};

struct cm_group {
	bool used;
	uint32_t handle, id;
	uint64_t uid;
	uint32_t events_reported;
};

struct cm_event {
	struct cm_event *next;
	uint32_t id;      /* whose event it is */
	uint32_t group;   /* the membership's handle + 1, or 0 */
	uint32_t arrived; /* the handle + 1 of the identifier that a CONNECT_REQUEST makes */
	struct rdma_ucm_event_resp resp;
};

enum cm_message_type {
	CM_MSG_REQUEST,
	CM_MSG_REPLY,
	CM_MSG_READY,
	CM_MSG_REJECT,
	CM_MSG_DISCONNECT,
	CM_MSG_DISCONNECTED,
};

/* Between the sockets of two identifiers. */
struct cm_message {
	uint64_t sent; /* cm_now() */
	uint32_t type;
	uint32_t reason; /* of a rejection */
	uint32_t qpn, qkey, psn;
	uint8_t qp_type;
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint8_t private_length;
	struct rdma_ucm_ece ece;
	union cm_address src, dst;
	uint8_t private_data[RDMA_MAX_PRIVATE_DATA];
};

/* The device's system calls: by number, since libc's functions may be those of a recorder. */
long cm_sys(long number, ...);

/* ---- calls.c ---- */

void cm_lock(void);
void cm_unlock(void);

/* ---- commands.c ---- */

/* What write() returns, -errno if it fails. Takes the lock itself. */
ssize_t cm_command(int fd, const void *buffer, size_t length);

/* ---- channel.c ---- */

/* NULL if the descriptor is no channel's. The first function needs no lock. */
bool cm_may_be_channel(int fd);
struct cm_channel *cm_channel_find(int fd);
void cm_channel_close(struct cm_channel *channel);

void cm_channel_watch(struct cm_channel *channel, struct cm_id *id);
void cm_channel_unwatch(struct cm_id *id);
void cm_channel_signal(struct cm_channel *channel);

/* Sets the timer to the earliest deadline of the channel's identifiers. */
void cm_channel_set_timer(struct cm_channel *channel);

/* Removes and returns the first event, waiting for one; -errno in *error if there is none. */
struct cm_event *cm_channel_take_event(int fd, struct cm_channel **channel, int *error);

/* A descriptor like this one, closed on exec, with a number that programs do not come across. */
int cm_move_fd(int fd);

/* ---- ids.c ---- */

struct cm_id *cm_id_make(struct cm_channel *channel, uint16_t ps, uint8_t qp_type);
/* NULL if there is none with this handle; *error is then -errno. */
struct cm_id *cm_id_find(uint32_t handle);
struct cm_id *cm_id_of(struct cm_channel *channel, uint32_t handle, int *error);
/* Calls f for each identifier of the channel. */
void cm_id_each(struct cm_channel *channel, void (*f)(struct cm_id *id, void *p), void *p);
/* Ends its connection; its events that were not reported are dropped. */
void cm_id_destroy(struct cm_id *id);
void cm_id_close_socket(struct cm_id *id);
void cm_id_move(struct cm_id *id, struct cm_channel *to);
void cm_id_set_timer(struct cm_id *id, uint64_t ns);
uint64_t cm_now(void);

bool cm_is_datagram(const struct cm_id *id);

/* Queues an event. NULL if none is wanted; else the caller may fill in the rest of it. */
struct cm_event *cm_event_add(struct cm_id *id, enum cm_event_type type, int status);
void cm_event_free(struct cm_event *event);

struct cm_group *cm_group_join(struct cm_id *id, uint64_t uid);
struct cm_group *cm_group_find(uint32_t handle);
void cm_group_leave(struct cm_group *group);
/* An event of a group; NULL as above. */
struct cm_event *cm_group_event(struct cm_id *id, struct cm_group *group);

/* ---- address.c ---- */

/* The length of an address of this family; 0 for an unknown one. */
unsigned int cm_address_length(const union cm_address *a);
bool cm_address_is_any(const union cm_address *a);
/* Is it an address of this host? */
bool cm_address_is_local(const union cm_address *a);
uint16_t cm_address_port(const union cm_address *a);
void cm_address_set_port(union cm_address *a, uint16_t port);
/* Makes the wildcard address a loopback address. */
void cm_address_set_loopback(union cm_address *a);

/* Reserves the port of id->src (or a free one) with a new socket. Returns 0 or -errno. */
int cm_address_bind(struct cm_id *id);
/* Connects id->sock to who listens at id->dst: 0, -ECONNREFUSED, or -EAGAIN. */
int cm_address_connect(struct cm_id *id);

/* ---- connect.c ---- */

int cm_connect(struct cm_id *id, const struct rdma_ucm_connect *command);
int cm_ready(struct cm_id *id); /* the active side accepts the reply */
int cm_disconnect(struct cm_id *id);
int cm_notify(struct cm_id *id, uint32_t event);
/* Turns what arrived at the socket into events. */
void cm_receive(struct cm_id *id);
/* Of a connection, the first of it.  False if nothing more may be there. */
bool cm_receive_one(struct cm_id *id);
void cm_timer_expired(struct cm_id *id);

/* The private data that a request of this identifier may have. */
uint8_t cm_request_room(const struct cm_id *id);
bool cm_send(struct cm_id *id, const struct cm_message *message);
/* 1 if a message arrived, 0 if the peer is gone, -EAGAIN. */
int cm_receive_message(struct cm_id *id, struct cm_message *message);
/* When what comes next was sent; 0: the peer is gone, or nothing is there. */
uint64_t cm_next_sent(const struct cm_id *id);
void cm_copy_conn_event(struct cm_event *event, const struct cm_message *m, uint8_t length);
void cm_copy_ud_event(struct cm_event *event, const struct cm_message *m, uint8_t length);

/* ---- passive.c ---- */

int cm_listen(struct cm_id *id, uint32_t backlog);
void cm_take_connections(struct cm_id *listener);
void cm_take_request(struct cm_id *id);
int cm_accept(struct cm_id *id, const struct rdma_ucm_accept *command, size_t length);
int cm_reject(struct cm_id *id, const struct rdma_ucm_reject *command);

/* ---- query.c ---- */

/* Copies at most room bytes of the answer. Returns 0 or -errno. */
int cm_query_route(struct cm_id *id, void *out, size_t room);
int cm_query(struct cm_id *id, uint32_t option, void *out, size_t room);
int cm_init_qp_attr(struct cm_id *id, uint32_t qp_state, void *out, size_t room);
void cm_fill_ah(struct ib_uverbs_ah_attr *ah, const uint8_t gid[16]);
extern const uint8_t cm_gid[16];

#endif
