/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * no_write_order.c: shim/files/write_order.h for tests of one thread, which has no ring for
 * shim/files/small_inputs.h.
 */
#include "shim/files/small_inputs.h"
#include "shim/files/write_order.h"

void sr_file_hold(struct sr_thread *t, dev_t device, ino_t inode)
{
}

void sr_files_hold_many(struct sr_thread *t)
{
}

void sr_files_release_held(struct sr_thread *t)
{
}

bool sr_small_input(struct sr_thread *t, int fd, const struct statx *st, const char *path,
		    uint32_t note, bool keep)
{
	return false;
}

void sr_small_input_end(struct sr_thread *t)
{
}
