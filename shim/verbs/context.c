/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * context.c: ibv_post_send, ibv_poll_cq and their kin are inline functions that
 * jump through pointers in the context, so those pointers are what has to be
 * interposed: in ibv_context.ops and, for the newer operations, in the
 * verbs_context around it.
 */
#include <errno.h>
#include <string.h>

#include "shim/calls/codec/custom.h"
#include "shim/files/fds.h"
#include "shim/memory/heap.h"
#include "shim/core/hooks.h"
#include "shim/memory/map.h"
#include "shim/verbs/objects.h"

struct sr_map sr_contexts;
static _Atomic uint32_t context_numbers;

/* The container of an operation: ibv_context itself, or the verbs_context around it, or none. */
static void *container(const struct sr_call_desc *d, struct ibv_context *context)
{
	if (d->source == SR_SOURCE_CONTEXT)
		return context;
	if (d->source == SR_SOURCE_VERBS)
		return verbs_get_ctx(context);
	return NULL;
}

/* Where the context keeps the pointer of this operation; NULL if it has no such operation. */
static void **slot_of(const struct sr_call_desc *d, struct ibv_context *context)
{
	struct verbs_context *verbs;
	char *base = container(d, context);

	if (!base)
		return NULL;
	if (d->source == SR_SOURCE_VERBS) {
		/* verbs_context grows at its front: an older provider's starts later. */
		verbs = (struct verbs_context *)base;
		if (verbs->sz < sizeof(*verbs) - d->op_offset)
			return NULL;
	}
	return (void **)(base + d->op_offset);
}

static struct sr_context *new_context(void)
{
	struct sr_context *c = sr_alloc_zeroed(sizeof(*c));

	if (c)
		c->number = atomic_fetch_add(&context_numbers, 1) + 1;
	return c;
}

uint32_t sr_contexts_seen(void)
{
	return atomic_load(&context_numbers);
}

static int add_context(struct ibv_context *context, struct sr_context *c)
{
	void *old;

	if (sr_map_put(&sr_contexts, (uintptr_t)context, c, &old)) {
		sr_free(c);
		return -ENOMEM;
	}
	sr_free(old);
	return 0;
}

static int patch(struct ibv_context *context, uint16_t flags)
{
	struct sr_context *c = new_context();
	struct verbs_context *verbs = verbs_get_ctx(context);

	if (!c)
		return -ENOMEM;
	if (verbs) {
		size_t known = verbs->sz < sizeof(*verbs) ? verbs->sz : sizeof(*verbs);

		memcpy((char *)&c->original + sizeof(*verbs) - known,
		       (char *)verbs + sizeof(*verbs) - known, known);
	} else {
		c->original.context = *context;
	}
	if (add_context(context, c))
		return -ENOMEM;
	for (int i = 0; i < SR_CALL_COUNT; i++) {
		void **slot = slot_of(&sr_calls[i], context);

		if (slot && *slot && (sr_calls[i].flags & flags) == flags)
			*slot = sr_calls[i].wrapper;
	}
	return 0;
}

int sr_context_patch(struct ibv_context *context)
{
	return patch(context, 0);
}

int sr_context_patch_outside(struct ibv_context *context)
{
	return patch(context, SR_CALL_OUTSIDE);
}

void sr_context_forget(struct ibv_context *context)
{
	sr_free(sr_map_take(&sr_contexts, (uintptr_t)context));
}

/* ---------------------------------------------------------------- record */

uint64_t sr_invoke_open_context(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_context *context = (void *)sr_real(d, a);

	if (context && !sr_context_find(context) && !sr_context_patch(context)) {
		sr_fd_capture(context->cmd_fd);
		sr_fd_capture(context->async_fd);
	}
	return (uintptr_t)context;
}

uint64_t sr_invoke_close_context(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_context *context = (void *)a[0];
	int cmd_fd = context->cmd_fd, async_fd = context->async_fd;
	struct sr_context *c, *old;
	uint64_t result;

	/* Before the real call: right after it another thread may be given the same address and
	 * numbers. */
	sr_fd_release(cmd_fd);
	sr_fd_release(async_fd);
	c = sr_map_take(&sr_contexts, (uintptr_t)context);
	result = sr_real(d, a);
	if ((int)result == 0) {
		sr_free(c);
		return result;
	}
	sr_fd_capture(cmd_fd);
	sr_fd_capture(async_fd);
	if (c)
		sr_map_put(&sr_contexts, (uintptr_t)context, c, (void **)&old);
	return result;
}

