/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/single_threaded.h>
#include <ucontext.h>

#include "maps.h"
#include "raw.h"

#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

static pthread_mutex_t pin_mutex = PTHREAD_MUTEX_INITIALIZER;

void sd_memory_begin(int fd)
{
	sd_maps_begin(fd);
	/* Memory that cannot be replaced is read and written by process_vm_readv, also from other
	 * processes. */
	syscall(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

static bool is_fabric_itself(const struct sd_extent *e)
{
	return e->begin >= (uintptr_t)sd_fabric && e->end <= (uintptr_t)sd_fabric + sd_fabric->size;
}

/* ------------------------------------------------------------- replacement */

/* Pages that take the place of others, with their contents. */
struct exchange {
	uintptr_t begin;
	size_t size;
	const char *from; /* what they get */
	char *pages;
	bool is_copy; /* the pages stay where they are, too: they are the fabric's */
	int prot;
	bool done;
};

/* A page that was never written to stays a hole of the file. */
static void copy_page(void *to, const void *from)
{
	const uint64_t *p = from;

	for (size_t i = 0; i < SD_PAGE / sizeof(*p); i++) {
		if (p[i]) {
			memcpy(to, from, SD_PAGE);
			return;
		}
	}
}

/* The kernel writes there whenever it has interrupted this thread: were that held, nobody could end
 * it. */
static bool has_own_rseq(const struct exchange *x)
{
	uintptr_t area = (uintptr_t)__builtin_thread_pointer() + (uintptr_t)__rseq_offset;

	return area + sizeof(struct rseq) > x->begin && area < x->begin + x->size;
}

/*
 * Other threads may write to these pages meanwhile.  Where the kernel lets us, they wait until the
 * pages have been replaced; where it does not, what they write in these microseconds can be lost.
 */
static int hold_writers(const struct exchange *x)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features =
				     UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_UNPOPULATED};
	struct uffdio_register range = {.range = {x->begin, x->size},
					.mode = UFFDIO_REGISTER_MODE_WP};
	struct uffdio_writeprotect wp = {.range = {x->begin, x->size},
					 .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	int fd;

	if (__libc_single_threaded || has_own_rseq(x))
		return -1;
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -1;
	if (!syscall(SYS_ioctl, fd, UFFDIO_API, &api) &&
	    !syscall(SYS_ioctl, fd, UFFDIO_REGISTER, &range) &&
	    !syscall(SYS_ioctl, fd, UFFDIO_WRITEPROTECT, &wp))
		return fd;
	raw_close(fd);
	return -1;
}

/*
 * mremap with an old size of 0 maps shared pages a second time.  That needs no descriptor, which
 * the program could have closed.  Nothing may be called between the copy and that: the pages may be
 * the stack's.
 */
static void exchange(struct exchange *x)
{
	int held = hold_writers(x);

	for (size_t at = 0; at < x->size; at += SD_PAGE)
		copy_page(x->pages + at, x->from + at);
	x->done = syscall(SYS_mremap, x->pages, x->is_copy ? 0 : x->size, x->size,
			  MREMAP_MAYMOVE | MREMAP_FIXED, x->begin) == (long)x->begin;
	if (held >= 0)
		raw_close(held); /* lets them go on */
	if (x->done && x->prot != (PROT_READ | PROT_WRITE))
		syscall(SYS_mprotect, x->begin, x->size, x->prot);
	if (x->done)
		syscall(SYS_madvise, x->begin, x->size, MADV_DODUMP);
}

static ucontext_t returns_to, runs;
static struct exchange *job;

static void exchange_apart(void)
{
	exchange(job);
}

/* The pages may be those of the stack that we run on.  Signal handlers would run there, too. */
static bool exchange_on_own_stack(struct exchange *x)
{
	static char stack[65536];
	uint64_t all = ~0ull, mask;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof(mask));
	job = x;
	getcontext(&runs);
	runs.uc_stack.ss_sp = stack;
	runs.uc_stack.ss_size = sizeof(stack);
	runs.uc_link = &returns_to;
	makecontext(&runs, exchange_apart, 0);
	swapcontext(&returns_to, &runs);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	return x->done;
}

static bool replace(uintptr_t begin, uintptr_t end, const struct sd_extent *e,
		    struct sd_piece *piece)
{
	struct exchange x = {.begin = begin,
			     .size = end - begin,
			     .from = (char *)begin,
			     .is_copy = true,
			     .prot = e->prot};
	uint64_t offset;

	sd_lock();
	offset = sd_pages_take(x.size);
	sd_unlock();
	if (!offset)
		return false;
	x.pages = sd_at(offset);
	if (!exchange_on_own_stack(&x)) {
		sd_lock();
		sd_pages_give(offset, x.size);
		sd_unlock();
		return false;
	}
	*piece = (struct sd_piece){.length = x.size, .at = offset};
	return true;
}

/* A second mapping of shared memory stays when the program moves or unmaps the first. */
static void keep_shared(uintptr_t begin, uintptr_t end, const struct sd_extent *e,
			struct sd_piece *piece)
{
	long twin = e->is_shared ? syscall(SYS_mremap, begin, 0, end - begin, MREMAP_MAYMOVE) : -1;

	*piece = (struct sd_piece){.length = end - begin, .foreign = true, .at = begin};
	if (twin != -1) {
		piece->at = (uint64_t)twin;
		piece->twin = true;
	}
}

static void count(uint64_t offset, uint64_t size, int n)
{
	for (uint64_t at = offset; at < offset + size; at += SD_PAGE)
		*sd_page_users(at) += n;
}

