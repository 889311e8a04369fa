/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/write_order.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "logd/base/rawsys.h"
#include "shim/files/fds.h"

/* Most writes are over after that; then the waiting thread leaves the CPU. */
#define SPINS   200
#define NAP_NS  50000
#define WAIT_MS 100

#define PLACES 512

/* The number, plus 1, of the thread that writes to a file with this place; 0: none does. */
static _Atomic uint32_t writers[PLACES];

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

/*
 * Descriptors 1 and 2 often lead to the same file, and a file may be open more than once.  Files
 * that share a place only wait for each other.
 */
static uint32_t place_of(int fd)
{
	struct stat st;

	if (sr_sys_fstat(fd, &st))
		return 0;
	return 1 + (uint32_t)((st.st_ino ^ st.st_dev * 31) * 0x9e3779b97f4a7c15ull >> 32) %
		   (PLACES - 1);
}

uint32_t sr_write_begins(int fd, uint32_t thread)
{
	uint32_t self = thread + 1, place;

	if (!sr_fd_is_ordinary(fd) || sr_fd_captured(fd))
		return 0;
	place = place_of(fd);
	if (place && !take(&writers[place], self))
		await(&writers[place], self);
	return place;
}

/* Another thread may have gone ahead meanwhile. */
void sr_write_ends(uint32_t write, uint32_t thread)
{
	uint32_t self = thread + 1;

	atomic_compare_exchange_strong(&writers[write], &self, 0);
}
