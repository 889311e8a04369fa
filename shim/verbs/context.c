/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * context.c: interposes the operations of a context.  ibv_post_send, ibv_poll_cq and similar
 * functions are inline and call through pointers, so the shim has to replace these pointers: in
 * ibv_context.ops and, for newer operations, in the verbs_context around it.
 */
#include <errno.h>
#include <string.h>

#include "shim/files/fds.h"
#include "shim/memory/heap.h"
#include "shim/core/hooks.h"
#include "shim/memory/map.h"
#include "shim/verbs/objects.h"

struct sr_map sr_contexts;
static _Atomic uint32_t context_numbers;

/* The struct that holds the operation: ibv_context, the verbs_context around it, or none. */
static void *container(const struct sr_call_desc *d, struct ibv_context *context)
{
	if (d->source == SR_SOURCE_CONTEXT)
		return context;
	if (d->source == SR_SOURCE_VERBS)
		return verbs_get_ctx(context);
	return NULL;
}

void **sr_context_slot(const struct sr_call_desc *d, struct ibv_context *context)
{
	struct verbs_context *verbs;
	char *base = container(d, context);

	if (!base)
		return NULL;
	if (d->source == SR_SOURCE_VERBS) {
		/* verbs_context grows at its front, so that of an older provider starts later. */
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
		void **slot = sr_context_slot(&sr_calls[i], context);

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

	/*
	 * Before the real call: as soon as it returns, another thread may get the same address
	 * and descriptor numbers.
	 */
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

/* ---------------------------------------------------------------- replay */

void sr_context_made(struct ibv_context *context)
{
	struct sr_context *c = new_context();

	if (c)
		add_context(context, c);
}

void sr_replayed_open_context(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct ibv_context *context = (void *)result;

	if (!context)
		return;
	sr_context_made(context);
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
