/* SPDX-License-Identifier: BSD-2-Clause */
/* See clocks.h. */
#include "shim/verbs/clocks/clocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/say.h"
#include "logd/ring/directory_client.h"
#include "logd/ring/socket_path.h"
#include "nicclock/picks.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/clocks/domains.h"
#include "shim/verbs/clocks/names.h"

/* Cells in the region of this process: one for each queue pair that leads to a member. */
#define CELLS       4088
/* Limit of the cells that one READER fetches from a peer's region. */
#define SLOT_CELLS  126
#define SLOTS       1024
/* A READER fetches this many cells more than are in use, for members that connect later. */
#define SPARE_CELLS 1u

struct sr_clock_slot {
	_Atomic uint64_t words[SR_CLOCK_HEAD_WORDS + SLOT_CELLS * SR_CLOCK_CELL_BYTES / sizeof(uint64_t)];
};

/* The memory that the shim registers in each protection domain. */
struct memory {
	union {
		struct sr_clock_region region;
		char bytes[sizeof(struct sr_clock_region) + CELLS * SR_CLOCK_CELL_BYTES];
	};
	struct sr_clock_slot slots[]; /* members only */
};

static struct {
	bool on;
	bool with_oneself; /* for tests: treats queue pairs to this process as a peer's */
	struct sr_clock clock;
	uint32_t members; /* 0: unknown */
	struct memory *memory;
	size_t memory_bytes;
	struct sr_clock_view *view; /* of this process's region */
	struct sr_lock sampling;
	struct sr_directory directory;
	struct sr_lock slots_lock;
	uint64_t slots_taken[SLOTS / 64];
	bool has_complained;
} self;

void sr_clocks_own_fds(int fds[2])
{
	const struct sr_directory *d = &self.directory;

	fds[0] = self.on && d->open ? d->socket : -1;
	fds[1] = self.on ? d->job_fd : -1;
}

bool sr_clocks_member, sr_picks_on;

bool sr_clocks_on(void)
{
	return self.on;
}

/* -------------------------------------------------------------------- start */

static uint64_t whole_pages(uint64_t bytes)
{
	return sr_page_up(bytes);
}

/* Can others READ memory of this process that it does not see change? */
static _Atomic bool unwatched;

void sr_clocks_unwatched(void)
{
	unwatched = true;
	if (self.memory)
		sr_clock_region_flag(&self.memory->region, SR_CLOCK_UNWATCHED, true);
}

void sr_clocks_passes(bool passes)
{
	if (self.memory)
		sr_clock_region_flag(&self.memory->region, SR_CLOCK_PASSES, passes);
}

bool sr_clocks_peer_is_watched(const struct sr_clock_qp *c)
{
	if (c && c->to_oneself && c->qp->qp_type == IBV_QPT_RC)
		return sr_clock_is_watched(&self.memory->region.own);
	return c && c->carries && c->slot && sr_clocks_carried_to(c->qp->context, c->qp->qp_num) &&
	       sr_clock_is_watched(c->slot->words);
}

static bool make_memory(bool member)
{
	char *p;

	self.memory_bytes = whole_pages(sizeof(struct memory) +
					(member ? SLOTS * sizeof(struct sr_clock_slot) : 0));
	/*
	 * Whole pages, shared with no other data: after ibv_fork_init, libibverbs withholds
	 * registered pages from children.
	 */
	p = sr_alloc_zeroed(self.memory_bytes + PAGE - 1);
	if (!p)
		return false;
	self.memory = (void *)whole_pages((uintptr_t)p);
	if (unwatched)
		sr_clocks_unwatched();
	if (!member)
		return true;
	self.view = sr_alloc_zeroed(sr_clock_view_bytes(CELLS));
	if (!self.view)
		return false;
	self.view->cells = CELLS;
	return true;
}

static void complain(const char *what, const char *why)
{
	if (!self.has_complained)
		sr_say("%s: %s; it is recorded by value, without orders (said once)", what, why);
	self.has_complained = true;
}

/* Writes to the trace whether a queue pair carries clocks, and if not, why. */
static void note(const struct sr_connection_payload *p)
{
	sr_engine_note(&sr_self, SR_REC_CONNECTION, p, sizeof(*p));
}

/* A process outside the group needs no daemon, so it does not report that none is there. */
static bool can_do_without(bool member, int err)
{
	return !member && (err == -ENOENT || err == -ECONNREFUSED);
}

