/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_flights.c: requests under way: what the kernel is given, and what it has brought. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "logd/base/iov.h"
#include "logd/base/rawsys.h"
#include "shim/async/pieces.h"
#include "shim/async/uring_ring.h"
#include "shim/files/fds.h"
#include "shim/files/passed_fds.h"
#include "shim/files/uncompared.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/regions.h"

/* None of the kernel's operations: it answers with EINVAL, as an older kernel does. */
#define UNKNOWN_OPERATION 255

/* ---------------------------------------------------------- what comes beside the data */

#define BESIDE_MOST 4

static void add(struct sr_uring_flight *f, void *addr, size_t length)
{
	if (addr && length)
		f->pieces[f->n + f->beside++] = (struct iovec){addr, length};
}

/* The sender's address, control messages, and how long they are. */
static void add_of_message(struct sr_uring_flight *f, struct msghdr *m)
{
	add(f, m->msg_name, m->msg_namelen);
	add(f, m->msg_control, m->msg_controllen);
	add(f, &m->msg_namelen, sizeof(m->msg_namelen));
	add(f, &m->msg_controllen, sizeof(m->msg_controllen) + sizeof(m->msg_flags));
}

static void add_of_accept(struct sr_uring_flight *f, const struct sr_uring_sqe *r)
{
	socklen_t *length = (socklen_t *)r->addr2;

	if (!r->addr || !sr_is_readable(length, sizeof(*length)))
		return;
	add(f, (void *)r->addr, *length);
	add(f, length, sizeof(*length));
}

/* Exposed memory is protected from the kernel, and the request may wait for long: so it is given a copy. */
static bool needs_copy(const struct sr_uring_flight *f)
{
	for (size_t i = 0; sr_regions_on && i < f->n; i++)
		if (sr_exposed_touches(f->pieces[i].iov_base, f->pieces[i].iov_len))
			return true;
	return false;
}

static void gather(const struct sr_uring_flight *f)
{
	char *to = f->copy;

	for (size_t i = 0; i < f->n; to += f->pieces[i++].iov_len)
		sr_exposed_copy(f->pieces[i].iov_base, to, f->pieces[i].iov_len);
}

/* bytes: that have come. */
static void scatter(const struct sr_uring_flight *f, size_t bytes)
{
	const char *from = f->copy;

	for (size_t i = 0, n; i < f->n && bytes; i++, from += n, bytes -= n) {
		n = f->pieces[i].iov_len < bytes ? f->pieces[i].iov_len : bytes;
		sr_exposed_put(f->pieces[i].iov_base, from, n);
	}
}

/* The kernel is given one piece, the copy, whatever the program's request has. */
static bool give_copy(struct sr_uring_flight *f, const struct sr_uring_sqe *r, struct sr_uring_sqe *kernels)
{
	size_t bytes = sr_iov_bytes(f->pieces, f->n);
	/* Behind the copy there is what lists it. */
	size_t list = (bytes + 15) & ~15ul;
	struct iovec *one;

	if (!sr_pieces_are_readable(f->pieces, f->n))
		return true; /* the kernel says so */
	f->copy = sr_alloc(list + sizeof(struct iovec) + sizeof(struct msghdr));
	if (!f->copy)
		return false;
	gather(f);
	one = (struct iovec *)(f->copy + list);
	*one = (struct iovec){f->copy, bytes};
	switch (sr_uring_does(r->opcode)) {
	case SR_URING_READS:
	case SR_URING_WRITES:
		kernels->addr = (uintptr_t)f->copy;
		break;
	case SR_URING_READS_LIST:
	case SR_URING_WRITES_LIST:
		kernels->addr = (uintptr_t)one;
		kernels->len = 1;
		break;
	default:
		f->message = (struct msghdr *)(one + 1);
		f->of_program = (struct msghdr *)r->addr;
		*f->message = *f->of_program;
		f->message->msg_iov = one;
		f->message->msg_iovlen = 1;
		kernels->addr = (uintptr_t)f->message;
	}
	return true;
}

/* -------------------------------------------------------------------- names */

/* The kernel's user_data of a request is a name, which no process that shares the ring after a fork gives again. */
#define OF_SHIM (1ull << 63)

static struct sr_map names;

struct sr_uring_flight *sr_uring_flight_named(uint64_t name)
{
	return name & OF_SHIM ? sr_map_get(&names, name) : NULL;
}

void sr_uring_names_continue_in_child(void)
{
	sr_map_continue_in_child(&names);
}

