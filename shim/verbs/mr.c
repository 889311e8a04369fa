/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.c: memory regions; see objects.h. */
#include "shim/access/access.h"
#include "logd/base/compiler.h"
#include "logd/base/page.h"
#include "shim/memory/heap.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/memory/map.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/own_memory.h"
#include "shim/kernel/readable.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/wq.h"

struct region {
	char *addr; /* NULL: the CPU cannot read this memory */
	size_t length;
	uint64_t iova;
	bool doubtful; /* the program may have unmapped or protected some of it since */
};

static struct sr_map regions;
static _Atomic uint64_t changes; /* of the regions */
/* Pages that were ever registered: SR_HOOKED_PAGES bits. */
static _Atomic uint8_t pages[SR_HOOKED_PAGES / 8];
/* Bounds of all regions that were ever registered; they never shrink. */
static _Atomic uintptr_t lowest = UINTPTR_MAX, highest;

static uint64_t key_of(struct ibv_context *context, uint32_t lkey)
{
	struct sr_context *c = sr_context_find(context);

	/* Keys are per device; context numbers start at 1, so no key is 0. */
	return c ? (uint64_t)c->number << 32 | lkey : 0;
}

static void *memory_in(struct region *r, uint64_t addr, uint32_t length)
{
	char *p;

	if (!r || !r->addr || addr - r->iova > r->length || length > r->length - (addr - r->iova))
		return NULL;
	p = r->addr + (addr - r->iova);
	return r->doubtful && !sr_is_readable(p, length) ? NULL : p;
}

void *sr_mr_memory(struct ibv_context *context, uint32_t lkey, uint64_t addr, uint32_t length)
{
	uint64_t key = key_of(context, lkey);

	return key ? memory_in(sr_map_get(&regions, key), addr, length) : NULL;
}

/*
 * The last deregistered regions.  A program may deregister the memory that a request
 * wrote to, and poll the completion of that request afterwards.
 */
#define GONE_MAX 1024

static struct sr_map gone;
static struct sr_lock gone_lock;
static uint64_t gone_keys[GONE_MAX];
static uint32_t gone_n;

static void keep_gone(uint64_t key, struct region *r)
{
	uint64_t *oldest;
	void *old = NULL;

	if (!r)
		return;
	r->doubtful = true;
	sr_lock(&gone_lock);
	oldest = &gone_keys[gone_n++ % GONE_MAX];
	if (*oldest)
		sr_free(sr_map_take(&gone, *oldest));
	*oldest = 0;
	if (sr_map_put(&gone, key, r, &old))
		sr_free(r);
	else
		*oldest = key;
	sr_free(old);
	sr_unlock(&gone_lock);
}

void *sr_mr_written(struct ibv_context *context, uint32_t lkey, uint64_t addr, uint32_t length)
{
	uint64_t key = key_of(context, lkey);
	void *p = key ? memory_in(sr_map_get(&regions, key), addr, length) : NULL;

	return p || !key ? p : memory_in(sr_map_get(&gone, key), addr, length);
}

struct range {
	uintptr_t begin, end;
};

static void doubt(void *value, void *argument)
{
	struct region *r = value;
	const struct range *range = argument;
	uintptr_t begin = (uintptr_t)r->addr;

	if (r->addr &&
	    (range->begin < begin ? begin < range->end : range->begin - begin < r->length))
		r->doubtful = true;
}

void sr_mr_doubt(void *addr, size_t length)
{
	struct range range = {(uintptr_t)addr, (uintptr_t)addr + length};

	if (range.begin < atomic_load_explicit(&highest, memory_order_relaxed) &&
	    range.end > atomic_load_explicit(&lowest, memory_order_relaxed)) {
		sr_map_each(&regions, doubt, &range);
		atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
	}
}

struct wanted {
	struct range range;
	bool found;
};

static void find_page(void *value, void *argument)
{
	const struct region *r = value;
	struct wanted *w = argument;
	uintptr_t begin = (uintptr_t)r->addr;

	/* All memory there is (implicit on-demand paging) is no region to look into. */
	if (begin > 1 && begin < w->range.end && w->range.begin < begin + r->length)
		w->found |= !r->doubtful || sr_is_readable((void *)w->range.begin, w->range.end - w->range.begin);
}