/* Returns -errno if this process gets no clocks. */
static int join(const char *path, const struct sr_job *job, bool member, char *error, size_t size)
{
	int err = sr_directory_join(&self.directory, path, job, error, size);

	if (!sr_directory_joins_later(&self.directory))
		return err;
	/* The daemon is slow or about to be replaced: the first queue pair tries to join again. */
	if (!can_do_without(member, err))
		return 0;
	sr_directory_abandon(&self.directory);
	return err;
}

void sr_clocks_start(const struct sr_settings *s, bool member)
{
	struct sr_job job = {.name = s->trace,
			     .key_path = s->key,
			     .hosts = s->hosts,
			     .rank = s->rank,
			     .member = member ? (uint32_t)s->member : SR_OUTSIDER};
	char path[108], error[320] = "";
	int err;

	if (!s->clocks)
		return;
	err = make_memory(member) ? sr_socket_path(path, sizeof(path)) : -ENOMEM;
	job.region = (uintptr_t)&self.memory->region;
	if (!err)
		err = join(path, &job, member, error, sizeof(error));
	if (can_do_without(member, err))
		return;
	if (err) {
		note(&(struct sr_connection_payload){
		    .peer_rank = -1, .carries = SR_CARRIES_UNJOINED, .error = -err});
		sr_say("rank %d carries no clocks: %s", s->rank,
		       error[0] ? error : strerrorname_np(-err));
		return;
	}
	if (member)
		sr_clock_init(&self.clock, &self.memory->region, s->member, &sr_events.drawn);
	self.members = (uint32_t)s->members;
	self.with_oneself = s->clocks == SR_CLOCKS_SELF;
	sr_clocks_member = member;
	self.on = true;
}

/* No device was opened before the fork, so that nobody has seen the parent's region: it becomes the child's. */
static void begin_in_child(int number)
{
	atomic_store(&self.memory->region.before, 0);
	atomic_store(&self.view->own, 0);
	self.sampling = self.slots_lock = (struct sr_lock){0};
	sr_clock_init(&self.clock, &self.memory->region, number, &sr_events.drawn);
	self.on = sr_clocks_member = true;
}

void sr_clocks_start_in_child(const struct sr_settings *s)
{
	struct sr_job job = {.name = s->trace, .rank = s->rank, .is_child = true};
	char path[108], error[320];

	/* No daemon knows alone which numbers a job with a key has given. */
	if (!s->clocks || s->key || !self.view)
		return;
	/* With --order what members send is left out, and a replay without the children lacks it. */
	if (s->order || sr_socket_path(path, sizeof(path)))
		return;
	job.region = (uintptr_t)&self.memory->region;
	if (!sr_directory_join(&self.directory, path, &job, error, sizeof(error)))
		begin_in_child((int)sr_directory_member(&self.directory));
	else
		sr_directory_abandon(&self.directory);
}

int sr_clocks_number(void)
{
	return sr_clocks_member ? self.clock.member : -1;
}

void sr_clocks_forget_in_child(void)
{
	self.on = sr_clocks_member = sr_picks_on = false;
	sr_directory_abandon(&self.directory);
}

void sr_clocks_drop_pd(struct ibv_pd *pd)
{
	if (self.on)
		sr_clock_domain_drop(pd);
}

/* -------------------------------------------------------------------- slots */

static struct sr_clock_slot *take_slot(void)
{
	struct sr_clock_slot *slot = NULL;

	sr_lock(&self.slots_lock);
	for (int i = 0; i < SLOTS / 64 && !slot; i++) {
		int bit = ~self.slots_taken[i] ? __builtin_ctzll(~self.slots_taken[i]) : -1;

		if (bit < 0)
			continue;
		self.slots_taken[i] |= 1ull << bit;
		slot = &self.memory->slots[i * 64 + bit];
	}
	sr_unlock(&self.slots_lock);
	if (slot)
		memset(slot, 0, sizeof(*slot));
	return slot;
}

static void give_back_slot(struct sr_clock_slot *slot)
{
	size_t i;

	if (!slot)
		return;
	i = (size_t)(slot - self.memory->slots);
	sr_lock(&self.slots_lock);
	self.slots_taken[i / 64] &= ~(1ull << i % 64);
	sr_unlock(&self.slots_lock);
}