static uint64_t names_of(const struct sr_uring *ring)
{
	return OF_SHIM | (uint64_t)ring->number << 32;
}

static uint64_t new_name(const struct sr_uring *ring, uint64_t user_data)
{
	uint32_t n = atomic_fetch_add(&ring->names->next, 1);

	ring->names->user_data[n % SR_URING_NAMES] = user_data;
	return names_of(ring) | n;
}

uint64_t sr_uring_user_data_of(const struct sr_uring *ring, uint64_t name)
{
	return name - (uint32_t)name == names_of(ring) ? ring->names->user_data[name % SR_URING_NAMES] : name;
}

/* A silent request has no other name. */
uint64_t sr_uring_name_of(const struct sr_uring *ring, uint64_t user_data)
{
	const struct sr_uring_flight *f = ring->flights;

	while (f && f->user_data != user_data)
		f = f->next;
	return f ? f->name : user_data;
}

/* ------------------------------------------------------------------ flights */

/* One with many completions puts all that comes into the buffers. */
static bool can_pass(const struct sr_uring_sqe *r)
{
	const struct msghdr *m = sr_uring_message(r);

	return m && m->msg_controllen && !(r->ioprio & SR_URING_RECV_MULTISHOT);
}

static enum sr_uring_effect effect_of(const struct sr_uring_sqe *r)
{
	switch (sr_uring_does(r->opcode)) {
	case SR_URING_ACCEPTS:
	case SR_URING_OPENS:
		return r->file_index ? SR_URING_NOTHING : SR_URING_OPENED;
	case SR_URING_CLOSES:
		return r->file_index ? SR_URING_NOTHING : SR_URING_CLOSED;
	case SR_URING_READS_MESSAGE:
		return can_pass(r) ? SR_URING_PASSED : SR_URING_NOTHING;
	case SR_URING_READS:
	case SR_URING_READS_LIST:
		return r->off == (uint64_t)-1 ? SR_URING_MOVED : SR_URING_NOTHING;
	default:
		return SR_URING_NOTHING;
	}
}

/* The kernel chooses where it registers descriptors, and writes that in their place. */
static bool chooses_places(const struct sr_uring_sqe *r)
{
	return sr_uring_does(r->opcode) == SR_URING_UPDATES && (uint32_t)r->off == SR_URING_FILE_INDEX_ALLOC;
}

/* The program may use the request and its lists again as soon as the kernel has taken it. */
static struct sr_uring_flight *new_flight(const struct sr_uring *ring, const struct sr_uring_sqe *r)
{
	struct iovec one;
	size_t n;
	const struct iovec *pieces = sr_uring_pieces(r, &one, &n);
	struct sr_uring_flight *f = sr_alloc_zeroed(sizeof(*f) + (n + BESIDE_MOST) * sizeof(one));

	if (!f)
		return NULL;
	f->user_data = r->user_data;
	f->kept = -1;
	f->effect = effect_of(r);
	f->fd = sr_uring_file(ring, r);
	f->is_silent = r->flags & SR_URING_SQE_CQE_SKIP_SUCCESS;
	f->chooses = r->flags & SR_URING_SQE_BUFFER_SELECT;
	f->group = r->buf_group;
	f->pieces = (struct iovec *)(f + 1);
	f->n = f->chooses ? 0 : n;
	if (f->n)
		memcpy(f->pieces, pieces, n * sizeof(one));
	if (sr_uring_does(r->opcode) == SR_URING_READS_MESSAGE && sr_uring_message(r) && !(r->ioprio & SR_URING_RECV_MULTISHOT)) {
		f->of_program = (struct msghdr *)r->addr;
		add_of_message(f, f->of_program);
	}
	else if (sr_uring_does(r->opcode) == SR_URING_ACCEPTS)
		add_of_accept(f, r);
	else if (chooses_places(r))
		add(f, (void *)r->addr, r->len * sizeof(int32_t));
	return f;
}

static void join(struct sr_uring *ring, struct sr_uring_flight *f)
{
	f->next = ring->flights;
	f->at = &ring->flights;
	if (f->next)
		f->next->at = &f->next;
	ring->flights = f;
}

static struct sr_uring_sqe instead(const struct sr_uring_sqe *r, uint8_t opcode)
{
	const uint8_t kept = SR_URING_SQE_IO_DRAIN | SR_URING_SQE_IO_LINK | SR_URING_SQE_IO_HARDLINK | SR_URING_SQE_CQE_SKIP_SUCCESS;

	return (struct sr_uring_sqe){.opcode = opcode, .flags = r->flags & kept, .user_data = r->user_data};
}

