/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/asynchronous.h"

#include <stddef.h>

#include "logd/base/lock.h"

static struct sr_async_listener *_Atomic first;
static struct sr_lock lock;

void sr_async_listen(struct sr_async_listener *listener)
{
	struct sr_async_listener *l;

	sr_lock(&lock);
	for (l = first; l && l != listener;)
		l = l->next;
	if (!l) {
		listener->next = first;
		first = listener;
	}
	sr_unlock(&lock);
}

void sr_async_await(dev_t device, ino_t inode)
{
	for (const struct sr_async_listener *l = first; l; l = l->next)
		l->await(device, inode);
}

void sr_async_copied(dev_t device, ino_t inode)
{
	for (const struct sr_async_listener *l = first; l; l = l->next)
		if (l->copied)
			l->copied(device, inode);
}