/* One for each thread that asks: two, at most. */
volatile uint64_t *sr_clocks_probe_word(void)
{
	static __thread struct sr_clock_slot *slot SR_INITIAL_EXEC;

	if (!slot && self.on)
		slot = take_slot();
	return slot ? (volatile uint64_t *)&slot->words[0] : NULL;
}

/* -------------------------------------------------------------- queue pairs */

bool sr_clocks_go_over(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND;
}

/* Of connections so far: those whose peers are members, over which nothing is lost, and all others. */
static _Atomic bool has_members, has_strangers;

bool sr_clocks_only_members(void)
{
	return has_members && !has_strangers;
}

void sr_clocks_meet_stranger(void)
{
	has_strangers = true;
	sr_clocks_unwatched();
}

static void note_kind(const struct sr_clock_qp *c, enum sr_carries carries)
{
	if (carries == SR_CARRIES_TO_ONESELF)
		return;
	if ((carries == SR_CARRIES_CLOCKS || carries == SR_CARRIES_NO_READS) && c->qp->qp_type == IBV_QPT_RC)
		has_members = true;
	else
		sr_clocks_meet_stranger();
}

static void note_qp(const struct sr_clock_qp *c, int32_t peer_rank, enum sr_carries carries,
		    int err)
{
	note_kind(c, carries);
	if (sr_clocks_member)
		note(&(struct sr_connection_payload){.number = c->qp->qp_num,
						     .peer = c->find.number,
						     .peer_rank = peer_rank,
						     .carries = carries,
						     .error = -err});
}

static void note_no_memory(struct ibv_qp *qp, int err)
{
	complain("a queue pair has no memory for clocks", strerrorname_np(-err));
	note_qp(&(struct sr_clock_qp){.qp = qp}, -1, SR_CARRIES_NO_MEMORY, err);
}

struct sr_clock_qp *sr_clocks_add_qp(struct ibv_qp *qp, struct ibv_pd *pd,
				     const struct ibv_xrcd *xrcd)
{
	bool is_target = qp->qp_type == IBV_QPT_XRC_RECV && xrcd;
	struct sr_clock_qp *c;
	struct ibv_mr *mr;

	if (!self.on || (!is_target && (!pd || !sr_clocks_go_over(qp->qp_type))))
		return NULL;
	c = sr_alloc_zeroed(sizeof(*c));
	if (!c) {
		note_no_memory(qp, -ENOMEM);
		return NULL;
	}
	c->qp = qp;
	c->names.number = qp->qp_num;
	if (is_target) {
		c->names.domain = (uintptr_t)xrcd;
		return c;
	}
	mr = sr_clock_domain_use(pd, self.memory, self.memory_bytes);
	if (!mr) {
		note_no_memory(qp, errno ? -errno : -ENOMEM);
		sr_free(c);
		return NULL;
	}
	c->pd = pd;
	c->names.rkey = mr->rkey;
	c->read_sge.lkey = mr->lkey;
	c->word_sge = (struct ibv_sge){
	    .addr = (uintptr_t)&c->word, .length = SR_CLOCK_WORD_BYTES, .lkey = mr->lkey};
	return c;
}

static int add_to_directory(const struct sr_clock_qp *c)
{
	return c->names.gids ? sr_directory_add(&self.directory, &c->names) : -EADDRNOTAVAIL;
}

void sr_clocks_name_qp(struct sr_clock_qp *c)
{
	c->device_reads = sr_clock_name_device(c->qp->context, &c->names);
	c->unnamed = add_to_directory(c);
	if (c->unnamed)
		complain("the directory does not take a queue pair", strerrorname_np(-c->unnamed));
}

struct sr_clock_srq {
	struct ibv_pd *pd;
	struct sr_queue_pair names;
};

static struct sr_map srqs;

void sr_clocks_put_back_srq(struct ibv_srq *srq, struct sr_clock_srq *s)
{
	void *old;

	if (s && sr_map_put(&srqs, (uintptr_t)srq, s, &old))
		sr_clocks_remove_srq(s);
}