/* Buffers that the kernel keeps: it could not fill them. */
static bool provides_exposed(const struct sr_uring_sqe *r)
{
	return sr_regions_on && r->opcode == SR_URING_OP_PROVIDE_BUFFERS &&
	       sr_exposed_touches((const void *)r->addr, (size_t)r->len * (uint32_t)r->fd);
}

/* A replay moves no bytes, so these must come from a descriptor that the trace has, or from a place in a file. */
static bool moves_position(const struct sr_uring *ring, const struct sr_uring_sqe *r)
{
	if (sr_uring_does(r->opcode) != SR_URING_MOVES_BYTES)
		return false;
	if (!sr_fd_captured(sr_uring_file(ring, r)))
		return true;
	return r->splice_off_in == (uint64_t)-1 && !(r->splice_flags & SR_URING_SPLICE_FD_IN_FIXED) && !sr_fd_captured(r->splice_fd_in);
}

/* The kernel's request, but for its memory and its name. */
static struct sr_uring_sqe kernels_request(struct sr_uring *ring, const struct sr_uring_sqe *r, bool is_call, int32_t result)
{
	struct sr_uring_sqe kernels = *r;

	/* One that fails ends the requests that are linked with it. */
	if (!sr_uring_is_known(r) || (is_call && result < 0) || provides_exposed(r) || moves_position(ring, r))
		return instead(r, UNKNOWN_OPERATION);
	if (is_call)
		return instead(r, SR_URING_OP_NOP);
	if (sr_uring_does(r->opcode) == SR_URING_CANCELS)
		kernels.addr = sr_uring_name_of(ring, r->addr);
	else if (sr_uring_does(r->opcode) == SR_URING_MOVES_BYTES)
		sr_output_is_uncompared(SR_UNCOMPARED_CALL);
	return kernels;
}

/* Nothing is known of its end if it succeeds, and nothing needs to be. */
static bool needs_no_flight(const struct sr_uring_sqe *kernels)
{
	return kernels->flags & SR_URING_SQE_CQE_SKIP_SUCCESS && kernels->opcode != UNKNOWN_OPERATION &&
	       (kernels->opcode != SR_URING_OP_CLOSE || kernels->file_index);
}

/* The kernel has the memory's pages already. */
static bool is_registered(const struct sr_uring_sqe *r)
{
	return r->opcode == SR_URING_OP_READ_FIXED || r->opcode == SR_URING_OP_WRITE_FIXED ||
	       (sr_uring_is_message(r) && r->ioprio & SR_URING_RECVSEND_FIXED_BUF);
}

bool sr_uring_take_off(struct sr_uring *ring, const struct sr_uring_sqe *r, int32_t result, struct sr_uring_sqe *kernels,
		       struct sr_uring_flight **flight)
{
	const bool is_call = sr_uring_is_call(r);
	struct sr_uring_flight *f;

	*kernels = kernels_request(ring, r, is_call, result);
	*flight = NULL;
	if (needs_no_flight(kernels))
		return true;
	*flight = f = new_flight(ring, kernels);
	if (!f)
		return false;
	f->user_data = r->user_data;
	f->is_call = is_call;
	f->result = result;
	f->name = new_name(ring, r->user_data);
	if ((!is_registered(r) && needs_copy(f) && !give_copy(f, r, kernels)) || sr_map_put(&names, f->name, f, &(void *){NULL})) {
		sr_free(f->copy);
		sr_free(f);
		return false;
	}
	if (!sr_uring_writes(r))
		sr_pieces_expect(f->pieces, f->n);
	else
		f->n = 0;
	if (f->is_silent && f->effect == SR_URING_CLOSED)
		ring->closing++;
	if (sr_uring_writes_file(kernels))
		sr_uring_find_file(ring, f, kernels);
	kernels->user_data = f->name;
	join(ring, f);
	return true;
}

void sr_uring_has_submitted(struct sr_uring *ring, const struct sr_uring_sqe *r)
{
	struct sr_uring *other;
	const int32_t none = -1;

	if (!sr_uring_is_known(r))
		return;
	switch (sr_uring_does(r->opcode)) {
	case SR_URING_PROVIDES:
		sr_uring_provide(ring, r);
		break;
	case SR_URING_UPDATES:
		if (!chooses_places(r) && sr_is_readable((const void *)r->addr, r->len * sizeof(none)))
			sr_uring_set_files(ring, (uint32_t)r->off, (const int32_t *)r->addr, r->len);
		break;
	case SR_URING_MESSAGES:
		other = sr_uring_of(sr_uring_file(ring, r));
		if (!other)
			break;
		other->is_messaged = true;
		sr_uring_show_under_way(other);
		break;
	case SR_URING_CLOSES:
		if (r->file_index)
			sr_uring_set_files(ring, r->file_index - 1, &none, 1);
		break;
	default:
		break;
	}
}

