/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/waits.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/exposed.h"
#include "shim/kernel/readable.h"

void (*sr_waits_each_thread)(void (*f)(struct sr_thread *t, void *argument), void *argument);

static size_t length_of(const struct sr_call_desc *d, int i)
{
	return d->length_of[i] != SR_LENGTH_STRUCT ? 0 : d->size_of[i] ? d->size_of[i] : SR_STRUCT_BYTES;
}

_Atomic bool sr_waits_coming;

/* What is about to be exposed, in one range that has all of it. */
static struct {
	struct sr_lock lock;
	uint32_t n;
	_Atomic uintptr_t begin, end;
} coming;

static bool is_coming(uintptr_t addr, size_t length)
{
	return atomic_load(&sr_waits_coming) && addr < atomic_load(&coming.end) && atomic_load(&coming.begin) < addr + length;
}

/* Exposed, or about to be. */
static bool is_exposed(uintptr_t addr, size_t length)
{
	return length && addr && (is_coming(addr, length) || sr_exposed_touches((void *)addr, length));
}

/* Until its wait ends: handlers, and faults at that memory, come in between (sr_select()). */
static void trap(struct sr_thread *t)
{
	t->waits_exposed = true;
	t->selector = t->armed;
}

/*
 * Those that sleep at any word of this lock or condition look again, and wait at the alias.  They cannot be moved there
 * (FUTEX_REQUEUE): who has the alias already may have woken what sleeps there, before they did.
 */
static void wake(uintptr_t addr, size_t length)
{
	for (size_t at = 0; at + sizeof(uint32_t) <= length; at += sizeof(uint32_t))
		sr_syscall(SYS_futex, (long)(addr + at), FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

static void look_at(struct sr_thread *t, void *unused)
{
	const uint64_t *a = t->waits_with;
	const struct sr_call_desc *d = t->waits_in;

	(void)unused;
	if (!a || t == &sr_self)
		return;
	for (int i = 0; i < d->nargs; i++) {
		const size_t length = length_of(d, i);

		if (!is_exposed(a[i], length))
			continue;
		/* First: it makes system calls as soon as it is awake. */
		trap(t);
		atomic_thread_fence(memory_order_seq_cst);
		wake(a[i], length);
	}
}

void sr_wait_looks_again(struct sr_thread *t)
{
	const struct sr_call_desc *d = t->waits_in;

	/* Either look_at() sees this wait, or this sees what is exposed. */
	atomic_thread_fence(memory_order_seq_cst);
	for (int i = 0; i < d->nargs; i++)
		if (is_exposed(t->waits_with[i], length_of(d, i)))
			trap(t);
}

static void look_at_all(void)
{
	if (sr_waits_each_thread)
		sr_waits_each_thread(look_at, NULL);
}

void sr_waits_memory_begins(const void *addr, size_t length)
{
	const uintptr_t begin = sr_page_down((uintptr_t)addr), end = sr_page_up((uintptr_t)addr + length);

	sr_lock(&coming.lock);
	if (!coming.n++ || begin < atomic_load(&coming.begin))
		atomic_store(&coming.begin, begin);
	if (end > atomic_load(&coming.end))
		atomic_store(&coming.end, end);
	atomic_store(&sr_waits_coming, true);
	sr_unlock(&coming.lock);
	look_at_all();
}

void sr_waits_memory_ends(void)
{
	look_at_all();
	sr_lock(&coming.lock);
	if (!--coming.n) {
		atomic_store(&sr_waits_coming, false);
		atomic_store(&coming.end, 0);
	}
	sr_unlock(&coming.lock);
}

/* Both addresses of a requeue, and the one of every other operation. */
static bool has_second_address(uint64_t operation)
{
	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_WAKE_OP:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_CMP_REQUEUE_PI:
		return true;
	default:
		return false;
	}
}

static bool alias_word(uint64_t *word)
{
	void *alias = sr_exposed_touches((void *)*word, sizeof(uint32_t)) ? sr_exposed_alias((void *)*word, sizeof(uint32_t)) : NULL;

	if (alias)
		*word = (uintptr_t)alias;
	return alias;
}

static long call(long nr, const uint64_t a[6])
{
	bool first = false, second = false;
	uint64_t w[6];
	long result;

	memcpy(w, a, sizeof(w));
	if (nr == SYS_futex) {
		first = alias_word(&w[0]);
		second = has_second_address(w[1]) && alias_word(&w[4]);
	}
	result = sr_syscall(nr, (long)w[0], (long)w[1], (long)w[2], (long)w[3], (long)w[4], (long)w[5]);
	if (first)
		sr_exposed_unalias((void *)w[0], sizeof(uint32_t));
	if (second)
		sr_exposed_unalias((void *)w[4], sizeof(uint32_t));
	return result;
}

long sr_wait_system_call(long nr, const uint64_t a[6])
{
	long result = call(nr, a);

	/* It became exposed since it was looked at. */
	while (result == -EFAULT && nr == SYS_futex && is_exposed(a[0], sizeof(uint32_t)))
		result = call(nr, a);
	return result;
}

/* ------------------------------------------------------- the program's own futexes */

/* A word of a futex that the kernel has at an alias, or on a page that is passed through meanwhile. */
struct word {
	uint64_t addr;
	bool is_alias, is_pinned;
};

static void lend_word(struct word *w, uint64_t *argument)
{
	*w = (struct word){.addr = *argument};
	if (!sr_exposed_touches((void *)*argument, sizeof(uint32_t)))
		return;
	w->is_alias = alias_word(argument);
	if (w->is_alias)
		return;
	w->is_pinned = true;
	sr_exposed_pin((void *)*argument, sizeof(uint32_t));
}

static void take_back_word(const struct word *w, uint64_t argument)
{
	if (w->is_alias)
		sr_exposed_unalias((void *)argument, sizeof(uint32_t));
	if (w->is_pinned)
		sr_exposed_unpin((void *)w->addr, sizeof(uint32_t));
}

static bool is_lent(const struct word *w)
{
	return w->is_alias || w->is_pinned;
}

static bool waits(uint64_t operation)
{
	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
	case FUTEX_WAIT_REQUEUE_PI:
		return true;
	default:
		return false;
	}
}

