/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/confirm/confirm.h"

#include <string.h>

#include "shim/confirm/sides.h"
#include "shim/core/order.h"
#include "shim/core/stack.h"
#include "shim/core/thread.h"

static struct {
	int32_t rank;
	sr_confirm_call call;
	enum sr_call_number at[2], next[2]; /* of the sides; SR_CALL_COUNT: none */
	void *is_at[2];                     /* a place that was found to be the side's */
} self;

static enum sr_call_number number_of(const char *name)
{
	int n = 0;

	while (n < SR_CALL_COUNT && (!sr_calls[n].name || strcmp(sr_calls[n].name, name)))
		n++;
	return (enum sr_call_number)n;
}

static bool is_mine(int i)
{
	return sr_agreement->side[i].rank == self.rank;
}

static bool is_at(int i, enum sr_call_number n, void *site)
{
	const struct sr_confirm_side *s = &sr_agreement->side[i];

	if (!is_mine(i) || n != self.at[i])
		return false;
	if (site == self.is_at[i])
		return true;
	if (!sr_confirm_is_place((uintptr_t)site, s->site, s->code))
		return false;
	self.is_at[i] = site;
	return true;
}

static bool is_next(int i, enum sr_call_number n, void *site)
{
	const struct sr_confirm_side *s = &sr_agreement->side[i];

	return n == self.next[i] &&
	       sr_confirm_is_place((uintptr_t)site, s->next_site, s->next_code);
}

bool sr_confirm_is_instance(int i, void *site)
{
	struct sr_confirm_side *s = &sr_agreement->side[i];
	uint64_t seen = atomic_fetch_add(&s->seen, 1) + 1;
	struct sr_stack stack;

	if (s->occurrence && seen != s->occurrence)
		return false;
	if (s->stack && s->kind != SR_CONFIRM_STORE)
		sr_stack_take(&stack, (uintptr_t)site);
	return !s->stack || s->kind == SR_CONFIRM_STORE || stack.hash == s->stack;
}

/* What is destroyed here may be what a request needs. */
static bool ends_requests(enum sr_call_number n)
{
	return n == SR_CALL_ibv_destroy_qp || n == SR_CALL_ibv_modify_qp ||
	       n == SR_CALL_ibv_dereg_mr || n == SR_CALL_rdma_disconnect ||
	       n == SR_CALL_rdma_destroy_qp || n == SR_CALL_rdma_destroy_ep;
}

/* ------------------------------------------------------------------ a call */

static void begins(int i, struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	switch (sr_agreement->side[i].kind) {
	case SR_CONFIRM_REQUEST:
		if (is_at(i, n, site) && sr_confirm_is_instance(i, site))
			sr_confirm_request_begins(i, a, n);
		break;
	case SR_CONFIRM_CALL:
		if (is_at(i, n, site) && sr_confirm_is_instance(i, site))
			sr_confirm_inline_begins(i);
		break;
	case SR_CONFIRM_STORE:
		sr_confirm_store_may_have_come(i, t, is_next(i, n, site));
		break;
	default:
		break;
	}
}

static void ends(int i, struct sr_thread *t, enum sr_call_number n, uint64_t result, void *site)
{
	switch (sr_agreement->side[i].kind) {
	case SR_CONFIRM_REQUEST:
		sr_confirm_request_ends(i, t, n);
		break;
	case SR_CONFIRM_CALL:
		if (is_at(i, n, site))
			sr_confirm_inline_ends(i);
		break;
	case SR_CONFIRM_STORE:
		if (is_at(i, n, site) && !sr_found_nothing(&sr_calls[n], result, 0) &&
		    sr_confirm_is_instance(i, site))
			sr_confirm_store_may_come(i, t);
		break;
	default:
		break;
	}
}

/* Most calls do not. */
static bool concerns(enum sr_call_number n)
{
	for (int i = 0; i < 2; i++)
		if (is_mine(i) &&
		    (n == self.at[i] || n == self.next[i] || sr_confirm_awaits_store(i)))
			return true;
	return n == SR_CALL_wr_complete || ends_requests(n);
}

void sr_confirm_watch(void)
{
	for (int i = 0; sr_agreement && i < 2; i++)
		if (is_mine(i))
			sr_confirm_watch_instruction(i);
}

static uint64_t call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	enum sr_heap before;
	uint64_t result;

	if (!sr_agreement_searches())
		return self.call(t, n, a, site);
	if (!concerns(n))
		return self.call(t, n, a, site);
	before = sr_enter(t);
	sr_confirm_watch();
	if (ends_requests(n))
		sr_confirm_release_requests();
	for (int i = 0; i < 2; i++)
		if (is_mine(i))
			begins(i, t, n, a, site);
	sr_leave(t, before);
	result = self.call(t, n, a, site);
	before = sr_enter(t);
	for (int i = 0; i < 2; i++)
		if (is_mine(i))
			ends(i, t, n, result, site);
	sr_leave(t, before);
	return result;
}

sr_confirm_call sr_confirm_start(const char *path, int32_t rank, sr_confirm_call made_by)
{
	if (!sr_agreement_open(path))
		return made_by;
	self.rank = rank;
	self.call = made_by;
	for (int i = 0; i < 2; i++) {
		self.at[i] = number_of(sr_agreement->side[i].call);
		self.next[i] = number_of(sr_agreement->side[i].next);
		if (is_mine(i) && sr_agreement->side[i].kind == SR_CONFIRM_LOAD)
			sr_confirm_watch_load(i);
	}
	return is_mine(0) || is_mine(1) ? call : made_by;
}

bool sr_confirm_needs_faults(void)
{
	for (int i = 0; sr_agreement && i < 2; i++)
		if (is_mine(i) && sr_agreement->side[i].kind == SR_CONFIRM_LOAD)
			return true;
	return false;
}

void sr_confirm_end(void)
{
	enum sr_heap before;

	if (!sr_agreement)
		return;
	before = sr_enter(&sr_self);
	sr_confirm_release_requests();
	sr_leave(&sr_self, before);
}
