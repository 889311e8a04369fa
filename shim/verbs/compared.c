/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/compared.h"

#include <string.h>
#include <sys/mman.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/region_records.h"

/* The copy equals the replay's memory: the contents at the last return, or as recorded since. */
struct sr_compared {
	struct sr_compared *next;
	char *addr, *copy;
	size_t length, mapped;
};

static struct sr_compared *compared;

NO_VECTORS bool sr_compared_any(void)
{
	return compared;
}
static struct sr_lock compared_lock;

#define PIECES_MAX  1024
#define PIECE_BYTES 1024 /* PIECES_MAX of them fit into a record */

struct sr_compared *sr_compared_begin(char *addr, size_t length)
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

/* Called with compared_lock held. */
static void hand_over(struct sr_exposed_event *e)
{
	static struct sr_event_writer w;

	if (e->values_n) {
		sr_clocks_sample();
		sr_record_exposed_event(&w, e);
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
		/* Records the copy, since the memory may go on changing. */
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

void sr_compared_all(uint32_t where)
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

void sr_compared_end(struct sr_compared *c)
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
