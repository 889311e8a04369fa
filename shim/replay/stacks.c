/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/stacks.h"

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "replay/abi/stacks.h"
#include "shim/core/stack.h"

#define PLACES 1024 /* sites of threads whose last stack is remembered */
#define NAMES  4096 /* stacks that are remembered as named */

static struct {
	int fd;
	struct sr_lock lock;
	struct place {
		uint64_t site, hash, frame;
		uint32_t thread;
	} places[PLACES];
	uint64_t names[NAMES];
} self = {.fd = -1};

void sr_stacks_start(int fd)
{
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

static void write_note(const struct sr_thread *t, uint64_t fault, uint64_t site, const struct sr_stack *s)
{
	struct {
		struct sr_stack_note note;
		uint64_t frames[SR_STACK_FRAMES];
	} r = {.note = {.sn = t->sn, .site = site, .hash = s->hash, .code = sr_stack_place(site), .thread = t->number, .fault = (uint32_t)fault}};

	if (!is_named(s->hash))
		r.note.frames = s->n;
	for (uint32_t i = 0; i < r.note.frames; i++)
		r.frames[i] = s->frames[i];
	sr_syscall(SYS_write, self.fd, SR_ARG(&r), (long)(sizeof(r.note) + r.note.frames * sizeof(uint64_t)), 0, 0, 0);
}

static void note(const struct sr_thread *t, uint64_t fault, uint64_t site, uint64_t frame)
{
	struct place *p = place_of(t->number, site);
	struct sr_stack s;

	if (frame && p->site == site && p->thread == t->number && p->frame == frame)
		return;
	sr_stack_take(&s, site);
	if (!s.hash)
		return;
	sr_lock(&self.lock);
	if (p->site != site || p->thread != t->number || p->hash != s.hash)
		write_note(t, fault, site, &s);
	*p = (struct place){site, s.hash, frame, t->number};
	sr_unlock(&self.lock);
}

/* Loops poll: one from the same depth of the stack has the same callers, most likely. */
static bool is_poll(enum sr_call_number n)
{
	return n == SR_CALL_poll_cq || n == SR_CALL_start_poll || n == SR_CALL_next_poll || n == SR_CALL_end_poll;
}

void sr_stacks_call(const struct sr_thread *t, enum sr_call_number n, void *site)
{
	if (self.fd >= 0)
		note(t, 0, (uintptr_t)site, is_poll(n) ? (uintptr_t)__builtin_frame_address(0) : 0);
}

void sr_stacks_load(const struct sr_thread *t, uint64_t fault, uint64_t pc)
{
	if (self.fd >= 0)
		note(t, fault, pc, 0);
}
