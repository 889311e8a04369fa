/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/compared.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/memory/room.h"
#include "shim/threads/main_stack.h"
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

#define PIECES_MAX  256
#define PIECE_BYTES 1024 /* PIECES_MAX of them fit into a record */
/* So much is read by one system call. */
#define CHUNK_BYTES (16ul << 10)
static char *chunk; /* compared_lock guards what is in it */

struct sr_compared *sr_compared_begin(char *addr, size_t length)
{
	struct sr_compared *c = sr_alloc(sizeof(*c));
	size_t mapped = sr_page_up(length);
	void *copy;

	if (!chunk)
		chunk = sr_alloc(CHUNK_BYTES);
	if (!c || !chunk) {
		sr_free(c);
		return NULL;
	}
	copy = sr_map_zeroed(mapped);
	if (!copy) {
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

void sr_compared_all_anew(struct sr_compared *c)
{
	sr_lock(&compared_lock);
	for (size_t i = 0; i < c->length; i++)
		c->copy[i] = (char)~c->copy[i];
	sr_unlock(&compared_lock);
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

/* The kernel reads, because the memory may have been unmapped in ways that nobody intercepts. */
static bool read_now(char *to, const char *from, size_t n)
{
	struct iovec here = {to, n}, there = {(void *)from, n};
	long got = sr_syscall(SYS_process_vm_readv, sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
			      SR_ARG(&here), 1, SR_ARG(&there), 1, 0);

	if (got == (long)n)
		return true;
	/* The program's access to an exposed page faults, and so does the kernel's. */
	if (got != -ENOSYS && !sr_exposed_touches(from, n))
		return false;
	memcpy(to, from, n);
	return true;
}

/* now: what is at this offset; the records have the copy, since the memory may go on changing. */
static void compare_chunk(struct sr_compared *c, size_t offset, const char *now, size_t size,
			  struct sr_exposed_event *e, struct sr_exposed_value *values)
{
	for (size_t at = 0, n; at < size; at += n) {
		char *copy = c->copy + offset + at;

		n = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
		if (!memcmp(copy, now + at, n))
			continue;
		memcpy(copy, now + at, n);
		values[e->values_n++] = (struct sr_exposed_value){
		    .kept = true,
		    .addr = (uintptr_t)c->addr + offset + at,
		    .length = (uint32_t)n,
		    .data = copy,
		};
		if (e->values_n == PIECES_MAX)
			hand_over(e);
	}
}

/* From which offset on the region is the program's now. */
static size_t first_of(const struct sr_compared *c, uintptr_t stack)
{
	if (!sr_is_on_main_stack((uintptr_t)c->addr))
		return 0;
	if (sr_self.number || stack > (uintptr_t)c->addr + c->length)
		return c->length;
	return stack > (uintptr_t)c->addr ? stack - (uintptr_t)c->addr : 0;
}

static void compare(struct sr_compared *c, uintptr_t stack, struct sr_exposed_event *e,
		    struct sr_exposed_value *values)
{
	for (size_t at = first_of(c, stack), n; at < c->length; at += n) {
		n = c->length - at < CHUNK_BYTES ? c->length - at : CHUNK_BYTES;
		if (!read_now(chunk, c->addr + at, n)) {
			/* It is no memory any more from there on, or a little before. */
			c->length = at;
			return;
		}
		compare_chunk(c, at, chunk, n, e, values);
	}
}

void sr_compared_all(uint32_t where, uintptr_t stack)
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
		compare(c, stack, &e, values);
	hand_over(&e);
	sr_unlock(&compared_lock);
}

/* The part of it that the program keeps stays registered; what lies behind the gap is compared no
 * more. */
void sr_compared_forget(const char *addr, size_t length)
{
	if (!compared)
		return;
	sr_lock(&compared_lock);
	for (struct sr_compared *c = compared; c; c = c->next)
		if (addr < c->addr + c->length && c->addr < addr + length)
			c->length = addr > c->addr ? (size_t)(addr - c->addr) : 0;
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
