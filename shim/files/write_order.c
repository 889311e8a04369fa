/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/write_order.h"

#include <stdatomic.h>
#include <stdint.h>

#include "logd/base/rawsys.h"
#include "replay/abi/control.h"
#include "shim/files/fds.h"

/* Most writes are over after that; then the waiting thread leaves the CPU. */
#define SPINS   200
#define NAP_NS  50000
#define WAIT_MS 100

/* The number, plus 1, of the thread that writes to each descriptor; 0: none does. */
static _Atomic uint32_t writers[SR_REPLAY_FD];

static bool take(_Atomic uint32_t *writer, uint32_t self)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong(writer, &nobody, self) || nobody == self;
}

static void await(_Atomic uint32_t *writer, uint32_t self)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	int64_t until;

	for (int i = 0; i < SPINS; i++) {
		if (take(writer, self))
			return;
	}
	until = sr_sys_now_ms() + WAIT_MS;
	while (sr_sys_now_ms() < until) {
		sr_sys_nanosleep(&nap);
		if (take(writer, self))
			return;
	}
	atomic_store(writer, self);
}

bool sr_write_begins(int fd, uint32_t thread)
{
	uint32_t self = thread + 1;

	if (!sr_fd_is_ordinary(fd) || sr_fd_captured(fd))
		return false;
	if (!take(&writers[fd], self))
		await(&writers[fd], self);
	return true;
}

/* Another thread may have gone ahead meanwhile. */
void sr_write_ends(int fd, uint32_t thread)
{
	uint32_t self = thread + 1;

	atomic_compare_exchange_strong(&writers[fd], &self, 0);
}