void sr_clocks_add_srq(struct ibv_srq *srq, struct ibv_pd *pd, const struct ibv_xrcd *xrcd)
{
	uint32_t number;
	uint64_t a[] = {(uintptr_t)srq, (uintptr_t)&number};
	struct sr_clock_srq *s;
	struct ibv_mr *mr;

	if (!self.on || !pd || !xrcd || (int)sr_real(&sr_calls[SR_CALL_get_srq_num], a))
		return;
	mr = sr_clock_domain_use(pd, self.memory, self.memory_bytes);
	if (!mr)
		return;
	s = sr_alloc_zeroed(sizeof(*s));
	if (!s) {
		sr_clock_domain_leave(pd);
		return;
	}
	s->pd = pd;
	s->names.number = number | SR_SHARED_QUEUE;
	s->names.rkey = mr->rkey;
	s->names.domain = (uintptr_t)xrcd;
	sr_clock_name_device(srq->context, &s->names);
	sr_directory_add(&self.directory, &s->names);
	sr_clocks_put_back_srq(srq, s);
}

struct sr_clock_srq *sr_clocks_take_srq(struct ibv_srq *srq)
{
	return self.on ? sr_map_take(&srqs, (uintptr_t)srq) : NULL;
}

void sr_clocks_remove_srq(struct sr_clock_srq *s)
{
	if (!s)
		return;
	sr_directory_remove(&self.directory, &s->names);
	sr_clock_domain_leave(s->pd);
	sr_free(s);
}

/* Connected RC queue pairs that carry clocks, by number and device. */
static struct sr_map carrying;

static uint64_t number_key(const struct ibv_context *context, uint32_t qp_num)
{
	return (uintptr_t)context ^ (uint64_t)qp_num << 32;
}

/* With threads only whether there is a value counts: a poller may look while the queue pair is destroyed. */
static void note_carrying(struct sr_clock_qp *c, bool carries)
{
	void *old;

	if (c->qp->qp_type == IBV_QPT_RC)
		sr_map_put(&carrying, number_key(c->qp->context, c->qp->qp_num), carries ? c : NULL, &old);
}

bool sr_clocks_carried_to(const struct ibv_context *context, uint32_t qp_num)
{
	return sr_map_get(&carrying, number_key(context, qp_num));
}

struct sr_clock_qp *sr_clocks_carrying(const struct ibv_context *context, uint32_t qp_num)
{
	return sr_map_get(&carrying, number_key(context, qp_num));
}

void sr_clocks_disconnect(struct sr_clock_qp *c)
{
	if (!c)
		return;
	if (c->carries)
		note_carrying(c, false);
	c->peer_reads = 0;
	c->carries = c->reads = c->to_oneself = c->unanswered = false;
	give_back_slot(c->slot);
	sr_free(c->view);
	c->slot = NULL;
	c->view = NULL;
}

void sr_clocks_remove_qp(struct sr_clock_qp *c)
{
	if (!c)
		return;
	sr_clocks_disconnect(c);
	if (!c->unnamed)
		sr_directory_remove(&self.directory, &c->names);
	if (c->pd)
		sr_clock_domain_leave(c->pd);
	sr_free(c);
}

/* ---------------------------------------------------------------- connecting */

/*
 * At least one cell for each member of the group: each is likely to connect a queue pair to
 * that peer soon.
 */
static uint32_t cells_to_read(uint32_t in_use)
{
	uint32_t n = in_use + SPARE_CELLS;

	if (n < self.members)
		n = self.members;
	return n < SLOT_CELLS ? n : SLOT_CELLS;
}

static bool prepare_reads(struct sr_clock_qp *c, const struct sr_found *found)
{
	c->slot = take_slot();
	c->view = sr_alloc_zeroed(sr_clock_view_bytes(SLOT_CELLS));
	if (!c->slot || !c->view)
		return false;
	c->view->cells = SLOT_CELLS;
	c->cells = found->region + SR_CLOCK_READ_OFFSET;
	c->cells_count = cells_to_read(found->cells);
	c->read_sge.addr = (uintptr_t)c->slot->words;
	c->read_sge.length = (uint32_t)sr_clock_read_bytes(c->cells_count);
	/* Soft-RoCE answers READs in order. */
	c->fence = strncmp(c->qp->context->device->name, "rxe", 3) ? IBV_SEND_FENCE : 0;
	return true;
}

static uint8_t at_most(uint32_t n, uint32_t limit)
{
	if (n > limit)
		n = limit;
	return n < UINT8_MAX ? (uint8_t)n : UINT8_MAX;
}

/* Never returns less than asked: if that exceeds the limit, the provider refuses it. */
static uint8_t twice(uint8_t asked, uint32_t limit)
{
	uint8_t more = at_most(2u * asked, limit);

	return more > asked ? more : asked;
}

