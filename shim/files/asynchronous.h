/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * asynchronous.h: requests of io_uring (shim/async) write to files while the program goes on.  Where the recorder copies such a
 * file, the copy must have what the trace has had written before, and a replay must not write again what the copy has.  So
 * whoever makes such requests listens.  Recording only.
 */
#ifndef SHIM_FILES_ASYNCHRONOUS_H
#define SHIM_FILES_ASYNCHRONOUS_H

#include <sys/types.h>

struct sr_async_listener {
	/* The file is held (write_order.h), and about to be copied: waits for requests that write to it. */
	void (*await)(dev_t device, ino_t inode);
	/* It has been copied, and is still held. */
	void (*copied)(dev_t device, ino_t inode);
};

/* There is one listener. */
void sr_async_listen(const struct sr_async_listener *listener);

void sr_async_await(dev_t device, ino_t inode);
void sr_async_copied(dev_t device, ino_t inode);

#endif
