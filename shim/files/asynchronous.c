/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/asynchronous.h"

#include <stddef.h>

static const struct sr_async_listener *_Atomic listening;

void sr_async_listen(const struct sr_async_listener *listener)
{
	listening = listener;
}

void sr_async_await(dev_t device, ino_t inode)
{
	const struct sr_async_listener *l = listening;

	if (l)
		l->await(device, inode);
}

void sr_async_copied(dev_t device, ino_t inode)
{
	const struct sr_async_listener *l = listening;

	if (l)
		l->copied(device, inode);
}
