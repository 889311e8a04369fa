/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/produced.h"

#include <errno.h>
#include <sys/uio.h>

#include "logd/base/rawsys.h"
#include "replay/abi/produced.h"
#include "shim/replay/own.h"

/* The file is open for appending, so an entry is written in one piece. */
void sr_produced_keep(const struct sr_thread *t, const void *bytes, size_t n)
{
	struct sr_produced_entry e = {.thread = t->number, .length = (uint32_t)n};
	const struct iovec iov[] = {{&e, sizeof(e)}, {(void *)(uintptr_t)bytes, n}};
	int32_t none = 0;
	long written;

	if (sr_replay_page->produced_fd < 0)
		return;
	written = sr_syscall(SYS_writev, sr_replay_page->produced_fd, SR_ARG(iov), 2, 0, 0, 0);
	if (written == (long)(sizeof(e) + n))
		return;
	atomic_compare_exchange_strong(&sr_replay_page->produced_error, &none,
				       written < 0 ? (int32_t)-written : ENOSPC);
}
