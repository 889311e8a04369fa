/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/shared/memory.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct sr_group *sr_group_make(const int32_t *ranks, size_t n, enum sr_group_transport transport,
			       int *fd)
{
	uint64_t size = sizeof(struct sr_group) + n * sizeof(struct sr_group_member);
	struct sr_group *g;

	*fd = memfd_create("sreplay-group", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, (off_t)size))
		return NULL;
	g = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (g == MAP_FAILED)
		return NULL;
	/* Members map what lies behind it, too. */
	if (ftruncate(*fd, (off_t)SR_GROUP_FILE_END))
		return NULL;
	g->magic = SR_GROUP_MAGIC;
	g->size = size;
	g->members = (uint32_t)n;
	g->transport = transport;
	for (size_t i = 0; i < n; i++)
		g->member[i].rank = ranks[i];
	return g;
}

void sr_group_file_read(int fd, uint64_t at, void *to, size_t n)
{
	ssize_t got;

	while (n && (got = pread(fd, to, n, (off_t)at)) > 0) {
		to = (char *)to + got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	memset(to, 0, n);
}

void sr_group_end_member(struct sr_group *g, uint32_t member)
{
	struct sr_group_member *m = &g->member[member];

	atomic_store(&m->state, SR_GROUP_ENDED);
	syscall(SYS_futex, &m->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	atomic_fetch_add(&m->word, 1);
	syscall(SYS_futex, &m->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#define LEFT_MS 15000 /* as long as the process would wait: transfer.c */

/* A killed process may leave items of which it did not wake the proxy. */
static void await_work_items(struct sr_group *g, const struct sr_work_items *e)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct sr_group_proxy *c = &g->proxy;

	for (int i = 0; i < LEFT_MS && atomic_load(&e->done) < atomic_load(&e->asked) &&
			!atomic_load(&e->failed) && atomic_load(&c->state) == SR_PROXY_READY;
	     i++) {
		atomic_fetch_add(&c->word, 1);
		syscall(SYS_futex, &c->word, FUTEX_WAKE, 1, NULL, NULL, 0);
		nanosleep(&moment, NULL);
	}
}

void sr_group_await_end(struct sr_group *g)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	for (uint32_t i = 0; i < g->members; i++)
		while (atomic_load(&g->member[i].state) < SR_GROUP_LINGERS)
			nanosleep(&moment, NULL);
	for (uint32_t i = 0; i < g->members; i++)
		await_work_items(g, &g->member[i].work_items);
}