bool sr_mr_has_page(void *page, size_t size)
{
	struct wanted w = {.range = {(uintptr_t)page, (uintptr_t)page + size}};

	sr_map_each(&regions, find_page, &w);
	return w.found;
}

uint64_t sr_mr_changes(void)
{
	return atomic_load_explicit(&changes, memory_order_relaxed);
}

const uint8_t *sr_mr_pages(void)
{
	return (const uint8_t *)pages;
}

/* Of all memory there is (implicit on-demand paging) no page is a region's. */
static void note_pages(uintptr_t begin, size_t length)
{
	const uintptr_t first = begin / PAGE, n = (begin % PAGE + length + PAGE - 1) / PAGE;

	for (uintptr_t i = 0; i < (n < SR_HOOKED_PAGES ? n : SR_HOOKED_PAGES) && begin > 1; i++) {
		const uintptr_t page = (first + i) % SR_HOOKED_PAGES;

		atomic_fetch_or_explicit(&pages[page / 8], (uint8_t)(1u << page % 8), memory_order_relaxed);
	}
}

static void note_place(const struct region *r)
{
	uintptr_t begin = (uintptr_t)r->addr, end = begin + r->length, seen;

	if (!r->addr)
		return;
	note_pages(begin, r->length);
	end = end < begin ? UINTPTR_MAX : end;
	for (seen = lowest; begin < seen && !atomic_compare_exchange_weak(&lowest, &seen, begin);)
		;
	for (seen = highest; end > seen && !atomic_compare_exchange_weak(&highest, &seen, end);)
		;
}

static void add_region(struct ibv_mr *mr, struct region *r)
{
	uint64_t key = key_of(mr->context, mr->lkey);
	void *old;

	note_place(r);
	atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
	if (!key || sr_map_put(&regions, key, r, &old)) {
		sr_free(r);
		return;
	}
	/*
	 * ibv_reg_mr calls ibv_reg_mr_iova2 by its public name, so the wrapper of each adds
	 * the same region.
	 */
	sr_free(old);
}

void sr_mr_add(struct ibv_mr *mr, void *addr, size_t length, uint64_t iova)
{
	struct region *r = sr_alloc(sizeof(*r));
	bool everything = !addr && length == SIZE_MAX; /* implicit on-demand paging */

	if (!r)
		return;
	if (everything)
		*r = (struct region){.addr = (char *)1, .length = SIZE_MAX, .iova = 1};
	/* A program can register memory that the CPU cannot read, such as a GPU's. */
	else if (length && sr_is_readable(addr, 1) && sr_is_readable((char *)addr + length - 1, 1))
		*r = (struct region){.addr = addr, .length = length, .iova = iova};
	else
		*r = (struct region){.addr = NULL};
	add_region(mr, r);
}

static void remove_region(struct ibv_mr *mr)
{
	uint64_t key = key_of(mr->context, mr->lkey);

	atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
	if (key)
		sr_free(sr_map_take(&regions, key));
}

/* ---------------------------------------------------------------- exposed regions */

/* The key is the address of the struct ibv_mr. */
static struct sr_map exposed;

/*
 * The real ibv_reg_mr calls ibv_reg_mr_iova2 by its public name.  The inner call must not
 * decide again whether the region is exposed.
 */
static __thread bool registering SR_INITIAL_EXEC;

static void keep_exposed(struct ibv_mr *mr, struct sr_exposed_region *w)
{
	struct sr_exposed_region *kept = w->addr && mr ? sr_alloc(sizeof(*kept)) : NULL;
	void *old;

	if (!mr) {
		sr_regions_take_back(w);
		return;
	}
	if (kept) {
		*kept = *w;
		if (!sr_map_put(&exposed, (uintptr_t)mr, kept, &old))
			return;
		sr_free(kept);
	}
	sr_regions_drop(w);
}

/*
 * Registers the backing mapping.  The iova stays the program's address, so peers address the
 * region as before.
 */
static struct ibv_mr *register_backing(uint64_t *a, uint64_t iova, uint64_t access)
{
	const struct sr_call_desc *d = &sr_calls[SR_CALL_ibv_reg_mr_iova2];
	struct ibv_mr *mr;

	mr =
	    (void *)sr_real(d, (uint64_t[]){a[0], (uintptr_t)sr_exposed_hold((void *)a[1]), a[2],
					    iova, access & ~(uint64_t)IBV_ACCESS_RELAXED_ORDERING});
	sr_exposed_release();
	if (mr)
		mr->addr = (void *)a[1];
	return mr;
}

