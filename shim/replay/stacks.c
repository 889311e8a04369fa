/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/stacks.h"

#include <string.h>
#include <sys/mman.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "replay/abi/stacks.h"
#include "shim/core/call_stack.h"
#include "shim/core/stack.h"
#include "shim/memory/heap.h"

#define PLACES 512  /* sites of threads whose last stack is remembered */
#define NAMES  4096 /* stacks, sites and libraries that are remembered as named */
#define LIBRARY_PATH 512 /* longer ones are not told */

static struct {
	int fd;
	struct sr_lock lock;
	struct place {
		uint64_t site, frame;
		uint32_t thread;
		struct sr_stack stack;
	} * places;
	uint64_t *names;
} self = {.fd = -1};

/* The library's image has to stay small (tests/unit/shim/image.py). */
static void *map(size_t size)
{
	void *p = sr_sys_mmap(sr_heap_place_mapping(size), size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sr_sys_is_error(p) ? NULL : p;
}

void sr_stacks_start(int fd)
{
	self.places = map(sr_page_up(PLACES * sizeof(*self.places)));
	self.names = map(sr_page_up(NAMES * sizeof(*self.names)));
	if (self.places && self.names)
		self.fd = fd;
}

static struct place *place_of(uint32_t thread, uint64_t site)
{
	return &self.places[(site * 0x9e3779b97f4a7c15ull >> 32 ^ thread) % PLACES];
}

static bool is_named(uint64_t hash)
{
	uint64_t *name = &self.names[hash % NAMES];
	bool was = *name == hash;

	*name = hash;
	return was;
}

/* Of a library that is loaded later the trace has no name. */
static void write_library(uint64_t address)
{
	struct {
		struct sr_stack_object object;
		char path[LIBRARY_PATH];
	} r = {0};
	const char *path = sr_stack_library(address, &r.object.begin, &r.object.end);
	const size_t n = path ? strlen(path) : 0;

	/* By the number of its first page: addresses of pages are alike. */
	if (!n || n > sizeof(r.path) || is_named(r.object.begin / PAGE))
		return;
	r.object.path = (uint32_t)n;
	memcpy(r.path, path, n);
	sr_syscall(SYS_write, self.fd, SR_ARG(&r), (long)(sizeof(r.object) + n), 0, 0, 0);
}

static void write_note(const struct sr_thread *t, uint64_t fault, uint64_t site,
		       const struct sr_stack *s)
{
	struct {
		struct sr_stack_note note;
		uint64_t frames[SR_STACK_FRAMES];
	} r = {.note = {.sn = t->sn,
			.site = site,
			.hash = s->hash,
			.code = sr_stack_place(site),
			.thread = t->number,
			.fault = (uint32_t)fault}};

	if (!is_named(s->hash))
		r.note.frames = s->n;
	for (uint32_t i = 0; i < r.note.frames; i++) {
		write_library(s->frames[i]);
		r.frames[i] = s->frames[i];
	}
	sr_syscall(SYS_write, self.fd, SR_ARG(&r),
		   (long)(sizeof(r.note) + r.note.frames * sizeof(uint64_t)), 0, 0, 0);
}

/* frame: where the stack pointer is; 0: not known. */
static void note(const struct sr_thread *t, uint64_t fault, uint64_t site, uint64_t frame)
{
	struct place *p = place_of(t->number, site);
	struct sr_stack s;
	bool is_known;

	sr_lock(&self.lock);
	is_known = frame && p->site == site && p->thread == t->number && p->frame == frame &&
		   sr_stack_is_same(&p->stack);
	sr_unlock(&self.lock);
	if (is_known)
		return;
	sr_stack_take(&s, site);
	if (!s.hash)
		return;
	sr_lock(&self.lock);
	if (p->site != site || p->thread != t->number || p->stack.hash != s.hash)
		write_note(t, fault, site, &s);
	*p = (struct place){site, frame, t->number, s};
	sr_unlock(&self.lock);
}

/* May it post, receive or deregister something?  Of other calls only the place is told: polls are most of a program's calls. */
static bool may_access(const struct sr_call_desc *d)
{
	return !(d->order & SR_ORDER_IDLE) && d->source != SR_SOURCE_LIBC && d->source != SR_SOURCE_KERNEL && d->source != SR_SOURCE_SHIM;
}

static void note_place(const struct sr_thread *t, uint64_t site)
{
	struct place *p = place_of(t->number, site);
	bool is_known;

	sr_lock(&self.lock);
	is_known = p->site == site && p->thread == t->number;
	if (!is_known)
		*p = (struct place){.site = site, .thread = t->number};
	sr_unlock(&self.lock);
	if (!is_known)
		sr_stacks_code(site);
}

void sr_stacks_call(const struct sr_thread *t, const struct sr_call_desc *d, void *site)
{
	if (self.fd < 0)
		return;
	if (may_access(d))
		note(t, 0, (uintptr_t)site, sr_end_of_callers_stack(&t->signals.stack, (uintptr_t)__builtin_frame_address(0)));
	else
		note_place(t, (uintptr_t)site);
}

void sr_stacks_load(const struct sr_thread *t, uint64_t fault, uint64_t pc)
{
	if (self.fd >= 0)
		note(t, fault, pc, 0); /* the handler's frame says nothing of the program's stack */
}

/* Only where this code is. */
void sr_stacks_code(uint64_t pc)
{
	struct sr_stack_note n = {.site = pc};

	if (self.fd < 0)
		return;
	n.code = sr_stack_place(pc);
	sr_lock(&self.lock);
	if (!is_named(n.code)) {
		write_library(pc);
		sr_syscall(SYS_write, self.fd, SR_ARG(&n), sizeof(n), 0, 0, 0);
	}
	sr_unlock(&self.lock);
}
