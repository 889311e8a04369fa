/* SPDX-License-Identifier: BSD-2-Clause */
/* context.c: encodes and decodes a device context, including which operations it has. */
#include <string.h>

#include "logd/base/lock.h"
#include "shim/calls/codec/custom.h"
#include "shim/memory/heap.h"
#include "shim/verbs/objects.h"

/* Bit n of the set: the n-th operation of that source in sr_calls exists in this context. */
static uint64_t present(struct ibv_context *context, enum sr_source source)
{
	uint64_t set = 0;
	int n = 0;

	for (int i = 0; i < SR_CALL_COUNT; i++) {
		void **slot;

		if (sr_calls[i].source != source)
			continue;
		slot = sr_context_slot(&sr_calls[i], context);
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

static void install(struct ibv_context *context, enum sr_source source, uint64_t set)
{
	int n = 0;

	for (int i = 0; i < SR_CALL_COUNT; i++) {
		if (sr_calls[i].source != source)
			continue;
		if (set >> n & 1)
			*sr_context_slot(&sr_calls[i], context) = sr_calls[i].wrapper;
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

struct ibv_context *sr_deliver_opened(struct sr_cursor *c)
{
	static struct sr_lock placing; /* two threads may get one device at the same time */
	struct sr_wire_opened v;
	struct ibv_context *context;

	sr_get_opened_fields(c, &v);
	context = (void *)(uintptr_t)v.address;
	sr_lock(&placing);
	/* librdmacm keeps a device open, so it is placed once. */
	if (!c->bad && !sr_context_find(context)) {
		sr_place_device(c, &v.device);
		place_context(c, context, &v.context);
		if (!c->bad)
			sr_context_made(context);
	}
	sr_unlock(&placing);
	return context;
}