static void pin_piece(uintptr_t begin, uintptr_t end, const struct sd_extent *e,
		      struct sd_piece *piece)
{
	if (e->ours)
		*piece =
		    (struct sd_piece){.length = end - begin, .at = e->offset + (begin - e->begin)};
	else if (e->is_shared || e->huge || !replace(begin, end, e, piece))
		keep_shared(begin, end, e, piece);
	if (!piece->foreign)
		count(piece->at, piece->length, 1);
}

/* ------------------------------------------------------------- the way back */

/* What is there is the program's own again: a copy. */
static bool make_private(uintptr_t begin, uintptr_t end, const struct sd_extent *e)
{
	/* By the fabric's own mapping: the program's may not be readable. */
	struct exchange x = {.begin = begin,
			     .size = end - begin,
			     .from = sd_at(e->offset + (begin - e->begin)),
			     .prot = e->prot};

	x.pages = raw_mmap(NULL, x.size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (x.pages == MAP_FAILED)
		return false;
	if (exchange_on_own_stack(&x))
		return true;
	raw_munmap(x.pages, x.size);
	return false;
}

/* All mappings of these pages of the fabric, wherever the program has moved them. */
static bool return_run(uint64_t offset, uint64_t size)
{
	bool all = true;
	struct sd_extent e;
	struct sd_maps m;

	if (!sd_maps_open(&m, 0, true))
		return false;
	while (sd_maps_next(&m, &e)) {
		uint64_t first = e.offset > offset ? e.offset : offset;
		uint64_t last = e.offset + (e.end - e.begin);

		if (!e.ours || is_fabric_itself(&e))
			continue;
		last = last < offset + size ? last : offset + size;
		if (first < last)
			all &= make_private(e.begin + (first - e.offset),
					    e.begin + (last - e.offset), &e);
	}
	sd_maps_close(&m);
	return all;
}

/* Pages that no region has any more. */
static void give_run(uint64_t offset, uint64_t size)
{
	if (!size || !return_run(offset, size))
		return;
	sd_lock();
	sd_pages_give(offset, size);
	sd_unlock();
}

/* ------------------------------------------------------------------- regions */

static void unpin_piece(const struct sd_piece *p)
{
	uint64_t begin = p->at & ~(SD_PAGE - 1), end = sd_round_up(p->at + p->length), run = begin;

	if (p->twin)
		raw_munmap((void *)begin, end - begin);
	if (p->foreign)
		return;
	count(begin, end - begin, -1);
	for (uint64_t at = begin; at <= end; at += SD_PAGE) {
		if (at < end && !*sd_page_users(at))
			continue;
		give_run(run, at - run);
		run = at + SD_PAGE;
	}
}

static int pin(uintptr_t begin, uintptr_t end, bool writes, struct sd_piece *pieces)
{
	struct sd_extent e;
	struct sd_maps m;
	uintptr_t at = begin, to;
	int n = 0;

	if (!sd_maps_open(&m, begin, false))
		return -ENOMEM;
	while (at < end && n < SD_PIECES && sd_maps_next(&m, &e)) {
		if (e.end <= at)
			continue;
		if (e.begin > at || !(e.prot & PROT_READ) || (writes && !(e.prot & PROT_WRITE)))
			break;
		to = e.end < end ? e.end : end;
		pin_piece(at, to, &e, &pieces[n]);
		/* One piece, if it goes on where the last ended. */
		if (n && !pieces[n].foreign && !pieces[n - 1].foreign &&
		    pieces[n - 1].at + pieces[n - 1].length == pieces[n].at)
			pieces[n - 1].length += pieces[n].length;
		else
			n++;
		at = to;
	}
	sd_maps_close(&m);
	if (at >= end)
		return n;
	for (int i = 0; i < n; i++)
		unpin_piece(&pieces[i]);
	return n == SD_PIECES ? -ENOMEM : -EFAULT;
}

int sd_memory_pin(const void *addr, size_t length, bool writes, struct sd_piece *pieces)
{
	uintptr_t begin = (uintptr_t)addr & ~(SD_PAGE - 1),
		  end = sd_round_up((uintptr_t)addr + length);
	int n;

	if (!length)
		return 0;
	if (end <= begin)
		return -EFAULT;
	/* Nobody else writes there: the addresses do. */
	if (!sd_has_driver) {
		*pieces =
		    (struct sd_piece){.length = length, .at = (uintptr_t)addr, .foreign = true};
		return 1;
	}
	pthread_mutex_lock(&pin_mutex);
	n = pin(begin, end, writes, pieces);
	pthread_mutex_unlock(&pin_mutex);
	if (n > 0) {
		pieces[0].at += (uintptr_t)addr - begin;
		pieces[0].length -= (uintptr_t)addr - begin;
	}
	return n;
}

void sd_memory_unpin(const struct sd_piece *pieces, uint32_t n)
{
	pthread_mutex_lock(&pin_mutex);
	for (uint32_t i = 0; i < n; i++)
		unpin_piece(&pieces[i]);
	pthread_mutex_unlock(&pin_mutex);
}

/* --------------------------------------------------------------------- fork */

void sd_memory_begin_child(void)
{
	struct sd_extent e;
	struct sd_maps m;

	pthread_mutex_init(&pin_mutex, NULL);
	if (!sd_maps_open(&m, 0, true))
		return;
	while (sd_maps_next(&m, &e))
		if (e.ours && !is_fabric_itself(&e))
			make_private(e.begin, e.end, &e);
	sd_maps_close(&m);
}
