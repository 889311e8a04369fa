/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/tsc_searched.h"

#include "logd/base/lock.h"

#define SEARCHED_MAX 1024

static struct sr_lock lock;

static struct searched {
	uintptr_t begin, end;
	uint64_t inode;
	enum sr_sought sought;
} searched[SEARCHED_MAX];

/* Those from `old_n` on are of the search that goes on. */
static uint32_t n, old_n;
static bool changed; /* since it began */

void sr_tsc_searched_begins(void)
{
	sr_lock(&lock);
	old_n = n;
	changed = false;
	sr_unlock(&lock);
}

bool sr_tsc_is_searched(enum sr_sought sought, uintptr_t begin, uintptr_t end, uint64_t inode)
{
	bool found = false;

	sr_lock(&lock);
	for (uint32_t i = 0; i < old_n && !found; i++)
		found = searched[i].begin == begin && searched[i].end == end && searched[i].inode == inode &&
			searched[i].sought == sought;
	sr_unlock(&lock);
	return found;
}

void sr_tsc_searched_add(enum sr_sought sought, uintptr_t begin, uintptr_t end, uint64_t inode)
{
	sr_lock(&lock);
	if (n < SEARCHED_MAX)
		searched[n++] = (struct searched){begin, end, inode, sought};
	sr_unlock(&lock);
}

void sr_tsc_searched_ends(bool kept)
{
	sr_lock(&lock);
	if (!kept || changed)
		n = old_n;
	old_n = n;
	sr_unlock(&lock);
}

void sr_tsc_searched_changes(uintptr_t begin, size_t size)
{
	uint32_t left = 0, left_old = 0;

	sr_lock(&lock);
	for (uint32_t i = 0; i < n; i++) {
		if (searched[i].begin < begin + size && begin < searched[i].end)
			continue;
		left_old += i < old_n;
		searched[left++] = searched[i];
	}
	n = left;
	old_n = left_old;
	changed = true;
	sr_unlock(&lock);
}
