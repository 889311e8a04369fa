/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/regions.h"

#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <sreplay/trace.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/memory/heap.h"
#include "shim/core/hooks.h"
#include "logd/base/lock.h"
#include "shim/core/order.h"
#include "shim/verbs/own_memory.h"
#include "shim/threads/program_threads.h"
#include "shim/kernel/readable.h"
#include "shim/core/engine.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/exposed/x86/vector.h"

bool sr_regions_on;

static int compared_n; /* replay: regions that were compared */

static enum sr_regions_mode mode = SR_REGIONS_OFF;
static struct sr_exposed_hooks hooks;
/* 0 until the first region; then what the module's start came to. */
static int ready = 1;
static int claim_error;
static struct sr_lock starting;

/* ---------------------------------------------------------------- records */

/* The most that one event has: see shim/exposed/page/event.c. */
#define RECORD_MAX (2ul << 20)

struct writer {
	char *buf;
	size_t n;
};

static void put(struct writer *w, const void *p, size_t n)
{
	memcpy(w->buf + w->n, p, n);
	w->n += n;
}

static void put_value(struct writer *w, const struct sr_exposed_value *v)
{
	const struct sr_exposed_value_head head = {.addr = v->addr, .length = v->length};
	static const char zeros[8];

	put(w, &head, sizeof(head));
	put(w, v->data, v->length);
	put(w, zeros, -v->length & 7);
}