/* Bit n of the set: the n-th operation of that source in sr_calls exists in this context. */
static uint64_t present(struct ibv_context *context, enum sr_source source)
{
	uint64_t set = 0;
	int n = 0;

	for (int i = 0; i < SR_CALL_COUNT; i++) {
		void **slot;

		if (sr_calls[i].source != source)
			continue;
		slot = slot_of(&sr_calls[i], context);
		if (slot && *slot)
			set |= 1ull << n;
		n++;
	}
	return set;
}

static struct sr_wire_context wire_of(struct ibv_context *context)
{
	struct verbs_context *verbs = verbs_get_ctx(context);

	return (struct sr_wire_context){
	    .device = (uintptr_t)context->device,
	    .cmd_fd = context->cmd_fd,
	    .async_fd = context->async_fd,
	    .num_comp_vectors = context->num_comp_vectors,
	    .abi_compat = (uintptr_t)context->abi_compat,
	    .verbs_size = verbs ? verbs->sz : 0,
	    .ops = present(context, SR_SOURCE_CONTEXT),
	    .verbs_ops = present(context, SR_SOURCE_VERBS),
	};
}

void sr_put_context(struct sr_buf *b, struct ibv_context *context)
{
	struct sr_wire_context v;

	sr_put_u8(b, context != NULL);
	if (!context)
		return;
	v = wire_of(context);
	sr_put_context_fields(b, &v);
}

void sr_put_opened(struct sr_buf *b, struct ibv_context *context)
{
	struct sr_wire_opened v = {
	    .address = (uintptr_t)context,
	    .device = sr_wire_of_device(context->device),
	    .context = wire_of(context),
	};

	sr_put_opened_fields(b, &v);
}

/* ---------------------------------------------------------------- replay */

static void install(struct ibv_context *context, enum sr_source source, uint64_t set)
{
	int n = 0;

	for (int i = 0; i < SR_CALL_COUNT; i++) {
		if (sr_calls[i].source != source)
			continue;
		if (set >> n & 1)
			*slot_of(&sr_calls[i], context) = sr_calls[i].wrapper;
		n++;
	}
}

static void place_context(struct sr_cursor *c, struct ibv_context *context,
			  const struct sr_wire_context *v)
{
	struct verbs_context *verbs = NULL;
	void *start = context;
	size_t size = sizeof(*context);

	if (v->verbs_size) {
		verbs = (void *)((char *)context - offsetof(struct verbs_context, context));
		start = verbs;
		size = sizeof(*verbs);
	}
	if (!sr_heap_in_library_arena(start, size)) {
		c->bad = true;
		return;
	}
	memset(start, 0, size);
	if (verbs)
		verbs->sz = v->verbs_size;
	context->device = (void *)v->device;
	context->cmd_fd = v->cmd_fd;
	context->async_fd = v->async_fd;
	context->num_comp_vectors = v->num_comp_vectors;
	context->abi_compat = (void *)v->abi_compat;
	install(context, SR_SOURCE_CONTEXT, v->ops);
	install(context, SR_SOURCE_VERBS, v->verbs_ops);
}

void sr_deliver_context(struct sr_cursor *c, struct ibv_context *context)
{
	struct sr_wire_context v;

	if (!sr_get_u8(c))
		return;
	sr_get_context_fields(c, &v);
	place_context(c, context, &v);
}

static void know(struct ibv_context *context)
{
	struct sr_context *c = new_context();

	if (c)
		add_context(context, c);
}

struct ibv_context *sr_deliver_opened(struct sr_cursor *c)
{
	static struct sr_lock telling; /* two threads may be told of one device at once */
	struct sr_wire_opened v;
	struct ibv_context *context;

	sr_get_opened_fields(c, &v);
	context = (void *)(uintptr_t)v.address;
	sr_lock(&telling);
	/* librdmacm keeps a device open: told once, it stays. */
	if (!c->bad && !sr_context_find(context)) {
		sr_place_device(c, &v.device);
		place_context(c, context, &v.context);
		if (!c->bad)
			know(context);
	}
	sr_unlock(&telling);
	return context;
}

void sr_replayed_open_context(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct ibv_context *context = (void *)result;

	if (!context)
		return;
	know(context);
	sr_fd_hold(context->cmd_fd);
	sr_fd_hold(context->async_fd);
}

void sr_replayed_close_context(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct ibv_context *context = (void *)a[0];

	if ((int)result != 0)
		return;
	sr_fd_drop(context->cmd_fd);
	sr_fd_drop(context->async_fd);
	sr_context_forget(context);
}
