/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * code.c: the program's code, as its files have it.
 *
 * Files are mapped once more, and for good: their paths, which may lead over a network, are gone for the first
 * instruction of a library, and not for each.
 */
#include "shim/window/code.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "logd/rawsys.h"
#include "shim/window/map.h"
#include "shim/window/page.h"
#include "shim/window/sites.h"

#define INT3 0xcc

#define TEXTS_MAX 16

static struct kept {
	struct mapped_file of;
	const uint8_t *file;
} kept[TEXTS_MAX];
static unsigned int kept_n; /* ever */
static uintptr_t next_text = TEXTS_BASE;

static bool is_of(const struct kept *k, const struct mapped_file *f)
{
	return k->file && k->of.begin == f->begin && k->of.end == f->end && k->of.offset == f->offset &&
	       !strcmp(k->of.path, f->path);
}

/* NULL: it cannot be mapped, or a part of it would be no more than a SIGBUS. */
static const uint8_t *map_file(const struct mapped_file *f)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(f->path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	size_t size = f->end - f->begin;
	void *p = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!sr_syscall(SYS_fstat, fd, SR_ARG(&st), 0, 0, 0, 0) && f->offset + size < (uint64_t)st.st_size + PAGE)
		p = sr_sys_mmap((void *)next_text, size, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, (int)fd,
				(off_t)f->offset);
	sr_sys_close((int)fd);
	if (p != (void *)next_text)
		return NULL;
	next_text += size + PAGE;
	return p;
}

static const uint8_t *file_of(const struct mapped_file *f)
{
	struct kept *k = &kept[kept_n % TEXTS_MAX];
	const uint8_t *file;

	for (unsigned int i = 0; i < TEXTS_MAX; i++)
		if (is_of(&kept[i], f))
			return kept[i].file;
	file = map_file(f);
	if (!file)
		return NULL;
	if (k->file)
		sr_sys_munmap((void *)k->file, k->of.end - k->of.begin);
	*k = (struct kept){*f, file};
	kept_n++;
	return file;
}

bool text_at(uintptr_t pc, struct text *t)
{
	struct mapped_file f;

	if (!map_file_of(pc, &f) || !f.is_text)
		return false;
	*t = (struct text){f.begin, f.end, file_of(&f)};
	return t->file;
}

/*
 * A debugger that is to step over a breakpoint, and is told of a SIGSEGV, puts a
 * breakpoint where the handler will return to: over the very instruction that the
 * handler is about to decode.  What was there is still in the program's file.
 */
static const uint8_t *below_breakpoint(uintptr_t pc)
{
	static uint8_t code[CODE_MAX];
	static uintptr_t of;
	struct text t;

	if (of == pc)
		return code;
	if (!text_at(pc, &t) || t.end - pc < CODE_MAX)
		return (const uint8_t *)pc;
	of = pc;
	memcpy(code, t.file + (pc - t.begin), sizeof(code));
	return code;
}

const uint8_t *code_at(uintptr_t pc)
{
	const uint8_t *original = sites_code(pc);

	if (original)
		return original;
	return *(const uint8_t *)pc == INT3 ? below_breakpoint(pc) : (const uint8_t *)pc;
}
