/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.c: moves bytes from member to member; see own.h.
 *
 * Through the file, a process writes the bytes directly to their place.  Over a device, it
 * gives work items to the proxy (proxy.h), which puts what has arrived in its place.  A process
 * waits for the proxy in three cases only: for the bytes of a message that it receives, for
 * room for another work item, and for all its work items when it ends.  So the proxy handles
 * many work items at a time while the ranks continue.
 *
 * The caller holds sr_group_lock, except for sr_transfer_own, sr_transfer_all and
 * sr_transfer_failed.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/replay/group/own.h"

#define SPINS   200
#define SECONDS 15 /* stall timeout of the proxy; its own limit for a request is 10 s */
/*
 * The proxy is woken for so many requests, unless one is needed sooner: a wakeup costs as much
 * as a request.
 */
#define MANY    (SR_GROUP_WORK_ITEMS / 2)

static struct sr_group_call call; /* new work items belong to it */
static const char *_Atomic why_not;

/* ------------------------------------------------------- through the file */

static void put(struct sr_group_place *to, const struct sr_piece *piece)
{
	const char *p = piece->p;
	size_t n = piece->length;

	while (n) {
		uint64_t at;
		size_t part = sr_group_place_take(to, n, &at);

		sr_group_write_memory(at, p, part);
		p = p ? p + part : NULL;
		n -= part;
	}
}

/* ---------------------------------------------------------- over a device */

static struct sr_work_items *ours(void)
{
	return &sr_group_memory->member[sr_group_self].work_items;
}

void sr_transfer_for(const struct sr_group_call *of)
{
	call = *of;
}

const struct sr_group_call *sr_transfer_failed(const char **why)
{
	const struct sr_work_items *e = ours();
	const uint64_t done = atomic_load(&e->done);

	/* Without a device, neither is ever set. */
	*why = atomic_load(&e->failed) ? e->text : atomic_load(&why_not);
	if (!*why)
		return NULL;
	return done < atomic_load(&e->asked) ? &e->work_item[done % SR_GROUP_WORK_ITEMS].call : &call;
}

/*
 * No wakeup is lost: the proxy sets `sleeping` and then checks for work items; a process adds
 * one and then checks `sleeping`.
 */
static void wake_proxy(void)
{
	struct sr_group_proxy *c = &sr_group_memory->proxy;

	if (!atomic_load(&c->sleeping) || !atomic_exchange(&c->sleeping, 0))
		return;
	atomic_fetch_add(&c->word, 1);
	sr_sys_futex((uint32_t *)&c->word, FUTEX_WAKE, 1, NULL);
}

/*
 * Will the proxy do nothing more for this process?  It is not blamed for a stall if the member
 * that `of` belongs to has failed: that member reports its own failure.
 */
static bool is_over(const struct sr_work_items *of, int vain)
{
	if (atomic_load(&ours()->failed))
		return true;
	if (atomic_load(&sr_group_memory->proxy.state) != SR_PROXY_READY)
		why_not = "the process that has the device is gone";
	else if (vain >= SECONDS && !atomic_load(&of->failed))
		why_not = "it was not done within 15 s";
	return why_not;
}

/* Waits as long as the proxy makes progress: it may have much to do for other members first. */
static bool sleep_until(const _Atomic uint64_t *counter, uint64_t value,
			const struct sr_work_items *of)
{
	const struct timespec second = {.tv_sec = 1};
	const struct sr_group_proxy *c = &sr_group_memory->proxy;
	struct sr_work_items *e = ours();
	uint64_t steps = atomic_load(&c->steps);

	for (int vain = 0;;) {
		uint32_t word = atomic_load(&e->word);
		long woken;

		if (atomic_load(counter) >= value)
			return true;
		if (is_over(of, vain))
			return false;
		woken = sr_sys_futex((uint32_t *)&e->word, FUTEX_WAIT, word, &second);
		vain = atomic_load(&c->steps) == steps ? vain + (woken == -ETIMEDOUT) : 0;
		steps = atomic_load(&c->steps);
	}
}

/*
 * Waits until the counter has the value.  Returns false if it will not get there; the reason is
 * kept.  of: the work items that the counter counts.
 */
static bool await(const _Atomic uint64_t *counter, uint64_t value, const struct sr_work_items *of)
{
	struct sr_work_items *e = ours();
	bool come;

	if (atomic_load(counter) >= value)
		return true;
	wake_proxy();
	for (int i = 0; i < SPINS; i++)
		if (atomic_load(counter) >= value)
			return true;
	/*
	 * No wakeup is lost: this thread announces what it waits for and then checks the
	 * counter; the proxy counts and then checks for waiting threads.
	 */
	if (counter == &e->done)
		atomic_store(&e->wanted, value);
	else
		atomic_fetch_add(&e->waits, 1);
	come = sleep_until(counter, value, of);
	if (counter == &e->done)
		atomic_store(&e->wanted, 0);
	else
		atomic_fetch_sub(&e->waits, 1);
	return come;
}

void sr_transfer_await(const struct sr_group_channel *c, const struct sr_group_message *m)
{
	await(&c->arrived, m->number + 1, &sr_group_memory->member[c->key.from].work_items);
}

