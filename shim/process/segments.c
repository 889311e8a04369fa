/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/segments.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"
#include "shim/memory/huge_pages.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "logd/base/lock.h"
#include "shim/memory/map.h"
#include "shim/kernel/readable.h"
#include "logd/base/say.h"
#include "shim/core/thread.h"

/* Of all segments; one of huge pages needs it. */
#define ALIGNMENT SR_HUGE_PAGE

/* Replay: what stands for a segment. */
struct segment {
	int id;
	size_t size;
	void *memory;     /* a mapping that the program does not see */
	uint32_t attached;
	bool removed;
};

struct attachment {
	size_t size;
	struct segment *segment; /* recording: NULL */
};

static struct sr_map attachments; /* by address */
static struct sr_map segments;    /* by number, counted from 1 */
static struct sr_lock lock;       /* of what is in them */

static uint64_t key_of(int id)
{
	return (uint64_t)(uint32_t)id + 1;
}

/* --------------------------------------------------------------------- both */

static void attached(void *at, size_t size, struct segment *s)
{
	struct attachment *a = sr_alloc(sizeof(*a));
	void *old = NULL;

	if (!a)
		return;
	*a = (struct attachment){size, s};
	if (sr_map_put(&attachments, (uintptr_t)at, a, &old))
		old = a;
	sr_free(old);
}

static void release(struct segment *s)
{
	sr_map_take(&segments, key_of(s->id));
	sr_sys_munmap(s->memory, s->size);
	sr_free(s);
}

static void detached(struct segment *s)
{
	if (s && !--s->attached && s->removed)
		release(s);
}

/* Returns the size that shmdt does not get. */
static size_t size_at(uintptr_t at)
{
	struct attachment *a = sr_map_get(&attachments, at);

	return a ? a->size : 0;
}

/* munmap ends an attachment, too. */
void sr_segment_ends(void *addr, size_t size)
{
	uintptr_t at = (uintptr_t)addr;
	struct attachment *gone;
	enum sr_heap before;

	if (!sr_map_get(&attachments, at))
		return;
	before = sr_enter(&sr_self);
	sr_lock(&lock);
	gone = size_at(at) <= size ? sr_map_take(&attachments, at) : NULL;
	if (gone) {
		detached(gone->segment);
		sr_free(gone);
	}
	sr_unlock(&lock);
	sr_leave(&sr_self, before);
}

void sr_put_shm_change(struct sr_buf *b, const void *wanted)
{
	struct shmid_ds ds;
	uint32_t looked_at[3];

	/* The kernel will refuse it. */
	if (!sr_is_readable(wanted, sizeof(ds))) {
		sr_put_bytes(b, NULL, 0);
		return;
	}
	memcpy(&ds, wanted, sizeof(ds));
	looked_at[0] = ds.shm_perm.uid;
	looked_at[1] = ds.shm_perm.gid;
	looked_at[2] = ds.shm_perm.mode;
	sr_put_bytes(b, looked_at, sizeof(looked_at));
}

/* ---------------------------------------------------------------- recording */

/* 0 if the size is unknown: then the segment cannot be attached either. */
static size_t look_at(int id)
{
	struct shmid_ds ds;

	sr_self.segment_empty = false;
	if (sr_syscall(SYS_shmctl, id, IPC_STAT, SR_ARG(&ds), 0, 0, 0))
		return 0;
	sr_self.segment_empty = !ds.shm_atime;
	return sr_page_up(ds.shm_segsz);
}

static uint64_t place(size_t size)
{
	static _Atomic uintptr_t where = SR_SEGMENTS;
	size_t room = (size + 2 * ALIGNMENT - 1) & ~(ALIGNMENT - 1);

	return atomic_fetch_add_explicit(&where, room, memory_order_relaxed);
}

/*
 * With SHM_REMAP, what was at the address ends first: if that was the last attachment of a removed
 * segment, there would be nothing left to attach.  So it is attached elsewhere meanwhile.
 */
static uint64_t attach_instead(const struct sr_call_desc *d, uint64_t *a, size_t size)
{
	long held = sr_syscall(SYS_shmat, (int)a[0], 0, SHM_RDONLY, 0, 0, 0);
	uint64_t result;
	int error;

	sr_heap_mapping_ends((void *)sr_page_down(a[1]), size);
	result = sr_real(d, a);
	error = errno;
	if (!sr_sys_is_error((void *)held))
		sr_syscall(SYS_shmdt, held, 0, 0, 0, 0, 0);
	errno = error;
	return result;
}