static void record_event(struct writer *w, const struct sr_exposed_event *e)
{
	const struct sr_exposed_payload head = {
	    .fault = (uint32_t)e->fault,
	    .flags = e->flags,
	    .site = e->pc,
	    .addr = e->addr,
	    .protected_pages = e->protected_n,
	    .values = e->values_n,
	};

	if (!w->buf) {
		void *p = sr_sys_mmap(sr_heap_place_mapping(RECORD_MAX), RECORD_MAX,
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (sr_sys_is_error(p))
			return;
		w->buf = p;
	}
	w->n = 0;
	put(w, &head, sizeof(head));
	for (uint32_t i = 0; i < e->protected_n; i++)
		put(w, &(uint64_t){e->protected[i]}, sizeof(uint64_t));
	for (uint32_t i = 0; i < e->values_n; i++)
		put_value(w, &e->values[i]);
	sr_engine_note(&sr_self, SR_REC_EXPOSED, w->buf, w->n);
}

/* Under the module's lock. */
static void record_exposed_event(const struct sr_exposed_event *e)
{
	static struct writer w;

	record_event(&w, e);
}

static void record_region(uint32_t what, const struct sr_exposed_region *w, uint32_t why)
{
	const struct sr_region_payload payload = {
	    .addr = (uintptr_t)w->addr,
	    .length = w->length,
	    .what = what,
	    .refusal = why,
	};

	sr_engine_note(&sr_self, SR_REC_REGION, &payload, sizeof(payload));
}

void sr_regions_record_counts(void)
{
	struct sr_exposed_counts c;
	struct sr_exposed_counts_payload payload;

	if (!sr_regions_on)
		return;
	sr_exposed_get_counts(&c);
	payload = (struct sr_exposed_counts_payload){
	    .faults = c.faults,
	    .loads = c.loads,
	    .polls = c.polls,
	    .snapshots = c.snapshots,
	    .stores = c.stores,
	    .exchanges = c.exchanges,
	    .pass_throughs = c.pass_throughs,
	    .protected_by_change = c.protected_by_change,
	    .ticks = c.ticks,
	    .async_values = c.async_values,
	    .unstable = c.unstable,
	    .jumps = c.jumps,
	    .by_jump = c.by_jump,
	};
	sr_engine_note(&sr_self, SR_REC_EXPOSED_COUNTS, &payload, sizeof(payload));
}

/* ------------------------------------------------------------------ start */

/* Within a call the program does nothing that it could wait for. */
static bool may_tick(void)
{
	return sr_self.depth == 0;
}

/* A site's handler asks as well, with the program's vectors. */
NO_VECTORS static bool threads(void)
{
	return sr_threaded;
}

/*
 * At the start, while no other thread can have the signal blocked; from then on
 * every thread is made with it open.
 */
static void claim_faults(void)
{
	if (mode == SR_REGIONS_PROTECT)
		claim_error = sr_signals_claim(SIGSEGV, sr_exposed_fault);
}

void sr_regions_start(enum sr_regions_mode m, bool patch)
{
	mode = m;
	hooks = (struct sr_exposed_hooks){
	    .event = record_exposed_event,
	    .looked = sr_clocks_look,
	    .storing = sr_clocks_store,
	    .threads = threads,
	    .is_its_own = sr_own_memory_is,
	    .may_tick = may_tick,
	    .patches = patch,
	};
	claim_faults();
}

void sr_regions_start_replay(const struct sr_exposed_hooks *of_replay)
{
	mode = SR_REGIONS_PROTECT;
	vector_start();
	hooks = *of_replay;
	hooks.threads = threads;
	hooks.may_tick = may_tick;
	claim_faults();
}

void sr_regions_mapping_ends(void *addr, size_t size)
{
	if (sr_regions_on && sr_exposed_touches(addr, size))
		sr_exposed_forget(addr, size);
}

static void before_fork(void)
{
	if (sr_regions_on)
		sr_exposed_before_fork();
}

static void after_fork_in_parent(void)
{
	if (sr_regions_on)
		sr_exposed_after_fork(false);
}

static void after_fork_in_child(void)
{
	if (sr_regions_on)
		sr_exposed_after_fork(true);
	sr_regions_on = false;
	mode = SR_REGIONS_OFF;
}

/* With the first region, so that all others have nothing of it. */
static bool is_ready(void)
{
	sr_lock(&starting);
	if (ready == 1) {
		ready = claim_error;
		if (!ready)
			ready = sr_exposed_init(&hooks);
		if (!ready)
			pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
		else
			sr_say("memory that peers write cannot be watched (error %d): it is "
			       "compared at each call",
			       -ready);
	}
	sr_unlock(&starting);
	return !ready;
}

/* --------------------------------------------------------------- compared */

/* The copy is what the replay has: what was there at the last return, or was recorded since. */
struct sr_compared {
	struct sr_compared *next;
	char *addr, *copy;
	size_t length, mapped;
};

static struct sr_compared *compared;
static struct sr_lock compared_lock;

#define PIECES_MAX  1024
#define PIECE_BYTES 1024 /* PIECES_MAX of them fit into a record */

static struct sr_compared *begin_compare(char *addr, size_t length)
{
	struct sr_compared *c = sr_alloc(sizeof(*c));
	size_t mapped = sr_page_up(length);
	void *copy;

	if (!c)
		return NULL;
	copy = sr_sys_mmap(sr_heap_place_mapping(mapped), mapped, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sr_sys_is_error(copy)) {
		sr_free(c);
		return NULL;
	}
	memcpy(copy, addr, length);
	*c = (struct sr_compared){.addr = addr, .copy = copy, .length = length, .mapped = mapped};
	sr_lock(&compared_lock);
	c->next = compared;
	compared = c;
	sr_unlock(&compared_lock);
	return c;
}

/* With its lock held. */
static void hand_over(struct sr_exposed_event *e)
{
	static struct writer w;

	if (e->values_n) {
		sr_clocks_look();
		record_event(&w, e);
	}
	e->values_n = 0;
}

static void compare(struct sr_compared *c, struct sr_exposed_event *e,
		    struct sr_exposed_value *values)
{
	for (size_t at = 0, n; at < c->length; at += n) {
		n = c->length - at < PIECE_BYTES ? c->length - at : PIECE_BYTES;
		if (!memcmp(c->copy + at, c->addr + at, n))
			continue;
		/* The copy is what is recorded: the memory may go on changing. */
		memcpy(c->copy + at, c->addr + at, n);
		values[e->values_n++] = (struct sr_exposed_value){
		    .addr = (uintptr_t)c->addr + at,
		    .length = (uint32_t)n,
		    .data = c->copy + at,
		};
		if (e->values_n == PIECES_MAX)
			hand_over(e);
	}
}

static void compare_all(uint32_t where)
{
	static struct sr_exposed_value values[PIECES_MAX];
	struct sr_exposed_event e = {
	    .fault = where & SR_EXPOSED_AT_CALL ? sr_exposed_faults() : 0,
	    .flags = where | SR_EXPOSED_ASYNC,
	    .values = values,
	};

	if (!compared)
		return;
	sr_lock(&compared_lock);
	for (struct sr_compared *c = compared; c; c = c->next)
		compare(c, &e, values);
	hand_over(&e);
	sr_unlock(&compared_lock);
}

static void end_compare(struct sr_compared *c)
{
	struct sr_compared **link;

	sr_lock(&compared_lock);
	for (link = &compared; *link != c; link = &(*link)->next)
		;
	*link = c->next;
	sr_unlock(&compared_lock);
	sr_sys_munmap(c->copy, c->mapped);
	sr_free(c);
}

/* ----------------------------------------------------------- registration */

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* What the verbs libraries register for themselves is not the program's to see. */
static bool is_a_librarys(const void *addr)
{
	return (uintptr_t)addr >= SR_LIBRARY_ARENA && (uintptr_t)addr < SR_STACKS;
}

void sr_regions_compare(struct sr_exposed_region *w, void *addr, size_t length,
			enum sr_exposed_refusal why)
{
	*w = (struct sr_exposed_region){.addr = addr, .length = length};
	sr_own_memory_registered(addr, length);
	/* Not memory of the CPU's, or all of it: nothing can be compared. */
	if (why != SR_EXPOSED_REFUSED_UNMAPPED)
		w->compared = begin_compare(addr, length);
	record_region(SR_REGION_ADDED, w, why);
	sr_regions_on = true;
}

void sr_regions_add(struct sr_exposed_region *w, void *addr, size_t length, int access)
{
	enum sr_exposed_refusal refusal = SR_EXPOSED_REFUSED_BY_USER;

	*w = (struct sr_exposed_region){0};
	if (mode == SR_REGIONS_OFF || !length || is_a_librarys(addr))
		return;
	if (!(access & REMOTE) && !(sr_regions_on && sr_exposed_touches(addr, length))) {
		sr_own_memory_registered(addr, length);
		return;
	}
	if (mode == SR_REGIONS_PROTECT)
		refusal = is_ready() ? sr_exposed_add(addr, length) : SR_EXPOSED_REFUSED_BY_KERNEL;
	if (refusal) {
		sr_regions_compare(w, addr, length, refusal);
		return;
	}
	*w = (struct sr_exposed_region){.addr = addr, .length = length, .frozen = true};
	/* The device follows what is mapped there later. */
	if (access & IBV_ACCESS_ON_DEMAND)
		sr_own_memory_registered(addr, length);
	record_region(SR_REGION_ADDED, w, 0);
	sr_regions_on = true;
}

void sr_regions_drop(struct sr_exposed_region *w)
{
	if (!w->addr)
		return;
	if (w->frozen)
		sr_exposed_remove(w->addr, w->length);
	if (w->compared)
		end_compare(w->compared);
	record_region(SR_REGION_REMOVED, w, !w->frozen);
	w->addr = NULL;
}

bool sr_regions_replay_region(const struct sr_region_payload *region)
{
	void *addr = (void *)(uintptr_t)region->addr;

	sr_regions_on = true;
	if (!is_ready())
		return false;
	/* What is compared changes with calls, or when the program waits for it. */
	if (region->refusal) {
		compared_n += region->what == SR_REGION_ADDED ? 1 : -1;
		sr_exposed_await_values(compared_n > 0);
		return true;
	}
	if (region->what == SR_REGION_ADDED)
		return sr_exposed_add(addr, region->length) == SR_EXPOSED_OK;
	sr_exposed_remove(addr, region->length);
	return true;
}

/* ------------------------------------------------------------------ calls */

/* Of a pointer to one thing, to a path, and of one of several things: at most. */
#define STRUCT_BYTES 512
#define TEXT_BYTES   4096
#define THING_BYTES  16
/* The kernel takes no more in one call. */
#define PIECES_LIMIT 1024
#define LENGTH_LIMIT (1ul << 40)

static bool has_room(struct sr_pinned *p)
{
	struct iovec *more;

	if (p->n < p->room)
		return true;
	more = sr_alloc(2 * p->room * sizeof(*more));
	if (!more)
		return false;
	memcpy(more, p->pieces, p->n * sizeof(*more));
	if (p->pieces != p->few)
		sr_free(p->pieces);
	p->pieces = more;
	p->room *= 2;
	return true;
}

/* Not opened, which other threads would see. */
static bool alias(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	void *addr = sr_exposed_alias((void *)*argument, length);

	if (!addr)
		return false;
	p->pieces[p->n++] = (struct iovec){addr, length};
	*argument = (uintptr_t)addr;
	return true;
}

static void pin(struct sr_pinned *p, const void *addr, size_t length)
{
	if (!addr || length >= LENGTH_LIMIT || !sr_exposed_touches(addr, length) || !has_room(p))
		return;
	p->pieces[p->n++] = (struct iovec){(void *)addr, length};
	sr_exposed_pin(addr, length);
}

/* What is about to be followed must be there: the kernel would say EFAULT. */
static bool pin_list(struct sr_pinned *p, const void *list, size_t n, size_t size)
{
	if (!list || n > PIECES_LIMIT || !sr_is_readable(list, n * size))
		return false;
	pin(p, list, n * size);
	return true;
}

static void pin_pieces(struct sr_pinned *p, const struct iovec *pieces, size_t n)
{
	if (!pin_list(p, pieces, n, sizeof(*pieces)))
		return;
	for (size_t i = 0; i < n; i++)
		pin(p, pieces[i].iov_base, pieces[i].iov_len);
}

static void pin_message(struct sr_pinned *p, const struct msghdr *m)
{
	if (!pin_list(p, m, 1, sizeof(*m)))
		return;
	pin(p, m->msg_name, m->msg_namelen);
	pin(p, m->msg_control, m->msg_controllen);
	pin_pieces(p, m->msg_iov, m->msg_iovlen);
}

static void pin_messages(struct sr_pinned *p, const struct mmsghdr *m, size_t n)
{
	if (!pin_list(p, m, n, sizeof(*m)))
		return;
	for (size_t i = 0; i < n; i++)
		pin_message(p, &m[i].msg_hdr);
}

/* With its end, as far as it is in an exposed region. */
static size_t text_length(const char *text)
{
	char piece[64];
	size_t n = 0, at;

	while (n < TEXT_BYTES && sr_exposed_covers(text + n, 1)) {
		size_t room = sizeof(piece) - (uintptr_t)(text + n) % sizeof(piece);

		sr_exposed_copy(text + n, piece, room);
		at = strnlen(piece, room);
		n += at;
		if (at < room)
			return n + 1;
	}
	return TEXT_BYTES;
}

static void pin_thing(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	const void *addr = (const void *)*argument;

	if (!addr || length >= LENGTH_LIMIT || !sr_exposed_touches(addr, length) || !has_room(p))
		return;
	if (!alias(p, argument, length))
		pin(p, addr, length);
}

static void pin_argument(struct sr_pinned *p, uint8_t length_of, uint8_t size, uint64_t *a, int i)
{
	const void *addr = (const void *)a[i];

	switch (length_of) {
	case 0:
		break;
	case SR_LENGTH_STRUCT:
		pin_thing(p, &a[i], size ? size : STRUCT_BYTES);
		break;
	case SR_LENGTH_TEXT:
		if (addr && sr_exposed_touches(addr, TEXT_BYTES))
			pin_thing(p, &a[i], text_length(addr));
		break;
	case SR_LENGTH_PIECES:
		pin_pieces(p, addr, a[i + 1]);
		break;
	case SR_LENGTH_MESSAGE:
		pin_message(p, addr);
		break;
	case SR_LENGTH_MESSAGES:
		pin_messages(p, addr, a[i + 1]);
		break;
	default:
		if (length_of > SR_LENGTH_COUNT)
			pin_thing(p, &a[i],
				  (size_t)(uint32_t)a[length_of - SR_LENGTH_COUNT - 1] *
				      (size ? size : THING_BYTES));
		else
			pin_thing(p, &a[i], a[length_of - 1]);
	}
}

static void pin_nothing(struct sr_pinned *p)
{
	p->n = 0;
	p->pieces = p->few;
	p->room = sizeof(p->few) / sizeof(p->few[0]);
	p->arguments = NULL;
	p->arguments_n = 0;
	p->wakes = false;
}

void sr_regions_pin(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p)
{
	pin_nothing(p);
	p->arguments = a;
	p->arguments_n = d->nargs;
	p->wakes = d->when == sr_has_threads && !(d->flags & SR_CALL_BLOCKS);
	for (int i = 0; i < d->nargs; i++)
		pin_argument(p, d->length_of[i], d->size_of[i], a, i);
}

/* A buffer's length stands behind it. */
void sr_regions_pin_words(const uint64_t a[6], struct sr_pinned *p)
{
	pin_nothing(p);
	for (int i = 0; i < 6; i++)
		pin(p, (const void *)a[i],
		    i < 5 && a[i + 1] > STRUCT_BYTES && a[i + 1] < 1ul << 30 ? a[i + 1]
									      : STRUCT_BYTES);
}

/* Who went to sleep there before it was a exposed region's does so at the program's address. */
static void wake_at(uintptr_t addr, size_t length)
{
	for (size_t at = 0; at + sizeof(uint32_t) <= length; at += sizeof(uint32_t))
		sr_sys_futex((uint32_t *)(addr + at), FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void end_alias(struct sr_pinned *p, const struct iovec *piece)
{
	uintptr_t addr = (uintptr_t)sr_exposed_unalias(piece->iov_base, piece->iov_len);

	for (uint32_t i = 0; i < p->arguments_n; i++)
		if (p->arguments[i] == (uintptr_t)piece->iov_base)
			p->arguments[i] = addr;
	if (p->wakes)
		wake_at(addr, piece->iov_len);
}

void sr_regions_unpin(struct sr_pinned *p)
{
	if (!p->n)
		return;
	while (p->n--) {
		const struct iovec *piece = &p->pieces[p->n];

		if (sr_exposed_is_alias(piece->iov_base))
			end_alias(p, piece);
		else
			sr_exposed_unpin(piece->iov_base, piece->iov_len);
	}
	p->n = 0;
	if (p->pieces != p->few)
		sr_free(p->pieces);
}

void sr_regions_call_begins(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p)
{
	sr_exposed_call_begins();
	compare_all(SR_EXPOSED_AT_CALL);
	sr_regions_pin(d, a, p);
}

void sr_regions_call_ends(struct sr_pinned *p)
{
	sr_regions_unpin(p);
	sr_exposed_call_ends();
	compare_all(SR_EXPOSED_AT_RETURN);
}

const void *sr_regions_sent(const void *p, size_t length)
{
	if (!sr_regions_on || !length || !sr_exposed_covers(p, length))
		return p;
	return sr_exposed_gather(p, length);
}
