/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/watch.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "replay/abi/watch.h"
#include "shim/exposed/exposed.h"
#include "shim/memory/heap.h"
#include "shim/verbs/objects.h"

struct watched {
	uint64_t address;
	bool is_there;  /* registered: the program can access it */
	bool has_copy;
	char *copy;
};

static struct {
	int fd;
	struct watched *pages; /* ascending */
	uint64_t n, changes;
	struct sr_lock lock;
} watch = {.fd = -1};

static void *map(size_t bytes)
{
	void *p = sr_sys_mmap(sr_heap_place_mapping(bytes), bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sr_sys_is_error(p) ? NULL : p;
}

static bool read_at(void *p, size_t size, uint64_t offset)
{
	return sr_syscall(SYS_pread64, watch.fd, SR_ARG(p), (long)size, (long)offset, 0, 0) == (long)size;
}

bool sr_watch_start(int fd)
{
	struct sr_watch_head head;
	char *copies;

	watch.fd = fd;
	if (!read_at(&head, sizeof(head), 0))
		return false;
	/* Then only stacks are asked for. */
	if (!head.pages) {
		watch.fd = -1;
		return true;
	}
	watch.pages = map((head.pages * sizeof(*watch.pages) + SR_WATCH_PAGE - 1) & ~(size_t)(SR_WATCH_PAGE - 1));
	copies = map(head.pages * SR_WATCH_PAGE);
	if (!watch.pages || !copies)
		return false;
	for (uint64_t i = 0; i < head.pages; i++) {
		if (!read_at(&watch.pages[i].address, sizeof(uint64_t), sizeof(head) + i * sizeof(uint64_t)))
			return false;
		watch.pages[i].copy = copies + i * SR_WATCH_PAGE;
	}
	watch.n = head.pages;
	watch.changes = UINT64_MAX;
	return true;
}

/* Pages come and go with the memory regions that they are in. */
static void find_pages(void)
{
	uint64_t changes = sr_mr_changes();

	if (changes == watch.changes)
		return;
	watch.changes = changes;
	for (uint64_t i = 0; i < watch.n; i++) {
		struct watched *p = &watch.pages[i];

		p->is_there = sr_mr_has_page((void *)p->address, SR_WATCH_PAGE);
		p->has_copy &= p->is_there;
	}
}

static const char *bytes_of(const struct watched *p)
{
	return sr_exposed_backing((void *)p->address);
}

static void report(const struct sr_thread *t, uint32_t fault, uint64_t address, size_t length)
{
	const struct sr_watch_store s = {.sn = t->sn,
					 .address = address,
					 .thread = t->number,
					 .length = (uint32_t)length,
					 .fault = fault};

	sr_syscall(SYS_write, watch.fd, SR_ARG(&s), sizeof(s), 0, 0, 0);
}

/* Each run of bytes that differ is a store. */
static void compare(const struct sr_thread *t, uint32_t fault, struct watched *p)
{
	const char *now = bytes_of(p);
	size_t begin, end;

	for (size_t i = 0; i < SR_WATCH_PAGE; i = end) {
		for (begin = i; begin < SR_WATCH_PAGE && now[begin] == p->copy[begin]; begin++)
			;
		for (end = begin; end < SR_WATCH_PAGE && now[end] != p->copy[end]; end++)
			p->copy[end] = now[end];
		if (end > begin)
			report(t, fault, p->address + begin, end - begin);
	}
}

static void compare_all(const struct sr_thread *t, uint32_t fault)
{
	for (uint64_t i = 0; i < watch.n; i++) {
		struct watched *p = &watch.pages[i];

		if (p->has_copy && memcmp(bytes_of(p), p->copy, SR_WATCH_PAGE))
			compare(t, fault, p);
	}
}

void sr_watch_call_begins(const struct sr_thread *t)
{
	if (watch.fd < 0)
		return;
	sr_lock(&watch.lock);
	compare_all(t, 0);
	sr_unlock(&watch.lock);
}

void sr_watch_call_ends(void)
{
	if (watch.fd < 0)
		return;
	sr_lock(&watch.lock);
	find_pages();
	for (uint64_t i = 0; i < watch.n; i++) {
		struct watched *p = &watch.pages[i];

		if (!p->is_there)
			continue;
		if (!p->has_copy || memcmp(bytes_of(p), p->copy, SR_WATCH_PAGE))
			memcpy(p->copy, bytes_of(p), SR_WATCH_PAGE);
		p->has_copy = true;
	}
	sr_unlock(&watch.lock);
}

/* A value lies within one page. */
static void take_value(const struct sr_exposed_value *v)
{
	uint64_t page = v->addr & ~(uint64_t)(SR_WATCH_PAGE - 1), low = 0, high = watch.n;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (watch.pages[middle].address < page)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < watch.n && watch.pages[low].address == page && watch.pages[low].has_copy)
		memcpy(watch.pages[low].copy + (v->addr - page), v->data, v->length);
}

void sr_watch_values(const struct sr_thread *t, const struct sr_exposed_event *e)
{
	if (watch.fd < 0)
		return;
	sr_lock(&watch.lock);
	/* At a call all has been compared already. */
	if (e->fault && !(e->flags & (SR_EXPOSED_AT_CALL | SR_EXPOSED_AT_RETURN)))
		compare_all(t, (uint32_t)e->fault);
	for (uint32_t i = 0; i < e->values_n; i++)
		take_value(&e->values[i]);
	sr_unlock(&watch.lock);
}