/* The time may lie in exposed memory as well. */
static void copy_timeout(uint64_t *argument, struct timespec *copy)
{
	if (!*argument || !sr_exposed_touches((void *)*argument, sizeof(*copy)) ||
	    !sr_is_readable((void *)*argument, sizeof(*copy)))
		return;
	sr_exposed_copy((void *)*argument, copy, sizeof(*copy));
	*argument = (uintptr_t)copy;
}

/*
 * Who fell asleep when its page was in another state sleeps at the other address.  Returns how many were woken there.  Of an
 * operation that wakes some and moves others all are woken, as they look at their word again anyway.
 */
static long wake_at_other(const struct word *w, const uint64_t a[6], long woken)
{
	const uint64_t other = w->is_alias ? w->addr : (uintptr_t)sr_exposed_backing_place((void *)w->addr);
	const uint64_t private = a[1] & FUTEX_PRIVATE_FLAG;
	long result = 0;

	switch (a[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		if (woken < (int)a[2])
			result = sr_syscall(SYS_futex, (long)other, (long)a[1], (int)a[2] - woken, 0, 0, (long)a[5]);
		break;
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_WAKE_OP:
		result = sr_syscall(SYS_futex, (long)other, (long)(FUTEX_WAKE | private), INT_MAX, 0, 0, 0);
		break;
	}
	return result > 0 ? result : 0;
}

/* again: the word became exposed since it was looked at. */
static long futex(const uint64_t a[6], bool *again)
{
	struct word first, second = {0};
	struct timespec timeout;
	uint64_t made[6];
	long result;

	memcpy(made, a, sizeof(made));
	lend_word(&first, &made[0]);
	if (has_second_address(a[1]))
		lend_word(&second, &made[4]);
	if (waits(a[1]))
		copy_timeout(&made[3], &timeout);
	result = sr_syscall(SYS_futex, (long)made[0], (long)made[1], (long)made[2], (long)made[3], (long)made[4], (long)made[5]);
	take_back_word(&first, made[0]);
	take_back_word(&second, made[4]);
	if (result >= 0 && is_lent(&first))
		result += wake_at_other(&first, a, result);
	*again = result == -EFAULT && !is_lent(&first) && is_exposed(a[0], sizeof(uint32_t));
	return result;
}

long sr_wait_futex(const uint64_t a[6])
{
	long result;
	bool again;

	do
		result = futex(a, &again);
	while (again);
	return result;
}
