/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_register.c: what a program registers with a ring: descriptors, buffers, an eventfd; and what it asks. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/async/uring_ring.h"
#include "shim/core/hooks.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/verbs/regions.h"

/* Others name rings and users by numbers of the kernel's, or came with later kernels. */
static bool is_known(unsigned int opcode)
{
	switch (opcode) {
	case SR_URING_REGISTER_BUFFERS:
	case SR_URING_UNREGISTER_BUFFERS:
	case SR_URING_REGISTER_FILES:
	case SR_URING_UNREGISTER_FILES:
	case SR_URING_REGISTER_EVENTFD:
	case SR_URING_UNREGISTER_EVENTFD:
	case SR_URING_REGISTER_FILES_UPDATE:
	case SR_URING_REGISTER_FILES2:
	case SR_URING_REGISTER_FILES_UPDATE2:
	case SR_URING_REGISTER_FILE_ALLOC_RANGE:
	case SR_URING_REGISTER_BUFFERS2:
	case SR_URING_REGISTER_BUFFERS_UPDATE:
	case SR_URING_REGISTER_PBUF_RING:
	case SR_URING_UNREGISTER_PBUF_RING:
	case SR_URING_REGISTER_SYNC_CANCEL:
	case SR_URING_REGISTER_EVENTFD_ASYNC:
	case SR_URING_REGISTER_PROBE:
	case SR_URING_REGISTER_ENABLE_RINGS:
	case SR_URING_REGISTER_IOWQ_AFF:
	case SR_URING_UNREGISTER_IOWQ_AFF:
	case SR_URING_REGISTER_IOWQ_MAX_WORKERS:
		return true;
	default:
		return false;
	}
}

size_t sr_uring_register_answer(unsigned int opcode, unsigned int n)
{
	if (opcode == SR_URING_REGISTER_PROBE)
		return sizeof(struct sr_uring_probe) + n * sizeof(struct sr_uring_probe_op);
	return opcode == SR_URING_REGISTER_IOWQ_MAX_WORKERS ? 2 * sizeof(uint32_t) : 0;
}

/* ------------------------------------------------------------- descriptors */

void sr_uring_set_files(struct sr_uring *ring, uint32_t from, const int32_t *files, uint32_t n)
{
	for (uint32_t i = 0; i < n && from + i < ring->n_files; i++)
		if (files[i] != SR_URING_REGISTER_FILES_SKIP)
			ring->files[from + i] = files[i];
}

/* files: NULL for places without descriptors. */
static void new_files(struct sr_uring *ring, const int32_t *files, uint32_t n)
{
	sr_free(ring->files);
	ring->files = n ? sr_alloc(n * sizeof(*files)) : NULL;
	ring->n_files = ring->files ? n : 0;
	for (uint32_t i = 0; i < ring->n_files; i++)
		ring->files[i] = files ? files[i] : -1;
}

static void note_files(struct sr_uring *ring, const struct sr_uring_rsrc_register *r)
{
	new_files(ring, r->flags & SR_URING_RSRC_REGISTER_SPARSE ? NULL : (const int32_t *)r->data, r->nr);
}

/* Both forms of an update begin alike. */
static void note(struct sr_uring *ring, const uint64_t *a, int result)
{
	const struct sr_uring_rsrc_update *update = (const struct sr_uring_rsrc_update *)a[2];

	switch (a[1]) {
	case SR_URING_REGISTER_FILES:
		new_files(ring, (const int32_t *)a[2], (uint32_t)a[3]);
		break;
	case SR_URING_REGISTER_FILES2:
		note_files(ring, (const struct sr_uring_rsrc_register *)a[2]);
		break;
	case SR_URING_UNREGISTER_FILES:
		new_files(ring, NULL, 0);
		break;
	case SR_URING_REGISTER_FILES_UPDATE:
	case SR_URING_REGISTER_FILES_UPDATE2:
		sr_uring_set_files(ring, update->offset, (const int32_t *)update->data, (uint32_t)result);
		break;
	case SR_URING_REGISTER_PBUF_RING:
		sr_uring_add_buffer_ring(ring, (const struct sr_uring_buf_reg *)a[2]);
		break;
	case SR_URING_UNREGISTER_PBUF_RING:
		sr_uring_remove_group(ring, ((const struct sr_uring_buf_reg *)a[2])->bgid);
		break;
	default:
		break;
	}
}

