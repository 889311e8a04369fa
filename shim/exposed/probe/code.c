/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * code.c: the program's code, as its files have it, or as the program has made it.
 *
 * Parts of the files are mapped a second time, and stay mapped: a path, which may lead over a network, is opened for
 * the first instruction there and not for each.  Of made code there is a copy, without what probes have written.
 */
#include "shim/exposed/probe/code.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/page/page.h"
#include "shim/exposed/probe/write.h"

#define INT3 0xcc

#define TEXTS_MAX 16

static struct kept {
	uint64_t offset, inode;
	uint32_t device;
	struct text text; /* its file is NULL: the entry is free */
} kept[TEXTS_MAX];
static unsigned int kept_n; /* how many there ever were */
static uintptr_t next_text = TEXTS_BASE;
static bool takes_made;
static _Atomic bool any_made;
static _Atomic uint32_t changing; /* calls that are under way */

static bool is_of(const struct kept *k, const struct mapped_file *f)
{
	return k->text.file && k->inode == f->inode && k->device == f->device &&
	       k->text.begin - k->offset == f->begin - f->offset && k->text.begin >= f->begin && k->text.end <= f->end;
}

/* NULL: it cannot be mapped, or a part of it would only raise SIGBUS. */
static const uint8_t *map_file(const struct mapped_file *f, uint64_t offset, size_t size)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(f->path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	void *p = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!sr_syscall(SYS_fstat, fd, SR_ARG(&st), 0, 0, 0, 0) && offset + size < (uint64_t)st.st_size + PAGE)
		p = sr_sys_mmap((void *)next_text, size, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, (int)fd, (off_t)offset);
	sr_sys_close((int)fd);
	if (p != (void *)next_text)
		return NULL;
	next_text += size + PAGE;
	return p;
}

/* NULL: there is no memory for it, or a part of it is gone. */
static const uint8_t *copy_made(uintptr_t begin, size_t size)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint8_t *p = sr_sys_mmap((void *)next_text, size, prot, flags, -1, 0);
	int memory;
	bool has;

	if (p != (uint8_t *)next_text)
		return NULL;
	memory = code_open();
	has = memory >= 0 && sr_syscall(SYS_pread64, memory, SR_ARG(p), (long)size, (long)begin, 0, 0) == (long)size;
	if (memory >= 0)
		sr_sys_close(memory);
	if (!has) {
		sr_sys_munmap(p, size);
		return NULL;
	}
	probes_originals(begin, p, size);
	next_text += size + PAGE;
	any_made = true;
	return p;
}

/* No more of it than is needed: a program may count its address space, or lock all of it. */
static struct text part_around(uintptr_t pc, const struct mapped_file *f)
{
	uintptr_t at = pc & ~(TEXT_NEAR - 1);

	return (struct text){.begin = at - f->begin < f->end - f->begin && at - f->begin > TEXT_NEAR ? at - TEXT_NEAR : f->begin,
			     .end = f->end - at > 2 * TEXT_NEAR ? at + 2 * TEXT_NEAR : f->end};
}

static void free_text(struct kept *k)
{
	if (k->text.file)
		sr_sys_munmap((void *)k->text.file, k->text.end - k->text.begin);
	k->text.file = NULL;
}

static const struct text *text_of(uintptr_t pc, const struct mapped_file *f)
{
	struct kept *k = &kept[kept_n % TEXTS_MAX];
	struct text part = part_around(pc, f);

	for (unsigned int i = 0; i < TEXTS_MAX; i++)
		if (is_of(&kept[i], f) && kept[i].text.begin == part.begin && kept[i].text.end == part.end)
			return &kept[i].text;
	part.is_made = !f->path[0];
	part.file = part.is_made ? NULL : map_file(f, f->offset + (part.begin - f->begin), part.end - part.begin);
	/* A file may be gone, or be named wrongly: on overlays on each other the kernel gives its path in the lower one. */
	if (!part.file)
		part.file = copy_made(part.begin, part.end - part.begin);
	if (!part.file)
		return NULL;
	free_text(k);
	*k = (struct kept){f->offset + (part.begin - f->begin), f->inode, f->device, part};
	kept_n++;
	return &k->text;
}

bool text_at(uintptr_t pc, struct text *t)
{
	const struct text *known;
	struct mapped_file f;

	if (!map_code_of(pc, &f) || (!f.path[0] && (!takes_made || changing)))
		return false;
	known = text_of(pc, &f);
	if (!known)
		return false;
	*t = *known;
	t->is_text = f.is_text;
	return true;
}

bool text_changes(uintptr_t begin, uintptr_t end)
{
	bool any = false;

	for (unsigned int i = 0; i < TEXTS_MAX; i++) {
		struct kept *k = &kept[i];

		if (!k->text.file || !k->text.is_made || k->text.begin >= end || k->text.end <= begin)
			continue;
		free_text(k);
		any = true;
	}
	return any;
}

void text_take_made_code(void)
{
	takes_made = true;
}

bool text_change_begins(void)
{
	changing++;
	return any_made;
}

void text_change_ends(void)
{
	changing--;
}

/*
 * A debugger that steps over a breakpoint, and is notified of a SIGSEGV, puts a breakpoint where the handler will
 * return to: over the very instruction that the handler is about to decode.  The program's file still has what was
 * there.
 */
static const uint8_t *below_breakpoint(uintptr_t pc)
{
	static uint8_t code[CODE_MAX];
	static uintptr_t of;
	struct text t;

	if (of == pc)
		return code;
	/* Made code has no other source. */
	if (!text_at(pc, &t) || t.is_made)
		return (const uint8_t *)pc;
	of = pc;
	memset(code, 0, sizeof(code));
	memcpy(code, t.file + (pc - t.begin), t.end - pc < CODE_MAX ? t.end - pc : CODE_MAX);
	return code;
}

const uint8_t *code_at(uintptr_t pc)
{
	return *(const uint8_t *)pc == INT3 ? below_breakpoint(pc) : (const uint8_t *)pc;
}
