/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.c: makes, maps and locks the fabric; its processes. */
#include "fabric.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "raw.h"

#define VERSION        1
#define LOCKED         0x3fffffffu
#define WAITED         0x80000000u
#define SPINS          200
#define DEFAULT_MEMORY (16ul << 30)

struct sd_fabric *sd_fabric;
uint32_t sd_process;
bool sd_is_shared;
bool sd_has_driver;

static int driver_socket = -1;

/* ------------------------------------------------------------------- file */

static uint64_t memory_size(void)
{
	const char *text = getenv("SOFTDEV_MEMORY"); /* in MiB */
	uint64_t megabytes = text ? strtoull(text, NULL, 0) : 0;

	return megabytes ? megabytes << 20 : DEFAULT_MEMORY;
}

/* Core files do not get the fabric: it is larger than all else. */
static int map_file(int fd, uint64_t size)
{
	/*
	 * Away from the libraries: a real device's mappings are small, and what sreplay puts below libraries must find
	 * its place there.
	 */
	void *const hint = (void *)0x300000000000;
	void *p = raw_mmap(hint, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	syscall(SYS_madvise, p, size, MADV_DONTDUMP);
	sd_fabric = p;
	return 0;
}

static void fill_in(uint64_t memory, uint64_t size)
{
	struct sd_fabric *f = sd_fabric;

	f->page_map_at = sd_round_up(sizeof(*f));
	f->pages = memory / SD_PAGE;
	f->page_users_at = f->page_map_at + sd_round_up(2 * f->pages);
	f->pages_at = f->page_users_at + sd_round_up(2 * f->pages);
	f->size = size;
	f->next_due = SD_NEVER;
	f->driver_wakes_at = SD_NEVER;
	if (getrandom(&f->id, sizeof(f->id), 0) != sizeof(f->id))
		f->id = (uint64_t)getpid();
	sd_read_settings();
	__atomic_store_n(&f->version, VERSION, __ATOMIC_RELEASE);
}

static int make(int fd)
{
	uint64_t memory = memory_size();
	uint64_t size =
	    sd_round_up(sizeof(*sd_fabric)) + 2 * sd_round_up(2 * memory / SD_PAGE) + memory;
	int err;

	if (syscall(SYS_ftruncate, fd, size))
		return -errno;
	err = map_file(fd, size);
	if (!err)
		fill_in(memory, size);
	return err;
}

int sd_fabric_make(const char *directory)
{
	char path[PATH_MAX];
	int fd, err;

	snprintf(path, sizeof(path), "%s/softdev.memory", directory);
	fd = raw_open(path, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return -errno;
	err = make(fd);
	raw_close(fd);
	sd_is_shared = sd_has_driver = true;
	return err;
}

/* A fabric of this process alone. */
static int make_own(int *fd)
{
	*fd = (int)syscall(SYS_memfd_create, "softdev.memory", MFD_CLOEXEC);
	return *fd < 0 ? -errno : make(*fd);
}

static int join(const char *directory, int *fd)
{
	char path[PATH_MAX];
	struct stat st;
	int err;

	snprintf(path, sizeof(path), "%s/softdev.memory", directory);
	*fd = raw_open(path, O_RDWR);
	if (*fd < 0 || fstat(*fd, &st))
		return -errno;
	err = map_file(*fd, (uint64_t)st.st_size);
	if (!err && __atomic_load_n(&sd_fabric->version, __ATOMIC_ACQUIRE) != VERSION)
		err = -EPROTO;
	sd_is_shared = sd_has_driver = !err;
	return err;
}

/* ------------------------------------------------------------------- lock */

static __thread uint32_t own_number;

static uint32_t thread_number(void)
{
	if (!own_number)
		own_number = (uint32_t)syscall(SYS_gettid) & LOCKED;
	return own_number;
}

/* A thread that was killed with the lock in hand never gives it back. */
static bool is_gone(uint32_t holder)
{
	return syscall(SYS_tkill, holder & LOCKED, 0) && errno == ESRCH;
}

static void wait_for_lock(uint32_t me)
{
	const struct timespec a_while = {.tv_nsec = 20000000};
	uint32_t *word = &sd_fabric->lock;

	for (;;) {
		uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);

		/* Others may wait, too: whoever takes it after a wait says so. */
		if (!seen || is_gone(seen)) {
			if (__atomic_compare_exchange_n(word, &seen, me | WAITED, false,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return;
			continue;
		}
		if (!(seen & WAITED) &&
		    !__atomic_compare_exchange_n(word, &seen, seen | WAITED, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		raw_futex(word, FUTEX_WAIT, seen | WAITED, &a_while);
	}
}

static bool is_alone(void)
{
	return !sd_is_shared && __libc_single_threaded;
}

void sd_lock(void)
{
	uint32_t none, me;

	if (is_alone())
		return;
	me = thread_number();
	for (int i = 0; i < SPINS; i++) {
		none = 0;
		if (__atomic_compare_exchange_n(&sd_fabric->lock, &none, me, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
		__builtin_ia32_pause();
	}
	wait_for_lock(me);
}

void sd_unlock(void)
{
	/* Taken by a process that had no thread yet: then it is not held. */
	if (!__atomic_load_n(&sd_fabric->lock, __ATOMIC_RELAXED))
		return;
	if (__atomic_exchange_n(&sd_fabric->lock, 0, __ATOMIC_RELEASE) & WAITED)
		raw_futex(&sd_fabric->lock, FUTEX_WAKE, 1, NULL);
}

uint64_t sd_now(void)
{
	struct timespec t;

	if (!sd_fabric->latency && !sd_fabric->bytes_per_us)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* -------------------------------------------------------------- processes */

/* The driver learns of our end by the end of this connection, however we end. */
static int connect_to_driver(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int length = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "softdev/%016llx/driver",
			      (unsigned long long)sd_fabric->id);
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), high;
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_connect, fd, &a, size) ||
	    syscall(SYS_sendto, fd, &sd_process, 4, 0, NULL, 0) != 4) {
		int err = -errno;

		raw_close(fd);
		return err;
	}
	/* Out of the way of the program's descriptors. */
	high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
	if (high >= 0)
		raw_close(fd);
	driver_socket = high >= 0 ? high : fd;
	return 0;
}

void sd_wake_driver(void)
{
	sd_fabric->driver_wakes_at = 0;
	if (driver_socket >= 0)
		syscall(SYS_sendto, driver_socket, &sd_process, 4, MSG_DONTWAIT | MSG_NOSIGNAL,
			NULL, 0);
}

static int take_place(void)
{
	struct sd_fabric *f = sd_fabric;
	int err = -ENOSPC;

	sd_lock();
	for (uint32_t i = 0; i < SD_MAX_PROCESS && err; i++) {
		uint32_t n = f->next_process++ % SD_MAX_PROCESS;

		if (f->processes[n].pid)
			continue;
		f->processes[n] = (struct sd_process){.pid = (int32_t)getpid()};
		sd_process = n + 1;
		err = 0;
	}
	sd_unlock();
	return err;
}

static int copied[2]; /* a pipe that the child closes */

/*
 * A child has its parent's queue pairs no more, but may open the device for itself.  The fabric of
 * a single process is then one of two.
 */
static void begin_child(void)
{
	own_number = 0;
	sd_process = 0;
	sd_is_shared = true;
	if (driver_socket >= 0)
		raw_close(driver_socket);
	driver_socket = -1;
	sd_memory_begin_child();
	raw_close(copied[0]);
	raw_close(copied[1]);
}

static void before_fork(void)
{
	sd_is_shared = true;
	sd_lock();
	if (syscall(SYS_pipe2, copied, O_CLOEXEC))
		copied[0] = copied[1] = -1;
}

/* Nobody writes to registered pages until the child has its copies: it shares them until then. */
static void await_copies(void)
{
	char none;

	raw_close(copied[1]);
	raw_read(copied[0], &none, 1); /* ends when the child has closed its ends, or does not live */
	raw_close(copied[0]);
	sd_unlock();
}

static int attach(const char *directory)
{
	int fd = -1, err = directory ? join(directory, &fd) : make_own(&fd);

	if (!err)
		sd_memory_begin(fd);
	if (fd >= 0)
		raw_close(fd);
	/* The child's lock is the parent's, who gives it back. */
	if (!err)
		pthread_atfork(before_fork, await_copies, begin_child);
	return err;
}

int sd_fabric_attach(void)
{
	const char *directory = getenv("SOFTDEV_FABRIC");
	int err = 0;

	if (sd_process)
		return 0;
	if (!sd_fabric)
		err = attach(directory);
	if (!err)
		err = take_place();
	if (!err && sd_has_driver)
		err = connect_to_driver();
	if (err)
		fprintf(stderr, "softdev: %s: %s\n", directory ? directory : "memfd",
			strerror(-err));
	return err;
}

/* ----------------------------------------------------------------- tables */

void sd_give_entry(uint32_t *low, uint32_t index_1)
{
	if (index_1 - 1 < *low)
		*low = index_1 - 1;
}

uint32_t sd_take_entry(void *table, size_t size, uint32_t *low, uint32_t *high, uint32_t max)
{
	for (uint32_t i = *low; i < max; i++) {
		uint32_t *process = (uint32_t *)((char *)table + i * size);

		if (*process)
			continue;
		memset(process, 0, size);
		*process = sd_process;
		*low = i + 1;
		if (i >= *high)
			*high = i + 1;
		return i + 1;
	}
	return 0;
}

void sd_process_remove(uint32_t process_1)
{
	struct sd_fabric *f = sd_fabric;

	for (uint32_t i = 0; i < f->qps_high; i++)
		if (f->qps[i].number && f->qps[i].process == process_1)
			sd_qp_remove(&f->qps[i]);
	for (uint32_t i = 0; i < f->cq_use.high; i++)
		if (f->cqs[i].process == process_1)
			sd_cq_remove(&f->cqs[i]);
	for (uint32_t i = 0; i < f->srq_use.high; i++)
		if (f->srqs[i].process == process_1)
			sd_srq_remove(&f->srqs[i]);
	for (uint32_t i = 0; i < f->region_use.high; i++)
		if (f->regions[i].process == process_1)
			sd_region_remove(&f->regions[i]);
	for (uint32_t i = 0; i < f->channel_use.high; i++)
		if (f->channels[i].process == process_1)
			sd_channel_remove(i + 1);
	sd_pages_give_of(process_1);
	f->processes[process_1 - 1].pid = 0;
}
