/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * custom.h: the wire types of calls.def that no list of fields describes.  "put" appends a value to
 * a record.  "deliver" takes it from a record and stores it where the program expects it.
 */
#ifndef SHIM_CALLS_CODEC_CUSTOM_H
#define SHIM_CALLS_CODEC_CUSTOM_H

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "shim/access/access.h"
#include "shim/async/aio.h"
#include "shim/async/uring.h"
#include "shim/calls/codec/output.h"
#include "shim/calls/codec/spliced.h"
#include "shim/core/call.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/passed_fds.h"
#include "shim/process/ids.h"
#include "shim/process/ipc.h"
#include "shim/process/segments.h"
#include "shim/process/tracing.h"
#include "shim/threads/libc_order.h"
#include "shim/threads/program_threads.h"
#include "shim/verbs/objects.h"
#include "wire.gen.h"

/* A list whose length is known only after all its elements were put. */
struct sr_list {
	struct sr_buf *b;
	size_t count_at;
	uint32_t n; /* the caller counts */
};

static inline struct sr_list sr_list_begin(struct sr_buf *b)
{
	struct sr_list l = {.b = b, .count_at = b->len};

	sr_put_u32(b, 0);
	return l;
}

static inline void sr_list_end(const struct sr_list *l)
{
	if (l->b->len >= l->count_at + sizeof(l->n))
		__builtin_memcpy(l->b->p + l->count_at, &l->n, sizeof(l->n));
}

/*
 * The object that a call is about, by its address.  An address in a library is recorded as the library's
 * number and the distance from its start (place.c).
 */
void sr_put_place(struct sr_buf *b, uintptr_t at);

/* The same for a pointer, to data or to a function. */
#define sr_put_at(b, p) sr_put_place(b, (uintptr_t)(p))

/* The checksum of what the program sends. */
void sr_put_checksum(struct sr_buf *b, const void *p, size_t n);
/* The same, but 0 if the memory cannot be read: the kernel would return EFAULT. */
void sr_put_readable_checksum(struct sr_buf *b, const void *p, size_t n);
/* ... of a request (sums.h). */
void sr_put_inline_checksum(struct sr_buf *b, const void *p, size_t n);
void sr_put_buf_list_checksum(struct sr_buf *b, const struct ibv_data_buf *list, size_t n);

/* Plain bytes, and a C string (NULL is the empty one). */
void sr_put_data(struct sr_buf *b, const void *p, size_t n);
void sr_deliver_data(struct sr_cursor *c, void *p, size_t n);
void sr_put_text(struct sr_buf *b, const char *s);

void sr_put_opened_file(struct sr_buf *b, const struct sr_opened_file *file);
void sr_deliver_opened_file(struct sr_cursor *c, struct sr_opened_file *file);
/* Is the descriptor captured since the program has locked its file? */
void sr_put_locked_file(struct sr_buf *b, int fd);
void sr_deliver_locked_file(struct sr_cursor *c, int fd);
/* The files that a child of the program has changed while the program had them open. */
void sr_put_passed_files(struct sr_buf *b, const struct sr_passed_files *files);
void sr_deliver_passed_files(struct sr_cursor *c, struct sr_passed_files *files);
void sr_put_changed_files(struct sr_buf *b, bool ended);
void sr_deliver_changed_files(struct sr_cursor *c, bool ended);

/* A struct at an address that must be the recorded one. */
void sr_place_object(struct sr_cursor *c, void *p, size_t size);

/* Socket addresses: an argument, the room for a result, and a result with its length. */
void sr_put_sockaddr(struct sr_buf *b, const void *p, socklen_t n);
void sr_put_option(struct sr_buf *b, const void *p, socklen_t n);
void sr_put_sockaddr_room(struct sr_buf *b, const socklen_t *n);
void sr_put_sockaddr_out(struct sr_buf *b, const void *p, const socklen_t *n);
void sr_deliver_sockaddr_out(struct sr_cursor *c, void *p, socklen_t *n);