/* Of ordinary pages, as mappings are (huge_pages.h). */
uint64_t sr_invoke_shmget(const struct sr_call_desc *d, uint64_t *a)
{
	const uint64_t made[6] = {a[0], a[1], (uint64_t)sr_without_huge_pages((int)a[2], SHM_HUGETLB)};

	return sr_real(d, sr_has_huge_pages ? made : a);
}

uint64_t sr_invoke_shmat(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t placed[3] = {a[0], a[1], a[2]}, result;
	size_t size = look_at((int)a[0]);
	int error;

	/* An attachment that a library makes is not the program's. */
	if (!a[1] && size && sr_self.depth == 1)
		placed[1] = place(size);
	result = a[1] && a[2] & SHM_REMAP ? attach_instead(d, a, size) : sr_real(d, placed);
	/* If the range is in use, let the kernel choose. */
	if (result == (uint64_t)-1 && errno == EINVAL && placed[1] != a[1])
		result = sr_real(d, a);
	if (result == (uint64_t)-1)
		return result;
	error = errno;
	sr_self.segment_size = size;
	attached((void *)result, size, NULL);
	errno = error;
	return result;
}

uint64_t sr_invoke_shmdt(const struct sr_call_desc *d, uint64_t *a)
{
	size_t size = size_at(a[0]);
	uint64_t result;
	int error = errno;

	if (size)
		sr_heap_mapping_ends((void *)a[0], size);
	result = sr_real(d, a);
	if (!size || !(int)result)
		return result;
	/* It was exposed memory, of which only the user mapping is left. */
	errno = error;
	return (uint64_t)sr_sys_munmap((void *)a[0], size);
}

/* ------------------------------------------------------------------- replay */

static struct segment *find_or_make(int id, size_t size)
{
	struct segment *s = sr_map_get(&segments, key_of(id));
	void *old;

	if (s && s->size == size)
		return s;
	/* The system has used the id again. */
	if (s && !s->attached)
		release(s);
	s = sr_alloc_zeroed(sizeof(*s));
	if (!s)
		return NULL;
	s->id = id;
	s->size = size;
	s->memory = sr_sys_mmap(sr_heap_place_mapping(size), size, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!sr_sys_is_error(s->memory) && !sr_map_put(&segments, key_of(id), s, &old))
		return s;
	sr_free(s);
	return NULL;
}

/* With an old length of 0, mremap makes a second mapping of the same memory. */
static long lay(const struct segment *s, uint64_t at, int flags)
{
	int protection = PROT_READ | (flags & SHM_RDONLY ? 0 : PROT_WRITE) |
			 (flags & SHM_EXEC ? PROT_EXEC : 0);
	int how = flags & SHM_REMAP ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	void *p = sr_sys_mmap((void *)at, s->size, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
	long result;

	if (sr_sys_is_error(p))
		return (long)p;
	result = sr_syscall(SYS_mremap, SR_ARG(s->memory), 0, (long)s->size,
			    MREMAP_MAYMOVE | MREMAP_FIXED, (long)at, 0);
	if (sr_sys_is_error((void *)result))
		return result;
	return sr_syscall(SYS_mprotect, (long)at, (long)s->size, protection, 0, 0, 0);
}

static void __attribute__((noreturn)) cannot_attach(uint64_t at, size_t size, long error)
{
	sr_say("the program attached %zu bytes of shared memory at %#llx when it was recorded, which "
	       "cannot be mapped there now (%s)",
	       size, (unsigned long long)at, strerrorname_np((int)-error));
	sr_engine->fail();
}

void sr_replayed_shmat(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	size_t size = sr_self.segment_size;
	struct segment *s;
	long err;

	if (result == (uint64_t)-1)
		return;
	if (a[2] & SHM_REMAP)
		sr_heap_mapping_ends((void *)result, size);
	sr_lock(&lock);
	s = find_or_make((int)a[0], size);
	err = s ? lay(s, result, (int)a[2]) : -ENOMEM;
	if (err)
		cannot_attach(result, size, err);
	s->attached++;
	attached((void *)result, size, s);
	sr_unlock(&lock);
}

void sr_replayed_shmdt(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	size_t size = size_at(a[0]);

	if ((int)result || !size)
		return;
	sr_heap_mapping_ends((void *)a[0], size);
	sr_sys_munmap((void *)a[0], size);
}

/* A removed segment lasts until nothing has it attached. */
void sr_replayed_shmctl(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct segment *s;

	if ((int)result || (int)a[1] != IPC_RMID)
		return;
	sr_lock(&lock);
	s = sr_map_get(&segments, key_of((int)a[0]));
	if (s) {
		s->removed = true;
		if (!s->attached)
			release(s);
	}
	sr_unlock(&lock);
}