/* The arguments of all these calls begin with pd, addr, length. */
static uint64_t register_memory(const struct sr_call_desc *d, uint64_t *a, uint64_t iova,
				uint64_t access)
{
	struct sr_exposed_region w = {0};
	struct ibv_mr *mr;

	if (registering)
		return sr_real(d, a);
	sr_regions_add(&w, (void *)a[1], a[2], (int)access);
	sr_engine_has_exposed(&sr_self);
	/* What peers write and READ by other addresses is not found again by those of the program's stores. */
	if (iova != a[1])
		sr_clocks_unwatched();
	registering = true;
	mr = w.is_protected ? register_backing(a, iova, access) : (void *)sr_real(d, a);
	registering = false;
	keep_exposed(mr, &w);
	return (uintptr_t)mr;
}

/* ibv_reg_mr: pd, addr, length, access. */
void sr_replayed_reg_mr(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (result)
		sr_mr_add((struct ibv_mr *)result, (void *)a[1], a[2],
			  a[3] & IBV_ACCESS_ZERO_BASED ? 0 : a[1]);
}

uint64_t sr_invoke_reg_mr(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result = register_memory(d, a, a[1], a[3]);

	sr_replayed_reg_mr(d, a, result);
	return result;
}

/* ibv_reg_mr_iova and ibv_reg_mr_iova2: pd, addr, length, iova, access. */
void sr_replayed_reg_mr_iova(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (result)
		sr_mr_add((struct ibv_mr *)result, (void *)a[1], a[2],
			  a[4] & IBV_ACCESS_ZERO_BASED ? 0 : a[3]);
}

uint64_t sr_invoke_reg_mr_iova(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result = register_memory(d, a, a[3], a[4]);

	sr_replayed_reg_mr_iova(d, a, result);
	return result;
}

/* ibv_rereg_mr: mr, flags, pd, addr, length, access.  The caller has dropped the old lkey. */
void sr_replayed_rereg_mr(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct ibv_mr *mr = (void *)a[0];

	if ((int)result == 0)
		sr_mr_add(mr, mr->addr, mr->length, (uintptr_t)mr->addr);
}

/*
 * A re-registered region cannot have a backing mapping elsewhere: ibv_rereg_mr has one
 * address for both the memory and the remote side, so the pages have to be at that address.
 * The region is therefore recorded by comparing it with its shadow copy.
 */
static void compare_anew(struct ibv_mr *mr, struct sr_exposed_region *old)
{
	struct sr_exposed_region w = {0};

	if (old)
		sr_regions_drop(old);
	sr_regions_compare(&w, mr->addr, mr->length, SR_EXPOSED_REFUSED_REREG);
	sr_free(sr_map_take(&exposed, (uintptr_t)mr));
	keep_exposed(mr, &w);
}

static void rewindow(const struct sr_call_desc *d, struct sr_exposed_region *old, const uint64_t *a)
{
	if (!(a[1] & IBV_REREG_MR_CHANGE_ACCESS) && !old)
		return;
	if (old && !(a[1] & IBV_REREG_MR_CHANGE_TRANSLATION))
		return;
	sr_regions_change_at_return(d, compare_anew, (struct ibv_mr *)a[0], old);
}

uint64_t sr_invoke_rereg_mr(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_mr before = *(struct ibv_mr *)a[0];
	struct sr_exposed_region *w = sr_map_get(&exposed, a[0]);
	bool pinned = sr_regions_on && a[1] & IBV_REREG_MR_CHANGE_TRANSLATION &&
		      sr_exposed_touches((void *)a[3], a[4]);
	uint64_t result, key;

	if (a[1] & IBV_REREG_MR_CHANGE_TRANSLATION)
		sr_own_memory_registered((void *)a[3], a[4]);
	if (pinned)
		sr_exposed_pin((void *)a[3], a[4]);
	sr_clocks_unwatched();
	result = sr_real(d, a);
	if (pinned)
		sr_exposed_unpin((void *)a[3], a[4]);
	if ((int)result == 0) {
		key = key_of(before.context, before.lkey);
		if (key)
			keep_gone(key, sr_map_take(&regions, key));
		sr_replayed_rereg_mr(d, a, result);
		if (w || (a[1] & IBV_REREG_MR_CHANGE_ACCESS &&
			  a[5] & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)))
			rewindow(d, w, a);
	}
	return result;
}