/* ------------------------------------------------------------------- calls */

/* The program is told of those operations only that the shim knows. */
static void hide_unknown(struct sr_uring_probe *probe)
{
	for (uint32_t i = 0; i < probe->ops_len; i++)
		if (sr_uring_does(probe->ops[i].op) == SR_URING_UNKNOWN)
			probe->ops[i].flags &= (uint16_t)~SR_URING_OP_SUPPORTED;
}

/* The kernel holds the buffers' pages from then on; if they are exposed, it must find them now. */
static uint64_t register_buffers(const struct sr_call_desc *d, uint64_t *a)
{
	const struct iovec *list = (const struct iovec *)a[2];
	struct sr_pinned pinned;
	uint64_t result;

	if (!sr_regions_on || !sr_is_readable(list, a[3] * sizeof(*list)))
		return sr_real(d, a);
	sr_regions_pin_none(&pinned);
	for (uint32_t i = 0; i < (uint32_t)a[3]; i++)
		sr_regions_pin_more(&pinned, list[i].iov_base, list[i].iov_len);
	result = sr_real(d, a);
	sr_regions_unpin(&pinned);
	return result;
}

/* What is to be cancelled has another name for the kernel; several requests of one name have several. */
static uint64_t cancel(struct sr_uring *ring, const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_uring_sync_cancel_reg copy;
	uint64_t words[] = {a[0], a[1], (uintptr_t)&copy, a[3]}, result = 0, all = 0;
	uint64_t user_data;

	if (!sr_is_readable((const void *)a[2], sizeof(copy)))
		return sr_real(d, a);
	memcpy(&copy, (const void *)a[2], sizeof(copy));
	user_data = copy.addr;
	copy.addr = sr_uring_name_of(ring, user_data);
	if (copy.flags != SR_URING_ASYNC_CANCEL_ALL)
		return sr_real(d, words);
	sr_lock(&ring->lock);
	for (const struct sr_uring_flight *f = ring->flights; f && (int64_t)result >= 0; f = f->next) {
		if (f->user_data != user_data)
			continue;
		copy.addr = f->name;
		result = sr_real(d, words);
		all += result;
	}
	sr_unlock(&ring->lock);
	return (int64_t)result < 0 ? result : all;
}

/* A ring of buffers that the kernel would make came later; buffers in exposed memory could not be filled. */
static bool is_refused(const uint64_t *a)
{
	const struct sr_uring_buf_reg *r = (const struct sr_uring_buf_reg *)a[2];

	if (a[1] != SR_URING_REGISTER_PBUF_RING)
		return !is_known((unsigned int)a[1]);
	return sr_regions_on || !sr_is_readable(r, sizeof(*r)) || r->flags;
}

static uint64_t make(struct sr_uring *ring, const struct sr_call_desc *d, uint64_t *a)
{
	switch (a[1]) {
	case SR_URING_REGISTER_BUFFERS:
		return register_buffers(d, a);
	case SR_URING_REGISTER_SYNC_CANCEL:
		return cancel(ring, d, a);
	default:
		return sr_real(d, a);
	}
}

uint64_t sr_invoke_io_uring_register(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_uring *ring = sr_uring_hold((int)a[0]);
	uint64_t result;
	int error;

	if (ring && is_refused(a)) {
		sr_uring_drop(ring);
		errno = EINVAL;
		return (uint64_t)-1;
	}
	result = ring ? make(ring, d, a) : sr_real(d, a);
	error = errno;
	if ((int)result >= 0 && a[1] == SR_URING_REGISTER_PROBE)
		hide_unknown((struct sr_uring_probe *)a[2]);
	if ((int)result >= 0 && ring)
		note(ring, a, (int)result);
	/* The thread that reads the eventfd looks at the ring next, and may be another one than enters. */
	if (ring && (a[1] == SR_URING_REGISTER_EVENTFD || a[1] == SR_URING_REGISTER_EVENTFD_ASYNC))
		ring->is_shared = true;
	sr_uring_drop(ring);
	errno = error;
	return result;
}

void sr_replayed_io_uring_register(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct sr_uring *ring = sr_uring_of((int)a[0]);

	if (ring && (int)result >= 0)
		note(ring, a, (int)result);
}
