/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/trap/addresses.h"

#if defined(__x86_64__)

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "logd/base/page.h"
#include "shim/async/uring.h"
#include "shim/calls/trap/make.h"
#include "shim/calls/trap/refused.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/made_code.h"
#include "shim/files/inputs.h"
#include "shim/files/mapped_outputs.h"
#include "shim/files/private.h"
#include "shim/files/uncompared.h"
#include "shim/memory/heap.h"
#include "shim/memory/huge_pages.h"
#include "shim/memory/images.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/mapped_reads.h"
#include "shim/verbs/own_memory.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/shared_memory.h"

static bool is_exposed_regions(uint64_t addr, uint64_t size)
{
	return sr_regions_on && sr_exposed_touches((void *)addr, size);
}

/* What is stored there goes into a file, now or after an mprotect. */
static bool is_output(const uint64_t *a)
{
	struct stat st;

	if (!(a[3] & MAP_SHARED) || a[3] & MAP_ANONYMOUS)
		return false;
	if (!(a[2] & PROT_WRITE) && (sr_sys_fcntl((int)a[4], F_GETFL, 0) & O_ACCMODE) != O_RDWR)
		return false;
	/* A memfd, and a file that has no name any more, is the process's own. */
	return !sr_sys_fstat((int)a[4], &st) && S_ISREG(st.st_mode) && st.st_nlink;
}

/* Where processes share it, others store there as well. */
static void note_shared(long addr, const uint64_t *a, bool output, void *site)
{
	if (!sr_shared_mapped((void *)addr, a, site) && output)
		sr_mapped_output_begins((void *)addr, a[1], a[2] & PROT_WRITE);
	else if (output && a[2] & PROT_WRITE)
		sr_output_is_uncompared(SR_UNCOMPARED_SHARED);
}

/* ld.so's cache of libraries, mapped while it looks for one.  It grows with what is installed, and the program never sees it. */
static bool is_loaders_cache(const struct sr_trapped *c)
{
	const uint64_t *a = c->a;

	return a[2] == PROT_READ && a[3] == MAP_PRIVATE && sr_is_loader(c->site);
}

/* Places mappings in an address range for the program, equal in both runs: see heap.h. */
static long map(const struct sr_trapped *c)
{
	uint64_t *a = c->a;
	bool output, placed = !a[0];
	uint64_t offset;
	struct sr_uring *ring = sr_urings ? sr_uring_maps(a, &offset) : NULL;
	size_t size = a[1];
	int flags = (int)a[3];
	long result;

	if (!sr_want_ordinary_pages(&size, &flags))
		return -ENOMEM;
	a[1] = size;
	a[3] = (uint64_t)flags;
	if (placed)
		a[0] = (uintptr_t)(is_loaders_cache(c) ? sr_heap_place_mapping(a[1]) : sr_heap_place_program(a[1], (int)a[3]));
	else if (a[3] & MAP_FIXED)
		sr_heap_mapping_ends((void *)a[0], a[1]);
	a[3] = sr_mapping_flags_to_ask(a[3]);
	output = is_output(a);
	if (output && a[2] & PROT_WRITE) {
		sr_files_mapped(c->t, (int)a[4]);
		sr_private_mapped((int)a[4]);
	}
	result = sr_make_raw(SYS_mmap, a);
	if (ring)
		return sr_uring_mapped(ring, offset, result, a[1]);
	if (placed && sr_heap_may_not_place(result)) {
		a[0] = 0;
		result = sr_make_raw(SYS_mmap, a);
	}
	if (a[2] & PROT_EXEC && !sr_sys_is_error((void *)result))
		sr_heap_code_begins((void *)result, a[1], (int)a[2]);
	if (a[3] & MAP_SHARED && !sr_sys_is_error((void *)result))
		note_shared(result, a, output, c->site);
	if (a[3] & MAP_SHARED && !(a[3] & MAP_ANONYMOUS) && !sr_sys_is_error((void *)result))
		sr_mapped_reads_begin((void *)result, a[1], (int)a[4], a[5]);
	return result;
}

long sr_trapped_mmap(const struct sr_trapped *c)
{
	struct sr_asked_mapping asked;
	long result;

	if (sr_mapping_is_refused(c, &asked, &result))
		return result;
	result = map(c);
	sr_mapping_result(c, &asked, result);
	return result;
}

long sr_trapped_shmat(const struct sr_trapped *c)
{
	long result = sr_make_call(c, SR_CALL_shmat);

	if (!sr_sys_is_error((void *)result))
		sr_shared_attached((void *)result, c->t->segment_size, (int)c->a[0], (int)c->a[2], c->site);
	return result;
}

long sr_trapped_shmctl(const struct sr_trapped *c)
{
	const bool removes = (int)c->a[1] == IPC_RMID, own = removes && sr_shared_is_own((int)c->a[0]);
	long result = sr_make_call(c, SR_CALL_shmctl);

	if (removes && !result)
		sr_shared_removed(own, (int)c->a[0], c->site);
	return result;
}

long sr_trapped_munmap(const struct sr_trapped *c)
{
	const uint64_t *a = c->a;

	sr_heap_mapping_ends((void *)a[0], a[1]);
	return sr_make_raw(SYS_munmap, a);
}

/* malloc gives freed memory at the heap's end back to the kernel, even if it is registered. */
long sr_trapped_brk(const struct sr_trapped *c)
{
	const uint64_t *a = c->a;
	const uint64_t ask[6] = {0};
	uint64_t begin = sr_page_up(a[0]), end;

	if (a[0]) {
		end = (uint64_t)sr_make_raw(SYS_brk, ask);
		if (begin < end)
			sr_heap_mapping_ends((void *)begin, end - begin);
	}
	return sr_make_raw(SYS_brk, a);
}

