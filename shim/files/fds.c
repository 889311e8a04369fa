/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/fds.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "logd/base/highfd.h"
#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/core/thread.h"

#define WORDS (SR_MAX_FD / 64)

static _Atomic uint64_t captured[WORDS];
/*
 * The descriptors that librdmacm opened or closed since the last record that listed such changes.
 */
static _Atomic uint64_t changed[WORDS];
static atomic_bool any_changed;

bool sr_fd_captured(int fd)
{
	if (fd < 0 || fd >= SR_MAX_FD)
		return false;
	return atomic_load_explicit(&captured[fd / 64], memory_order_relaxed) >> (fd % 64) & 1;
}

static _Atomic uint64_t files[WORDS]; /* captured, with the file behind them */
static atomic_bool any_file;

bool sr_fd_is_captured_file(int fd)
{
	return atomic_load_explicit(&any_file, memory_order_relaxed) && sr_fd_captured(fd) &&
	       atomic_load_explicit(&files[fd / 64], memory_order_relaxed) >> (fd % 64) & 1;
}

bool sr_fd_is_held(int fd)
{
	return sr_fd_captured(fd) && !sr_fd_is_captured_file(fd);
}

static int ordinary_below = SR_MAX_FD;

void sr_fd_ordinary_below(int floor)
{
	ordinary_below = floor;
}

bool sr_fd_is_ordinary(int fd)
{
	return fd >= 0 && fd < ordinary_below;
}

static void note_change(int fd)
{
	uint64_t bit = 1ull << (fd % 64);

	if (sr_self.inside_rdmacm) {
		atomic_fetch_or(&changed[fd / 64], bit);
		atomic_store(&any_changed, true);
	} else if (atomic_load_explicit(&any_changed, memory_order_relaxed)) {
		/*
		 * The program uses the number itself now, so the change within the library no
		 * longer matters.
		 */
		atomic_fetch_and(&changed[fd / 64], ~bit);
	}
}

void sr_fd_capture(int fd)
{
	if (fd < 0 || fd >= SR_MAX_FD)
		return;
	atomic_fetch_or_explicit(&captured[fd / 64], 1ull << (fd % 64), memory_order_relaxed);
	note_change(fd);
}

void sr_fd_capture_file(int fd)
{
	if (fd < 0 || fd >= SR_MAX_FD)
		return;
	atomic_store_explicit(&any_file, true, memory_order_relaxed);
	atomic_fetch_or_explicit(&files[fd / 64], 1ull << (fd % 64), memory_order_relaxed);
	sr_fd_capture(fd);
}

static void (*release_listener)(int fd);
static void (*share_listener)(int from, int to);

void sr_fd_listen(void (*on_release)(int fd), void (*on_share)(int from, int to))
{
	release_listener = on_release;
	share_listener = on_share;
}

void sr_fd_release(int fd)
{
	if (!sr_fd_captured(fd))
		return;
	if (release_listener)
		release_listener(fd);
	atomic_fetch_and_explicit(&captured[fd / 64], ~(1ull << (fd % 64)), memory_order_relaxed);
	atomic_fetch_and_explicit(&files[fd / 64], ~(1ull << (fd % 64)), memory_order_relaxed);
	note_change(fd);
}

void sr_fd_found_file(int fd, bool shared)
{
	if (shared)
		sr_fd_capture_file(fd);
	else
		sr_fd_release(fd);
}

void sr_fd_share(int from, int to)
{
	if (from == to)
		return;
	sr_fd_release(to);
	if (!sr_fd_captured(from))
		return;
	if (sr_fd_is_captured_file(from))
		sr_fd_capture_file(to);
	else
		sr_fd_capture(to);
	if (share_listener)
		share_listener(from, to);
}

bool sr_fd_next_change(int32_t *fd, bool *open)
{
	/* Clear the flag before the search: a change that comes during the search sets it again. */
	if (!atomic_load_explicit(&any_changed, memory_order_relaxed) ||
	    !atomic_exchange(&any_changed, false))
		return false;
	for (int word = 0; word < WORDS; word++) {
		uint64_t bits = atomic_load(&changed[word]), bit = bits & -bits;

		if (!bit || !(atomic_fetch_and(&changed[word], ~bit) & bit))
			continue;
		*fd = word * 64 + __builtin_ctzll(bits);
		*open = sr_fd_captured(*fd);
		atomic_store(&any_changed, true);
		return true;
	}
	return false;
}

static struct sr_lock numbers;

void sr_fd_lock_numbers(void)
{
	sr_lock(&numbers);
}

void sr_fd_unlock_numbers(void)
{
	sr_unlock(&numbers);
}

void sr_fd_hold(int fd)
{
	long held;

	if (fd < 0)
		return;
	/* An eventfd: unlike /dev/null it can be polled, and it never becomes ready to read. */
	sr_lock(&numbers);
	held = sr_syscall(SYS_eventfd2, 0, O_CLOEXEC, 0, 0, 0, 0);
	if (held >= 0 && held != fd) {
		sr_syscall(SYS_dup3, held, fd, O_CLOEXEC, 0, 0, 0);
		sr_sys_close((int)held);
	}
	sr_unlock(&numbers);
	sr_fd_capture(fd);
}

int sr_fd_keep(int fd)
{
	long kept;

	sr_lock(&numbers);
	kept = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (kept >= 0)
		kept = sr_fd_raise((int)kept);
	sr_unlock(&numbers);
	return kept < 0 ? -1 : (int)kept;
}

void sr_fd_renumber(int fd, int number)
{
	if (fd == number)
		return;
	sr_lock(&numbers);
	sr_syscall(SYS_dup3, fd, number, sr_sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC ? O_CLOEXEC : 0,
		   0, 0, 0);
	sr_sys_close(fd);
	sr_unlock(&numbers);
}

void sr_fd_drop(int fd)
{
	if (!sr_fd_captured(fd))
		return;
	sr_fd_release(fd);
	sr_sys_close(fd);
}
