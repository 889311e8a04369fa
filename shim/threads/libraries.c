/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/libraries.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "shim/core/engine.h"
#include "shim/core/plain_text.h"
#include "shim/core/thread.h"

#define LIBRARIES 32

static struct {
	uintptr_t start, end;
} libraries[LIBRARIES];
static int n_libraries;

static struct kept {
	const char *soname;
	_Atomic bool is_kept;
} kept[] = {{.soname = "libibverbs.so.1"}, {.soname = "librdmacm.so.1"}};

/* Recognises a library by its file name; providers are in a directory of libibverbs. */
static bool is_of_verbs(const char *path)
{
	static const char *const names[] = {
	    "libibverbs.so", "librdmacm.so", "libnl-3.so", "libnl-route-3.so", "libmlx4.so",
	    "libmlx5.so", "libefa.so", "libmana.so",
	    /* The unwinder: it reads the shim's frames, too. */
	    "libgcc_s.so"};
	const char *file = sr_plain_file(path);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(file, names[i], strlen(names[i])))
			return true;
	return strstr(path, "/libibverbs/") && strstr(file, "-rdmav");
}

/* From its first segment to its last. */
static int note_library(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t start = UINTPTR_MAX, end = 0;

	if (n_libraries == LIBRARIES || !is_of_verbs(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
	}
	if (start < end) {
		libraries[n_libraries].start = start;
		libraries[n_libraries].end = end;
		n_libraries++;
	}
	return 0;
}

bool sr_is_verbs_library(const void *place)
{
	for (int i = 0; i < n_libraries; i++)
		if ((uintptr_t)place - libraries[i].start < libraries[i].end - libraries[i].start)
			return true;
	return false;
}

void sr_verbs_libraries_find(void)
{
	dl_iterate_phdr(note_library, NULL);
}

static int is_loaded(struct dl_phdr_info *info, size_t size, void *library)
{
	const struct kept *k = library;

	return !strncmp(sr_plain_file(info->dlpi_name), k->soname, strlen(k->soname));
}

void sr_verbs_libraries_keep(void)
{
	enum sr_heap before;

	if ((!sr_engine && !sr_waiting) || sr_self.depth)
		return;
	before = sr_enter(&sr_self);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!kept[i].is_kept && dl_iterate_phdr(is_loaded, &kept[i]))
			kept[i].is_kept = dlopen(kept[i].soname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
	sr_leave(&sr_self, before);
}