static void end_exposed(struct ibv_mr *freed, struct sr_exposed_region *w)
{
	sr_regions_drop(w);
	sr_free(w);
}

/* ibv_dereg_mr: mr.  The real call frees *mr. */
void sr_replayed_dereg_mr(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result == 0)
		remove_region((struct ibv_mr *)a[0]);
}

uint64_t sr_invoke_dereg_mr(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_mr mr = *(struct ibv_mr *)a[0];
	uint64_t key = key_of(mr.context, mr.lkey), result;
	/* Before the real call: as soon as it returns, another thread may get the same key. */
	struct region *r = key ? sr_map_take(&regions, key) : NULL;
	struct sr_exposed_region *w = sr_map_take(&exposed, a[0]);
	void *old;

	/* The kernel needs the address of the registered pages: that of the backing mapping, where they have to stay meanwhile. */
	if (w && w->is_protected)
		((struct ibv_mr *)a[0])->addr = sr_exposed_hold(w->addr);
	result = sr_real(d, a);
	if (w && w->is_protected)
		sr_exposed_release();
	if ((int)result != 0) {
		if (w && w->is_protected)
			((struct ibv_mr *)a[0])->addr = mr.addr;
		if (w && sr_map_put(&exposed, a[0], w, &old))
			sr_free(w);
		if (r)
			add_region(&mr, r);
		return result;
	}
	if (w)
		sr_regions_change_at_return(d, end_exposed, NULL, w);
	keep_gone(key, r);
	return result;
}

/* ---------------------------------------------------------- device memory */

uint64_t sr_invoke_new_dm(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_dm *dm = (void *)sr_real(d, a);

	sr_clocks_unwatched();
	if (dm)
		sr_ops_patch(dm, SR_SOURCE_DM);
	return (uintptr_t)dm;
}

/* ibv_free_dm and ibv_unimport_dm; the latter has no result and never fails. */
uint64_t sr_invoke_end_dm(const struct sr_call_desc *d, uint64_t *a)
{
	void *ops = sr_ops_take((void *)a[0]);
	uint64_t result = sr_real(d, a);

	if (!(d->flags & SR_CALL_VOID) && (int)result != 0)
		sr_ops_put_back((void *)a[0], ops);
	else
		sr_free(ops);
	return result;
}

/* What READs bring may be left out, once it has come (completions.c).  Of a list, or one that is set anew, it is not. */
static void note_fetch(struct sr_wqe *wqe, const void *p, size_t length)
{
	if (wqe->num_sge == 1 && !wqe->fetches && sr_exposed_is_whole(p, length)) {
		wqe->fetches = true;
		sr_exposed_fetch_begins(p, length);
		return;
	}
	sr_exposed_keep_values(p, length);
	if (sr_exposed_touches(p, length))
		sr_clocks_unwatched();
}

static void note_target(struct sr_wqe *wqe, const void *p, size_t length)
{
	if (wqe->kind == SR_WQE_FETCH) {
		note_fetch(wqe, p, length);
		return;
	}
	sr_exposed_keep_values(p, length);
	if (sr_exposed_touches(p, length))
		sr_clocks_unwatched();
}

void sr_wqe_note_target(struct sr_wqe *wqe)
{
	if (!sr_regions_on || !(sr_leaves_out || wqe->kind == SR_WQE_FETCH))
		return;
	for (uint32_t i = 0; i < wqe->num_sge; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		const void *p = sr_mr_memory(wqe->wq->context, sge->lkey, sge->addr, sge->length);

		if (!p || !sge->length)
			continue;
		if (wqe->kind == SR_WQE_FETCH)
			sr_exposed_fetched(p, sge->length);
		if (sr_leaves_out)
			note_target(wqe, p, sge->length);
	}
}

void sr_wqe_note_receive(const struct sr_wqe *wqe)
{
	if (!sr_regions_on || !sr_leaves_out)
		return;
	for (uint32_t i = 0; i < wqe->num_sge; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		const void *p = sr_mr_memory(wqe->wq->context, sge->lkey, sge->addr, sge->length);

		if (p)
			sr_exposed_messages_come(p, sge->length);
	}
}