static void write_again(const struct sr_uring_flight *f, size_t bytes)
{
	sr_pieces_write_again(f->kept >= 0 ? f->kept : f->fd, f->pieces, f->n, bytes, f->offset, f->output_flags);
}

static void expect_read(const struct sr_uring_sqe *r)
{
	struct iovec one;
	size_t n;
	const struct iovec *pieces = sr_uring_pieces(r, &one, &n);

	if (sr_uring_is_known(r) && !sr_uring_writes(r) && !(r->flags & SR_URING_SQE_BUFFER_SELECT))
		sr_pieces_expect(pieces, n);
}

void sr_uring_note(struct sr_uring *ring, const struct sr_uring_sqe *r, uint32_t number)
{
	bool to_file = sr_uring_writes_file(r);
	bool is_noted = sr_uring_is_known(r) && (to_file || effect_of(r) == SR_URING_PASSED);
	struct sr_uring_flight *f = is_noted ? new_flight(ring, r) : NULL;

	expect_read(r);
	if (!f)
		return;
	f->number = number;
	f->writes = to_file && !sr_fd_captured(f->fd);
	if (f->writes && !f->is_silent)
		f->kept = sr_fd_keep(f->fd);
	f->offset = (long)r->off;
	f->output_flags = r->rw_flags & RWF_APPEND;
	join(ring, f);
	if (f->writes && f->is_silent) {
		write_again(f, sr_iov_bytes(f->pieces, f->n));
		sr_uring_forget(ring, f);
	}
}

/* The private file has the bytes already; only the descriptor's position moves. */
static void pass_over(const struct sr_uring_flight *f, size_t bytes)
{
	const int fd = f->kept >= 0 ? f->kept : f->fd;
	const bool appends = f->output_flags || sr_sys_fcntl(fd, F_GETFL, 0) & O_APPEND;

	if (f->offset == -1)
		sr_syscall(SYS_lseek, fd, appends ? 0 : (long)bytes, appends ? SEEK_END : SEEK_CUR, 0, 0, 0);
}

void sr_uring_do_again(struct sr_uring *ring, struct sr_uring_flight *f, const struct sr_uring_completion *c)
{
	if (c->effect == SR_URING_PERHAPS_COPIED)
		sr_output_is_uncompared(SR_UNCOMPARED_CALL);
	if (f->writes && c->result > 0 && c->effect == SR_URING_COPIED)
		pass_over(f, (size_t)c->result);
	else if (f->writes && c->result > 0)
		write_again(f, (size_t)c->result);
	if (c->effect == SR_URING_PASSED && c->result >= 0)
		sr_passed_fds(f->of_program, sr_fd_hold);
	if (!(c->flags & SR_URING_CQE_F_MORE))
		sr_uring_forget(ring, f);
}

/* What the kernel has written into its message that the program's is to have. */
static void end_message(const struct sr_uring_flight *f)
{
	f->of_program->msg_namelen = f->message->msg_namelen;
	f->of_program->msg_controllen = f->message->msg_controllen;
	f->of_program->msg_flags = f->message->msg_flags;
}

void sr_uring_land(const struct sr_uring *ring, struct sr_uring_flight *f, int32_t result, uint32_t flags)
{
	const struct iovec *chosen = sr_uring_chosen(ring, f, flags);

	if (result < 0)
		return;
	if (chosen)
		sr_pieces_have_landed(chosen, 1, (uint64_t)result);
	if (f->message && f->beside)
		end_message(f);
	if (f->copy && f->n)
		scatter(f, (size_t)result);
	sr_pieces_have_landed(f->pieces, f->n, (uint64_t)result);
	sr_pieces_have_landed(f->pieces + f->n, f->beside, UINT64_MAX);
}

void sr_uring_forget(struct sr_uring *ring, struct sr_uring_flight *f)
{
	if (f->name)
		sr_map_take(&names, f->name);
	if (f->is_silent && f->effect == SR_URING_CLOSED)
		ring->closing--;
	if (f->writes && ring->writing)
		ring->writing--;
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	if (f->kept >= 0)
		sr_sys_close(f->kept);
	sr_free(f->copy);
	sr_free(f);
}