/*
 * A peer of the job answers twice as many READs as its program asked for.  That is at least as
 * many as this end has under way.
 */
uint8_t sr_clocks_initiated(const struct sr_clock_qp *c, uint8_t asked)
{
	return c->reads ? twice(asked, at_most(c->device_reads, c->peer_reads)) : asked;
}

/* Also doubled if this end did not find the peer: the peer may have found this end. */
uint8_t sr_clocks_answered(const struct sr_clock_qp *c, uint8_t asked)
{
	return twice(asked, c->names.reads);
}

/* Can requests of a member's queue pair carry clocks to the peer that was found? */
static enum sr_carries what_carries(const struct sr_clock_qp *c, const struct sr_found *found)
{
	if (found->member == (uint32_t)self.clock.member && !self.with_oneself)
		return SR_CARRIES_TO_ONESELF;
	if (!c->has_room)
		return SR_CARRIES_NO_ROOM;
	if (found->cell == SR_NO_CELL || found->cell >= CELLS)
		return SR_CARRIES_NO_CELL;
	/*
	 * An XRC target is addressed by a shared receive queue.  Its process has none at
	 * present, so its region cannot be reached.
	 */
	if (c->qp->qp_type == IBV_QPT_XRC_SEND && !found->shared_queue)
		return SR_CARRIES_NO_SRQ;
	return SR_CARRIES_CLOCKS;
}

static void start_clocks(struct sr_clock_qp *c, const struct sr_found *found)
{
	c->shared_queue = found->shared_queue;
	c->rkey = found->rkey;
	for (uint32_t i = 0; i < SR_CLOCK_CELL_WORDS; i++)
		c->cell[i] = found->region + sr_clock_cell_offset(found->cell, i);
	c->reads = c->qp->qp_type != IBV_QPT_UC && prepare_reads(c, found);
	c->own_cell = found->own_cell;
	c->messages = c->received = 0;
	c->carries = true;
	note_carrying(c, true);
}

static void use_found(struct sr_clock_qp *c, const struct sr_found *found)
{
	enum sr_carries carries;

	c->peer_reads = found->reads;
	if (found->own_cell != SR_NO_CELL && found->own_cell < CELLS)
		sr_clock_region_use_cell(&self.memory->region, found->own_cell);
	/* An XRC target sends nothing, and neither does a send queue of length 0. */
	if (!sr_clocks_member || c->qp->qp_type == IBV_QPT_XRC_RECV || !c->limit) {
		sr_clocks_meet_stranger();
		return;
	}
	carries = what_carries(c, found);
	c->to_oneself = carries == SR_CARRIES_TO_ONESELF;
	c->member = (int)found->member;
	if (carries == SR_CARRIES_CLOCKS)
		start_clocks(c, found);
	if (c->carries && !c->reads && c->qp->qp_type != IBV_QPT_UC)
		carries = SR_CARRIES_NO_READS;
	if (carries != SR_CARRIES_CLOCKS && carries != SR_CARRIES_TO_ONESELF)
		complain("a queue pair carries no clocks, or READs of it bring none",
			 "there is no room for them");
	note_qp(c, found->rank, carries, 0);
}

static void find_peer(struct sr_clock_qp *c)
{
	char error[320] = "";
	struct sr_found found;
	int err = sr_directory_find(&self.directory, &c->find, &found, error, sizeof(error));

	if (!err) {
		c->unanswered = false;
		use_found(c, &found);
		return;
	}
	/* The second failure: the first one was reported and noted. */
	if (c->unanswered)
		return;
	c->unanswered = err != -ENOENT;
	if (c->unanswered)
		complain("a peer's queue pair cannot be found in the directory",
			 error[0] ? error : strerrorname_np(-err));
	note_qp(c, -1, c->unanswered ? SR_CARRIES_UNANSWERED : SR_CARRIES_FOREIGN, err);
}

void sr_clocks_connect(struct sr_clock_qp *c, const struct ibv_qp_attr *attr)
{
	sr_clocks_disconnect(c);
	c->find = (struct sr_find){.own_number = c->qp->qp_num, .number = attr->dest_qp_num};
	/* The daemon did not answer when the queue pair was created; it may now. */
	if (c->unnamed)
		c->unnamed = add_to_directory(c);
	if (c->unnamed) {
		note_qp(c, -1, SR_CARRIES_UNNAMED, c->unnamed);
		return;
	}
	memcpy(c->find.own_gid, c->names.gid[0], sizeof(c->find.own_gid));
	if (attr->ah_attr.is_global)
		memcpy(c->find.gid, attr->ah_attr.grh.dgid.raw, sizeof(c->find.gid));
	else
		sr_clock_gid_of_lid(attr->ah_attr.dlid, c->find.gid);
	find_peer(c);
}

