/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/creating.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/core/thread.h"

static struct sr_lock lock; /* of the list */
static struct sr_creation *under_way;
static _Atomic uint32_t ended; /* how many have */

void sr_creation_begins(struct sr_creation *c, const struct sr_thread *creator)
{
	c->creator = creator;
	sr_lock(&lock);
	c->next = under_way;
	under_way = c;
	sr_unlock(&lock);
}

void sr_creation_ends(struct sr_creation *c)
{
	struct sr_creation **at;

	sr_lock(&lock);
	for (at = &under_way; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	sr_unlock(&lock);
	atomic_fetch_add(&ended, 1);
	sr_sys_futex((uint32_t *)&ended, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

/* A creator has stored the number before the real call. */
static bool is_under_way(uint32_t number)
{
	const struct sr_creation *c;

	sr_lock(&lock);
	for (c = under_way; c && c->creator->child.number != number; c = c->next)
		;
	sr_unlock(&lock);
	return c;
}

void sr_creation_await(struct sr_thread *t)
{
	uint32_t seen = atomic_load(&ended);

	while (is_under_way(t->number)) {
		sr_sys_futex((uint32_t *)&ended, FUTEX_WAIT_PRIVATE, seen, NULL);
		seen = atomic_load(&ended);
	}
}

void sr_creations_forget(void)
{
	lock = (struct sr_lock){0};
	under_way = NULL;
}
