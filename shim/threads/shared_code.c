/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/shared_code.h"

#include <string.h>

#include "shim/exposed/page/mappings.h"
#include "shim/exposed/x86/atomics.h"
#include "shim/memory/heap.h"
#include "shim/threads/place.h"

/* ------------------------------------------------------------------------ files */

#define TEXTS_MAX 256
#define CHUNK	  65536

static struct text {
	uintptr_t begin, end;
	uint64_t inode;
	bool is_searched, is_shared;
} *texts;
static uint32_t texts_n;
static uint8_t *chunk;

static bool is_ordered(const char *path)
{
	static const char *const names[] = {"libc.so.", "libc-", "ld-linux", "ld-2", "libpthread", "libm.so.", "libm-",
					    "libgcc_s.", "libstdc++.", "libgomp.", "libsreplay_"};
	const char *name = strrchr(path, '/') + 1;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static void add(const struct mapped_file *f)
{
	struct text *t;

	for (uint32_t i = 0; i < texts_n; i++)
		if (texts[i].begin == f->begin && texts[i].end == f->end && texts[i].inode == f->inode)
			return;
	if (texts_n == TEXTS_MAX)
		return;
	t = &texts[texts_n++];
	*t = (struct text){.begin = f->begin, .end = f->end, .inode = f->inode, .is_searched = is_ordered(f->path)};
}

/* The last one: a file may have been mapped where another one was. */
static struct text *find(uintptr_t pc)
{
	for (uint32_t i = texts_n; i--;)
		if (pc - texts[i].begin < texts[i].end - texts[i].begin)
			return &texts[i];
	return NULL;
}

static void search(struct text *t)
{
	size_t n;

	t->is_searched = true;
	for (uintptr_t at = t->begin; at < t->end && !t->is_shared; at += CHUNK - ATOMICS_TAIL) {
		n = sr_place_read(chunk, at, t->end - at < CHUNK ? t->end - at : CHUNK);
		t->is_shared = code_has_atomics(chunk, n);
	}
}

static bool is_shared(struct text *t)
{
	if (!t->is_searched)
		search(t);
	return t->is_shared;
}

static bool begins(void)
{
	if (!texts)
		texts = sr_alloc_zeroed(TEXTS_MAX * sizeof(*texts));
	if (!chunk)
		chunk = sr_alloc(CHUNK);
	if (!texts || !chunk)
		return false;
	map_each_text(add);
	return texts_n < TEXTS_MAX;
}

/* ------------------------------------------------------------------------ stacks */

#define STACK_MAX 16384

/* Of what these words point to, is some in shared code? */
static bool is_any_shared(const uintptr_t *word, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct text *t = find(word[i]);

		if (t && is_shared(t))
			return true;
	}
	return false;
}

bool sr_code_is_shared(uintptr_t pc, uintptr_t sp, uintptr_t top)
{
	uintptr_t words[64];
	struct text *t;
	size_t n;

	if (!begins())
		return true;
	t = find(pc);
	if (!t || is_shared(t))
		return true;
	if (top < sp || top - sp > STACK_MAX)
		top = sp + STACK_MAX;
	for (; sp < top; sp += sizeof(words)) {
		n = sr_place_read(words, sp, top - sp < sizeof(words) ? top - sp : sizeof(words)) / sizeof(words[0]);
		if (is_any_shared(words, n))
			return true;
		if (n < sizeof(words) / sizeof(words[0]))
			break;
	}
	return false;
}