void sr_put_send_wr_list(struct sr_buf *b, const struct ibv_send_wr *wr, const struct ibv_qp *qp);
void sr_put_recv_wr_list(struct sr_buf *b, const struct ibv_recv_wr *wr);
void sr_put_sge_array(struct sr_buf *b, const struct ibv_sge *sge, size_t n);

/* bad_wr, as its number in the chain. */
void sr_put_bad_send_wr(struct sr_buf *b, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
void sr_deliver_bad_send_wr(struct sr_cursor *c, struct ibv_send_wr *wr,
			    struct ibv_send_wr **bad_wr);
void sr_put_bad_recv_wr(struct sr_buf *b, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
void sr_deliver_bad_recv_wr(struct sr_cursor *c, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad_wr);

void sr_put_wc_array(struct sr_buf *b, const struct ibv_wc *wc, int n);
void sr_deliver_wc_array(struct sr_cursor *c, struct ibv_wc *wc, int n);

/* The longer pieces are left to the engine (received.h). */
void sr_put_arrived(struct sr_buf *b, struct sr_received *received);
void sr_deliver_arrived(struct sr_cursor *c, struct sr_received *received);

/*
 * Leave out members that the library does not read: the GRH of an address without one, and what
 * the mask does not name.
 */
void sr_put_address_vector(struct sr_buf *b, const struct ibv_ah_attr *attr);
void sr_put_grh(struct sr_buf *b, const struct ibv_grh *grh);
void sr_put_qp_attr_masked(struct sr_buf *b, const struct ibv_qp_attr *attr, int mask);

struct sr_wire_device sr_wire_of_device(const struct ibv_device *device);
void sr_place_device(struct sr_cursor *c, const struct sr_wire_device *v);
void sr_put_device_list(struct sr_buf *b, struct ibv_device **list);
void sr_deliver_device_list(struct sr_cursor *c, struct ibv_device **list);
void sr_put_context(struct sr_buf *b, struct ibv_context *context);
void sr_deliver_context(struct sr_cursor *c, struct ibv_context *context);
void sr_put_qp_ex(struct sr_buf *b, struct ibv_qp_ex *ex);
void sr_deliver_qp_ex(struct sr_cursor *c, struct ibv_qp_ex *ex);

/* Which operations an object has (bit = number among those of its kind), as wrappers on replay. */
void sr_put_ops(struct sr_buf *b, const void *object, enum sr_source source);
void sr_deliver_ops(struct sr_cursor *c, void *object, enum sr_source source);

/* All memory that a program can reach from an rdma_cm_id, or from an event. */
void sr_put_cm_id(struct sr_buf *b, const struct rdma_cm_id *id);
void sr_deliver_cm_id(struct sr_cursor *c, struct rdma_cm_id *id);
void sr_put_cm_event_kind(struct sr_buf *b, const struct rdma_cm_event *event);
void sr_deliver_cm_event_kind(struct sr_cursor *c, const struct rdma_cm_event *event);
void sr_put_cm_event(struct sr_buf *b, const struct rdma_cm_event *event);
void sr_deliver_cm_event(struct sr_cursor *c, struct rdma_cm_event *event);

/* A device that librdmacm opened: one, and rdma_get_devices's list. */
void sr_put_opened(struct sr_buf *b, struct ibv_context *context);
struct ibv_context *sr_deliver_opened(struct sr_cursor *c);
void sr_put_opened_list(struct sr_buf *b, struct ibv_context **list);
void sr_deliver_opened_list(struct sr_cursor *c, struct ibv_context **list);

/*
 * An address, whose length follows from its family; parameters without the members that the
 * library ignores.
 */
void sr_put_cm_sockaddr(struct sr_buf *b, const struct sockaddr *addr);
void sr_put_connect_param(struct sr_buf *b, const struct rdma_conn_param *param,
			  const struct rdma_cm_id *id);
void sr_put_accept_param(struct sr_buf *b, const struct rdma_conn_param *param,
			 const struct rdma_cm_id *id);

void sr_put_rdma_addrinfo(struct sr_buf *b, const struct rdma_addrinfo *ai);
void sr_put_rdma_addrinfo_list(struct sr_buf *b, const struct rdma_addrinfo *ai);
void sr_deliver_rdma_addrinfo_list(struct sr_cursor *c, const struct rdma_addrinfo *ai);

/* The descriptors that librdmacm opened and closed since the last such record (fds.h). */
void sr_put_library_fds(struct sr_buf *b, int unused);
void sr_deliver_library_fds(struct sr_cursor *c, int unused);

/* Buffers in pieces: their length, the checksum of their content, and its first n bytes. */
void sr_put_iov_room(struct sr_buf *b, const struct iovec *iov, size_t count);
void sr_put_iov_checksum(struct sr_buf *b, const struct iovec *iov, size_t count);
void sr_put_iov_data(struct sr_buf *b, const struct iovec *iov, size_t count, size_t n);
void sr_deliver_iov_data(struct sr_cursor *c, const struct iovec *iov, size_t count, size_t n);

/* Bytes of a record into such buffers. */
void sr_scatter(struct sr_cursor *c, struct sr_bytes v, const struct iovec *iov, size_t count);

void sr_put_fd_numbers(struct sr_buf *b, const fd_set *set, int nfds);

/* Messages of sockets. */
void sr_put_sent_head(struct sr_buf *b, const struct msghdr *m);
void sr_put_sent_messages(struct sr_buf *b, const struct mmsghdr *m, unsigned int n);
void sr_put_message_lengths(struct sr_buf *b, const struct mmsghdr *m, int n);
void sr_deliver_message_lengths(struct sr_cursor *c, struct mmsghdr *m, int n);
void sr_put_message_room(struct sr_buf *b, const struct msghdr *m);
void sr_put_messages_room(struct sr_buf *b, const struct mmsghdr *m, unsigned int n);
void sr_put_message(struct sr_buf *b, const struct msghdr *m, ssize_t size);
void sr_deliver_message(struct sr_cursor *c, struct msghdr *m, ssize_t size);
void sr_put_messages(struct sr_buf *b, const struct mmsghdr *m, int n);
void sr_deliver_messages(struct sr_cursor *c, struct mmsghdr *m, int n);

/* Asynchronous reads and writes. */
void sr_put_aio_requests(struct sr_buf *b, struct iocb *const *list, long n);
void sr_put_aio_events(struct sr_buf *b, const struct io_event *events, long n);
void sr_deliver_aio_events(struct sr_cursor *c, struct io_event *events, long n);

/* io_uring.  Those that cannot be read are left out: the kernel has not taken them. */
void sr_put_uring_requests(struct sr_buf *b, int fd, unsigned int n);
void sr_put_uring_completions(struct sr_buf *b, const struct sr_uring_arrivals *arrivals);
void sr_deliver_uring_completions(struct sr_cursor *c, struct sr_uring_arrivals *arrivals);

void sr_put_fdset(struct sr_buf *b, const fd_set *set, int n);
void sr_deliver_fdset(struct sr_cursor *c, fd_set *set, int n);

/* The number of bytes that a request returns through its argument; 0: unknown. */
size_t sr_ioctl_answer_size(uint64_t request);
/* Those bytes, and what they point to. */
void sr_put_ioctl_answer(struct sr_buf *b, uint64_t request, uint64_t arg);
void sr_deliver_ioctl_answer(struct sr_cursor *c, uint64_t request, uint64_t arg);

void sr_put_pollfds(struct sr_buf *b, const struct pollfd *fds, size_t n);
void sr_put_pollfds_out(struct sr_buf *b, const struct pollfd *fds, size_t n);
void sr_deliver_pollfds_out(struct sr_cursor *c, struct pollfd *fds, size_t n);

void sr_put_signal_set(struct sr_buf *b, const sigset_t *set);
void sr_deliver_signal_set(struct sr_cursor *c, sigset_t *set);
void sr_put_signal_action(struct sr_buf *b, const struct sigaction *a);
void sr_deliver_signal_action(struct sr_cursor *c, struct sigaction *a);

void sr_put_timer_event(struct sr_buf *b, const struct sigevent *event);

#endif
