/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * code.c: the program's code, as its files have it.
 *
 * Parts of the files are mapped a second time, and stay mapped: a path, which may lead over a network, is opened for
 * the first instruction there and not for each.
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

#define INT3 0xcc

#define TEXTS_MAX 16

static struct kept {
	uint64_t offset, inode;
	uint32_t device;
	struct text text; /* its file is NULL: the entry is free */
} kept[TEXTS_MAX];
static unsigned int kept_n; /* how many there ever were */
static uintptr_t next_text = TEXTS_BASE;

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

/* No more of it than is needed: a program may count its address space, or lock all of it. */
static struct text part_around(uintptr_t pc, const struct mapped_file *f)
{
	uintptr_t at = pc & ~(TEXT_NEAR - 1);

	return (struct text){.begin = at - f->begin < f->end - f->begin && at - f->begin > TEXT_NEAR ? at - TEXT_NEAR : f->begin,
			     .end = f->end - at > 2 * TEXT_NEAR ? at + 2 * TEXT_NEAR : f->end};
}

static const struct text *text_of(uintptr_t pc, const struct mapped_file *f)
{
	struct kept *k = &kept[kept_n % TEXTS_MAX];
	struct text part = part_around(pc, f);

	for (unsigned int i = 0; i < TEXTS_MAX; i++)
		if (is_of(&kept[i], f) && kept[i].text.begin == part.begin && kept[i].text.end == part.end)
			return &kept[i].text;
	part.file = map_file(f, f->offset + (part.begin - f->begin), part.end - part.begin);
	if (!part.file)
		return NULL;
	if (k->text.file)
		sr_sys_munmap((void *)k->text.file, k->text.end - k->text.begin);
	*k = (struct kept){f->offset + (part.begin - f->begin), f->inode, f->device, part};
	kept_n++;
	return &k->text;
}

bool text_at(uintptr_t pc, struct text *t)
{
	const struct text *known;
	struct mapped_file f;

	known = map_file_of(pc, &f) ? text_of(pc, &f) : NULL;
	if (!known)
		return false;
	*t = *known;
	t->is_text = f.is_text;
	return true;
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
	if (!text_at(pc, &t))
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