/*
 * The program takes exposed regions for readable and writable.  A call that asks for just that
 * must not change the shim's protection, so their pages are skipped.
 */
static long protect(const struct sr_trapped *c)
{
	const uint64_t *a = c->a;
	bool changes = (a[2] & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE);
	uint64_t piece[6] = {0, PAGE, a[2], a[3], 0, 0};
	long err = 0;

	if (!(a[2] & PROT_READ))
		sr_mr_doubt((void *)a[0], a[1]);
	if (changes)
		sr_shared_protected((void *)a[0], a[1]);
	if (!is_exposed_regions(a[0], a[1]))
		return sr_make_raw(c->nr, a);
	if (changes) {
		sr_exposed_give_up((void *)a[0], a[1]);
		return sr_make_raw(c->nr, a);
	}
	for (piece[0] = a[0]; piece[0] < a[0] + a[1] && !err; piece[0] += PAGE)
		if (!is_exposed_regions(piece[0], PAGE))
			err = sr_make_raw(c->nr, piece);
	return err;
}

long sr_trapped_mprotect(const struct sr_trapped *c)
{
	const uint64_t *a = c->a;
	long err;

	made_code_changes((void *)a[0], a[1]);
	err = protect(c);
	made_code_changed();
	if (a[2] & PROT_WRITE && !err)
		sr_mapped_output_stores((void *)a[0], a[1]);
	if (a[2] & PROT_EXEC && !err)
		sr_heap_code_begins((void *)a[0], a[1], (int)a[2]);
	return err;
}

/*
 * A program that handles its own faults changes a page's protection in each of them, and a trap is a second signal. The usual
 * case needs none.
 */
SR_EXPORT int mprotect(void *addr, size_t size, int prot)
{
	SR_NEXT(next, "mprotect");
	uint64_t a[SR_MAX_ARGS + 1] = {(uintptr_t)addr, size, (uint64_t)prot};
	struct sr_thread *t = &sr_self;
	enum sr_heap before;
	long err;

	if (!t->armed || t->depth || prot & PROT_EXEC || is_exposed_regions(a[0], a[1]))
		return ((int (*)(void *, size_t, int))sr_next(&next))(addr, size, prot);
	before = sr_enter(t);
	err = sr_trapped_mprotect(&(struct sr_trapped){.t = t, .nr = SYS_mprotect, .a = a, .site = __builtin_return_address(0)});
	sr_leave(t, before);
	if (__builtin_expect(t->signals.missed_ticks, 0))
		sr_signals_missed(t);
	if (err)
		errno = (int)-err;
	return err ? -1 : 0;
}

long sr_trapped_madvise(const struct sr_trapped *c)
{
	const uint64_t *a = c->a;
	bool drops = a[2] == MADV_DONTNEED || a[2] == MADV_FREE || a[2] == MADV_REMOVE;

	if (drops && is_exposed_regions(a[0], a[1]))
		sr_exposed_give_up((void *)a[0], a[1]);
	if (!drops)
		return sr_make_call(c, SR_CALL_madvise);
	made_code_ends((void *)a[0], a[1]);
	return sr_make_raw(SYS_madvise, a);
}

/* A mapping with an address of ours grows in place if both runs know that it can. */
static bool grows_elsewhere(const uint64_t *a)
{
	uint64_t end = a[0] + sr_page_up(a[1]), new_end = a[0] + sr_page_up(a[2]);

	return new_end > end && sr_heap_is_placed_program(a[0]) && !sr_heap_grow_program(end, new_end - end);
}

/* Moved memory is no longer an exposed region. */
static long move(uint64_t *a)
{
	uint64_t stay[6] = {a[0], a[1], a[2], 0, 0, 0};
	long result;

	sr_mr_doubt((void *)a[0], a[1]);
	sr_own_memory_moves((void *)a[0], a[1]);
	made_code_ends((void *)a[0], a[1]);
	if (is_exposed_regions(a[0], a[1]))
		sr_exposed_give_up((void *)a[0], a[1]);
	if (a[3] & MREMAP_FIXED)
		sr_heap_mapping_ends((void *)a[4], a[2]);
	if (a[3] != MREMAP_MAYMOVE)
		return sr_make_raw(SYS_mremap, a);
	if (a[1] && !grows_elsewhere(a)) {
		result = sr_make_raw(SYS_mremap, stay);
		if (result != -ENOMEM)
			return result;
	}
	/* A fixed place takes the place of what is there: in the range of large mappings that may be something. */
	a[4] = a[2] < SR_LARGE_MAPPING ? (uintptr_t)sr_heap_place_program(a[2], 0) : 0;
	if (a[4])
		a[3] |= MREMAP_FIXED;
	return sr_make_raw(SYS_mremap, a);
}

long sr_trapped_mremap(const struct sr_trapped *c)
{
	uint64_t *a = c->a;
	long result;

	sr_mapped_output_moves((void *)a[0], a[1], a[2], c->site);
	result = move(a);
	if (!sr_sys_is_error((void *)result))
		sr_mapped_output_moved((void *)a[0], (void *)result, a[2]);
	return result;
}

long sr_trapped_msync(const struct sr_trapped *c)
{
	sr_mapped_output_synced((void *)c->a[0], c->a[1], c->site);
	return sr_make_raw(SYS_msync, c->a);
}

#endif
