/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/tsc_unclear.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "logd/base/checksum.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"

#define GUARDED_MAX 32
#define FETCH 16 /* in the error code of a fault: the processor wanted an instruction */

enum state { FOUND, GUARDED, EXECUTED };

/* Only the search adds some; any thread may meet one. */
static struct guarded {
	uintptr_t page;
	uint64_t sum; /* of what is there: the library may have been unloaded since */
	_Atomic uint32_t state;
} guarded[GUARDED_MAX];
static _Atomic uint32_t guarded_n;

static struct guarded *guarded_at(uintptr_t page)
{
	uint32_t n = atomic_load_explicit(&guarded_n, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++)
		if (guarded[i].page == page)
			return &guarded[i];
	return NULL;
}

/* By the kernel, since the page may be gone. */
static bool sum_of(uintptr_t page, uint64_t *sum)
{
	char bytes[PAGE];
	const struct iovec from = {(void *)page, PAGE}, to = {bytes, PAGE};

	if (sr_sys_read_self(&to, &from, 1) != PAGE)
		return false;
	*sum = sr_checksum(bytes, PAGE, 0);
	return true;
}

static bool set_protection(const struct guarded *g, int protection)
{
	uint64_t sum;

	return sum_of(g->page, &sum) && sum == g->sum &&
	       !sr_syscall(SYS_mprotect, SR_ARG(g->page), PAGE, protection, 0, 0, 0);
}

bool sr_tsc_unclear_add(uintptr_t at)
{
	uintptr_t page = sr_page_down(at);
	struct guarded *g = guarded_at(page);
	uint32_t n = atomic_load(&guarded_n);

	if (g && atomic_load(&g->state) == EXECUTED)
		return false;
	if (!g && n == GUARDED_MAX)
		return false;
	if (!g)
		g = &guarded[n];
	if (!sum_of(page, &g->sum))
		return false;
	g->page = page;
	atomic_store(&g->state, FOUND);
	if (g == &guarded[n])
		atomic_store_explicit(&guarded_n, n + 1, memory_order_release);
	return true;
}

bool sr_tsc_unclear_begin(void)
{
	uint32_t n = atomic_load(&guarded_n);

	for (struct guarded *g = guarded; g < guarded + n; g++) {
		if (atomic_load(&g->state) != FOUND)
			continue;
		/* It is so before a thread meets it. */
		atomic_store(&g->state, GUARDED);
		if (!set_protection(g, PROT_READ)) {
			sr_tsc_unclear_end();
			return false;
		}
	}
	return true;
}

bool sr_tsc_unclear_executes(const siginfo_t *info, const ucontext_t *uc)
{
	struct guarded *g;

	if (info->si_code != SEGV_ACCERR || !(uc->uc_mcontext.gregs[REG_ERR] & FETCH))
		return false;
	g = guarded_at(sr_page_down((uintptr_t)info->si_addr));
	if (!g || !set_protection(g, PROT_READ | PROT_EXEC))
		return false;
	atomic_store(&g->state, EXECUTED);
	return true;
}

void sr_tsc_unclear_end(void)
{
	uint32_t n = atomic_load(&guarded_n);

	for (struct guarded *g = guarded; g < guarded + n; g++)
		if (atomic_load(&g->state) == GUARDED && set_protection(g, PROT_READ | PROT_EXEC))
			atomic_store(&g->state, FOUND);
}
