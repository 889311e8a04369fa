/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/ids.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "replay/abi/control.h"
#include "shim/memory/heap.h"
#include "shim/core/thread.h"

bool sr_ids_differ;

/* Indexed by thread number. The first entry is the process's own. */
struct ids {
	_Atomic int32_t recorded, real;
};

static struct ids *all;
static _Atomic uint32_t count;

static struct ids *ids_of(uint32_t thread)
{
	uint32_t n = atomic_load(&count);

	if (!all || thread >= SR_REPLAY_THREADS)
		return NULL;
	while (n <= thread && !atomic_compare_exchange_weak(&count, &n, thread + 1))
		;
	return &all[thread];
}

void sr_ids_recorded(uint32_t thread, int32_t id)
{
	struct ids *ids = ids_of(thread);

	if (ids && id > 0)
		atomic_store_explicit(&ids->recorded, id, memory_order_relaxed);
}

void sr_ids_real(uint32_t thread, int32_t id)
{
	struct ids *ids = ids_of(thread);

	if (ids && id > 0)
		atomic_store_explicit(&ids->real, id, memory_order_relaxed);
}

void sr_ids_start(int32_t recorded_pid)
{
	if (!recorded_pid)
		return;
	all = sr_alloc_zeroed(SR_REPLAY_THREADS * sizeof(*all));
	sr_ids_differ = all != NULL;
	sr_ids_recorded(sr_self.number, recorded_pid);
	sr_ids_real(sr_self.number, (int32_t)sr_sys_getpid());
}

/*
 * The same id may belong to one thread in the recording and to another in the replay. So
 * the calling thread's ids are tried first, then those of the latest threads.
 */
static int32_t other(int32_t id, bool recorded)
{
	const struct ids *mine = ids_of(sr_self.number);

	if (!sr_ids_differ || id <= 0 || !mine)
		return id;
	if (id == (recorded ? mine->real : mine->recorded))
		return recorded ? mine->recorded : mine->real;
	if (id == (recorded ? mine->recorded : mine->real))
		return id;
	for (uint32_t n = atomic_load(&count); n--;) {
		const struct ids *i = &all[n];

		if (i->real && i->recorded && id == (recorded ? i->real : i->recorded))
			return recorded ? i->recorded : i->real;
	}
	return id;
}

int32_t sr_recorded_id(int32_t id)
{
	return other(id, true);
}

int32_t sr_real_id(int32_t id)
{
	return other(id, false);
}

/*
 * The kernel's encoding of a clock: the complement of the id, shifted by three bits. The
 * three bits have the value 3 for the clock of a descriptor.
 */
#define CLOCK_BITS 7
#define CLOCK_FD   3

int32_t sr_recorded_clock(int32_t clock)
{
	int32_t id = ~(clock >> 3);

	if (clock >= 0 || !id || (clock & CLOCK_BITS) == CLOCK_FD)
		return clock;
	return (int32_t)((uint32_t)~sr_recorded_id(id) << 3) | (clock & CLOCK_BITS);
}

static size_t put_number(char *to, int32_t number)
{
	char digits[12];
	size_t n = 0, size;

	do
		digits[n++] = (char)('0' + number % 10);
	while (number /= 10);
	size = n;
	while (n)
		*to++ = digits[--n];
	return size;
}

/* Other numbers, such as those of descriptors, may have the same value by chance. */
static bool ends_in_ids(const char *path, const char *end)
{
	const size_t n = 5;

	return (size_t)(end - path) >= n && (!memcmp(end - n, "/proc", n) || !memcmp(end - n, "/task", n));
}

/* path, as the recording had it.  Returns its length. */
static size_t with_recorded_ids(const char *path, char *to, size_t size)
{
	const char *const whole = path;
	size_t n = 0;

	while (*path) {
		char *end = NULL;
		long id = *path == '/' && ends_in_ids(whole, path) ? strtol(path + 1, &end, 10) : 0;

		to[n++] = *path++;
		if (id <= 0 || id > INT32_MAX || (*end && *end != '/') || n > size / 2)
			continue;
		n += put_number(to + n, sr_recorded_id((int32_t)id));
		path = end;
	}
	return n;
}

void sr_put_recorded_ids(struct sr_buf *b, size_t n)
{
	static const char proc[] = "/proc/";
	char path[128], room[2 * sizeof(path)];

	if (n >= sizeof(path) || n < sizeof(proc) - 1 || memcmp(b->p + b->len - n, proc, sizeof(proc) - 1))
		return;
	memcpy(path, b->p + b->len - n, n);
	path[n] = 0;
	b->len -= sizeof(uint32_t) + n;
	sr_put_bytes(b, room, with_recorded_ids(path, room, sizeof(room)));
}