void sr_clocks_connect_again(struct sr_clock_qp *c)
{
	if (c->unanswered)
		find_peer(c);
}

/* ------------------------------------------------------------- the data path */

/* What several threads store one beside the other, a replay stores in other orders. */
static void note_threads(void)
{
	if (__builtin_expect(sr_threaded, 0) && !unwatched)
		sr_clocks_unwatched();
}

void sr_clocks_tick(struct sr_clock_qp *c)
{
	uint64_t event = sr_clock_tick(&self.clock);

	/* What another thread has found need not be in the trace yet. */
	c->word.known = sr_picks_on && c->carries && !sr_threaded ? sr_known_word(self.clock.known[c->member], c->messages) : 0;
	c->word.word = sr_clock_cell_word(self.clock.member, event, c->word.known);
	note_threads();
	sr_engine_clock((struct sr_clock_moment){.event = event}, NULL, 0);
}

uint64_t sr_clocks_now(void)
{
	return sr_clock_now(&self.clock);
}

uint64_t sr_clocks_known_to_sender(struct sr_clock_qp *c)
{
	uint64_t message = c->received++;

	return c->own_cell < CELLS ? sr_known_before(self.memory->region.cell[c->own_cell], c->member, message) : 0;
}

static void merge(struct sr_clock_view *v, const _Atomic uint64_t *words, uint32_t cells)
{
	struct sr_order orders[SR_CLOCK_ORDERS];
	struct sr_clock_moment moment;
	uint32_t n;

	do {
		n = sr_clock_merge(&self.clock, v, words, cells, orders, SR_CLOCK_ORDERS, &moment);
		if (n)
			sr_engine_clock(moment, orders, n);
	} while (n + SR_CLOCK_CELL_WORDS > SR_CLOCK_ORDERS);
}

/*
 * Records that an order may have been missed: more cells are in use than the READ fetched, or
 * the READ was so slow that a cell was written twice meanwhile.
 */
static void note_short(struct sr_clock_qp *c, uint64_t in_use)
{
	struct sr_order missed = {.member = (uint8_t)self.clock.member, .via = SR_ORDER_SHORT};

	sr_engine_clock((struct sr_clock_moment){.event = sr_clock_tick(&self.clock)}, &missed, 1);
	c->cells_count = cells_to_read((uint32_t)in_use);
	/* Later READs fetch more cells. */
	c->read_sge.length = (uint32_t)sr_clock_read_bytes(c->cells_count);
}

void sr_clocks_read(struct sr_clock_qp *c)
{
	const _Atomic uint64_t *words;

	if (!c || !c->slot)
		return;
	words = c->slot->words;
	if (sr_clock_is_news(&self.clock, c->view, words, c->cells_count))
		merge(c->view, words, c->cells_count);
	if (sr_clock_is_short(words, c->cells_count))
		note_short(c, sr_clock_cells_in_use(words));
}

void sr_clocks_sample_peers(void)
{
	const struct sr_clock_region *r;
	uint32_t cells;
	bool alone;

	r = &self.memory->region;
	cells = (uint32_t)atomic_load_explicit(&r->cells, memory_order_relaxed);
	if (!cells || !sr_clock_is_news(&self.clock, self.view, &r->own, cells))
		return;
	/* A busy thread cannot write records now; the next sample finds the same orders. */
	if (sr_thread_is_busy(&sr_self))
		return;
	/*
	 * Does not wait for the lock: this may be a signal handler that interrupted the
	 * lock's owner.  Two threads that sample at the same time may record an order twice.
	 */
	alone = sr_trylock(&self.sampling);
	merge(self.view, &r->own, cells);
	if (alone)
		sr_unlock(&self.sampling);
}

void sr_clocks_store(void)
{
	note_threads();
	/* Polls have left it to what comes next. */
	if (sr_self.commutes.on)
		sr_clocks_sample();
	if (sr_clocks_member && !sr_thread_is_busy(&sr_self))
		sr_engine_clock((struct sr_clock_moment){.event = sr_clock_tick(&self.clock)}, NULL, 0);
}