void sr_transfer_await_members(void)
{
	const struct timespec moment = {.tv_nsec = 200000};
	const char *why;

	for (uint32_t i = 0; sr_group_over_device() && i < sr_group_memory->members; i++) {
		const struct sr_work_items *e = &sr_group_memory->member[i].work_items;
		uint64_t asked = atomic_load(&e->asked);

		while (atomic_load(&e->done) < asked && !atomic_load(&e->failed) && !sr_transfer_failed(&why) &&
		       atomic_load(&sr_group_memory->proxy.state) == SR_PROXY_READY) {
			wake_proxy();
			sr_sys_nanosleep(&moment);
		}
	}
}

bool sr_transfer_all(void)
{
	struct sr_work_items *e = ours();

	return await(&e->done, atomic_load(&e->asked), e);
}

/*
 * Prepares the next work item, when there is room for it; ask() hands it to the proxy.  Returns
 * NULL if the proxy has failed.
 */
static struct sr_work_item *new_work_item(const struct sr_group_channel *c, uint32_t opcode,
				    uint32_t length)
{
	struct sr_work_items *all = ours();
	const uint64_t asked = atomic_load(&all->asked);
	struct sr_work_item *e = &all->work_item[asked % SR_GROUP_WORK_ITEMS];

	if (why_not || atomic_load(&all->failed))
		return NULL;
	/* Waits for room for MANY: with room for one, the next work item would wait again. */
	if (asked - atomic_load(&all->done) == SR_GROUP_WORK_ITEMS &&
	    !await(&all->done, asked - MANY, all))
		return NULL;
	*e = (struct sr_work_item){
	    .call = call,
	    .channel = (uint32_t)(c - sr_group_memory->channel),
	    .opcode = opcode,
	    .length = length,
	};
	return e;
}

/*
 * Hands the work item to the proxy.  The stamp is drawn before other members can see the
 * effect, so all work items that happened before this one have lower stamps.
 */
static void ask(struct sr_work_item *e)
{
	struct sr_work_items *all = ours();
	const uint64_t asked = atomic_load(&all->asked) + 1;

	e->stamp = atomic_fetch_add(&sr_group_memory->proxy.stamps, 1) + 1;
	atomic_store(&all->asked, asked);
	if (asked - atomic_load(&all->done) >= MANY)
		wake_proxy();
}

/* Where the CPU has no address for the source (device memory), zeros are sent. */
static void lay_out_far(const struct sr_piece *pieces, uint32_t n)
{
	static const uint8_t zeros[4096];
	uint64_t at = sr_group_source_at(sr_group_self);

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t done = 0, part; !pieces[i].p && done < pieces[i].length;
		     done += part) {
			part = pieces[i].length - done;
			part = part < sizeof(zeros) ? part : (uint32_t)sizeof(zeros);
			sr_group_write(at + done, zeros, part);
		}
		sr_group_write_memory(at, pieces[i].p, pieces[i].length);
		at += pieces[i].length;
	}
}

static void lay_out_near(uint8_t *to, const struct sr_piece *pieces, uint32_t n)
{
	for (uint32_t i = 0; i < n; to += pieces[i++].length)
		if (pieces[i].p)
			sr_group_copy(to, pieces[i].p, pieces[i].length);
		else
			memset(to, 0, pieces[i].length);
}

/* Returns false if the work items that occupy the room will not be done. */
static bool lay_out(struct sr_work_item *e, const struct sr_piece *pieces, uint32_t n)
{
	struct sr_work_items *all = ours();

	if (e->length > SR_GROUP_SOURCE - all->source_at && !sr_transfer_all())
		return false;
	if (atomic_load(&all->done) == atomic_load(&all->asked))
		all->source_at = 0;
	if (e->length > SR_GROUP_SOURCE) {
		all->source_at = SR_GROUP_SOURCE;
		e->source = SR_WORK_ITEM_FAR;
		lay_out_far(pieces, n);
		return true;
	}
	e->source = all->source_at;
	all->source_at += e->length;
	lay_out_near(all->source + e->source, pieces, n);
	return true;
}

void sr_transfer(const struct sr_transfer_by *by, struct sr_group_place to, const struct sr_piece *pieces,
	      uint32_t n)
{
	struct sr_work_item *e;
	uint32_t length = 0;

	if (!by) {
		for (uint32_t i = 0; i < n; i++)
			put(&to, &pieces[i]);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		length += pieces[i].length;
	e = new_work_item(by->channel, by->opcode, length);
	if (!e || !lay_out(e, pieces, n))
		return;
	e->remote_addr = by->remote_addr;
	e->imm_data = by->imm_data;
	e->arrives = by->arrives;
	e->to = to;
	ask(e);
}

void sr_transfer_read(struct sr_group_channel *c, uint64_t remote_addr, uint32_t length)
{
	struct sr_work_item *e = new_work_item(c, IBV_WR_RDMA_READ, length);

	if (!e)
		return;
	e->remote_addr = remote_addr;
	ask(e);
}

void sr_transfer_atomic(struct sr_group_channel *c, const struct sr_carried_atomic *a)
{
	struct sr_work_item *e = new_work_item(c, a->opcode, sizeof(uint64_t));

	if (!e)
		return;
	e->remote_addr = a->remote_addr;
	e->compare_add = a->compare_add;
	e->swap = a->swap;
	e->result = a->result;
	ask(e);
}

void sr_transfer_own(uint64_t addr, const void *bytes, uint32_t n)
{
	if (sr_group_over_device())
		sr_group_write_memory(sr_group_image_at(sr_group_self) + addr, bytes, n);
}
