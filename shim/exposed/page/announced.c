/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/announced.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <time.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/page.h"
#include "shim/exposed/page/thread.h"

struct announced *announced;

static long own_pid(void)
{
	return sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* No other process of this number has had the same. */
static uint64_t make_id(void)
{
	struct timespec now = {0};

	sr_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, SR_ARG(&now), 0, 0, 0, 0);
	return ((uint64_t)own_pid() << 42 ^ ((uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec)) | 1;
}

void announced_init(int fd)
{
	void *p = sr_sys_mmap((void *)ANNOUNCED_BASE, ANNOUNCED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			      (off_t)ZONES_BYTES);

	if (sr_sys_is_error(p))
		return;
	announced = p;
	announced->head.fd = fd;
	atomic_thread_fence(memory_order_release);
	announced->head.id = make_id();
}

void announced_forget(void)
{
	if (announced)
		sr_sys_munmap(announced, ANNOUNCED_BYTES);
	announced = NULL;
}

static bool is_gone(const struct announced_slot *s)
{
	return sr_syscall(SYS_kill, s->writer, 0, 0, 0, 0, 0) == -ESRCH;
}

/* A writer makes one system call.  One that is stopped, or dead and not waited for, must not hold up this process. */
#define LOOK_NS 10000000
#define LOOKS	200

/* Until it is written: the writer has its turn now, or has begun without one.  False: it was given up. */
static bool await_writer(struct announced_slot *s)
{
	const struct timespec look = {0, LOOK_NS};
	uint32_t state;

	for (int looks = 0; (state = atomic_load(&s->state)) != ANNOUNCED_WRITTEN; looks++) {
		if (looks >= LOOKS && atomic_compare_exchange_strong(&s->state, &state, ANNOUNCED_GIVEN_UP))
			return false;
		sr_sys_futex((uint32_t *)&s->state, FUTEX_WAIT, state, &look);
		if (atomic_load(&s->state) == state && is_gone(s))
			break;
	}
	return true;
}

/* The kernel reads, since the program may have unmapped it meanwhile. */
static bool read_own(uintptr_t addr, void *to, size_t n)
{
	struct iovec here = {to, n}, there = {(void *)addr, n};

	return sr_syscall(SYS_process_vm_readv, own_pid(), SR_ARG(&here), 1, SR_ARG(&there), 1, 0) == (long)n;
}

/* Of an exposed page a load finds it. */
static void take_piece(uintptr_t begin, uintptr_t end)
{
	static char now[PAGE];

	for (uintptr_t at = begin, to; at < end; at = to) {
		to = (at & PAGE_MASK) + PAGE < end ? (at & PAGE_MASK) + PAGE : end;
		if (!page_is_exposed(at) && read_own(at, now, to - at))
			event_written(at, now, (uint32_t)(to - at));
	}
}

static void take_slot(struct announced_slot *s)
{
	if (!await_writer(s)) {
		atomic_fetch_sub(&announced->pending, 1);
		return;
	}
	for (uint32_t i = 0; i < s->n && i < ANNOUNCED_PIECES; i++)
		take_piece((uintptr_t)s->pieces[i].iov_base, (uintptr_t)s->pieces[i].iov_base + s->pieces[i].iov_len);
	atomic_fetch_sub(&announced->pending, 1);
	atomic_store(&s->state, ANNOUNCED_FREE);
}

/* False: it does not wait, or no longer. */
static bool grant(struct announced_slot *s)
{
	uint32_t asked = ANNOUNCED_ASKED;

	if (!atomic_compare_exchange_strong(&s->state, &asked, ANNOUNCED_GRANTED))
		return false;
	sr_sys_futex((uint32_t *)&s->state, FUTEX_WAKE, 1, NULL);
	return true;
}

static bool is_late(struct announced_slot *s)
{
	uint32_t state = atomic_load(&s->state);

	return state == ANNOUNCED_FORCED || state == ANNOUNCED_WRITTEN;
}

/* announced is NULL where nothing is. */
static void take_those(bool (*may_be_taken)(struct announced_slot *s))
{
	for (uint32_t i = 0; announced_any() && i < ANNOUNCED_SLOTS; i++)
		if (may_be_taken(&announced->slots[i]))
			take_slot(&announced->slots[i]);
}

void announced_take(void)
{
	take_those(grant);
}

void announced_take_late(void)
{
	take_those(is_late);
}

void announced_late_event(void)
{
	if (!announced_any())
		return;
	event_begin(exposed_self.fault, SR_EXPOSED_TICK | SR_EXPOSED_ASYNC, 0, 0);
	announced_take_late();
	event_end();
}
