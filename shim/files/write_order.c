/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/write_order.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"

/* Most writes are over after that; then the waiting thread leaves the CPU. */
#define SPINS   200
#define NAP_NS  50000
/* On a busy machine a thread that blocks nowhere may be without a processor for some 100 ms, amid its write. */
#define WAIT_MS 1000

#define PLACES SR_FILE_PLACES

/* Set while the content is copied, and when a write has returned, until its number is drawn: that ends by itself and is waited for. */
#define COPIES	 0x80000000u
#define RETURNED 0x40000000u
#define SOON_MS	 10000

/* The number, plus 1, of the thread that writes to a file with this place; 0: none does. */
static _Atomic uint32_t writers[PLACES];

static bool take(_Atomic uint32_t *writer, uint32_t self)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong(writer, &nobody, self) || (nobody & ~RETURNED) == self;
}

static bool ends_by_itself(const _Atomic uint32_t *writer)
{
	return atomic_load(writer) & (COPIES | RETURNED);
}

static void await(_Atomic uint32_t *writer, uint32_t self)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	int64_t began;

	for (int i = 0; i < SPINS; i++) {
		if (take(writer, self))
			return;
	}
	began = sr_sys_now_ms();
	while (sr_sys_now_ms() < began + (ends_by_itself(writer) ? SOON_MS : WAIT_MS)) {
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
static uint32_t place_of(dev_t device, ino_t inode)
{
	return 1 + (uint32_t)((inode ^ device * 31) * 0x9e3779b97f4a7c15ull >> 32) % (PLACES - 1);
}

static uint32_t place_of_fd(int fd)
{
	struct stat st;

	return sr_sys_fstat(fd, &st) ? 0 : place_of(st.st_dev, st.st_ino);
}

uint32_t sr_write_begins(int fd, uint32_t thread)
{
	uint32_t self = thread + 1, place;

	if (!sr_fd_is_ordinary(fd) || sr_fd_is_held(fd))
		return 0;
	place = place_of_fd(fd);
	if (place && !take(&writers[place], self))
		await(&writers[place], self);
	return place;
}

/* Another thread may have gone ahead meanwhile. */
void sr_write_returned(uint32_t write, uint32_t thread)
{
	uint32_t self = thread + 1;

	atomic_compare_exchange_strong(&writers[write], &self, self | RETURNED);
}

void sr_write_ends(uint32_t write, uint32_t thread)
{
	uint32_t self = thread + 1, returned = self | RETURNED;

	if (!atomic_compare_exchange_strong(&writers[write], &returned, 0))
		atomic_compare_exchange_strong(&writers[write], &self, 0);
}

static void note_held(struct sr_thread *t, uint32_t place)
{
	t->held_files[place / 64] |= 1ull << place % 64;
	t->holds_files = true;
}

void sr_file_hold(struct sr_thread *t, dev_t device, ino_t inode)
{
	uint32_t self = (t->number + 1) | COPIES, place = place_of(device, inode);

	if (!sr_threaded || !t->started)
		return;
	if (!take(&writers[place], self))
		await(&writers[place], self);
	note_held(t, place);
}

bool sr_file_try_hold(struct sr_thread *t, dev_t device, ino_t inode)
{
	uint32_t place = place_of(device, inode);

	if (!sr_threaded || !t->started)
		return true;
	if (!take(&writers[place], (t->number + 1) | COPIES))
		return false;
	note_held(t, place);
	return true;
}

static struct sr_lock many;

void sr_files_hold_many(struct sr_thread *t)
{
	if (t->holds_many || !sr_threaded || !t->started)
		return;
	sr_lock(&many);
	t->holds_files = t->holds_many = true;
}

void sr_files_release_held(struct sr_thread *t)
{
	for (uint32_t word = 0; word < PLACES / 64; word++) {
		for (uint64_t bits = t->held_files[word]; bits; bits &= bits - 1)
			sr_write_ends(word * 64 + (uint32_t)__builtin_ctzll(bits),
				      t->number | COPIES);
		t->held_files[word] = 0;
	}
	if (t->holds_many)
		sr_unlock(&many);
	t->holds_files = t->holds_many = false;
}

void sr_writes_forget(struct sr_thread *t)
{
	for (uint32_t i = 0; i < PLACES; i++)
		atomic_store(&writers[i], 0);
	memset(t->held_files, 0, sizeof(t->held_files));
	t->holds_files = t->holds_many = false;
	many = (struct sr_lock){0};
}
