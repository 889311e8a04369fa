/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/loaded.h"

#include <link.h>
#include <stddef.h>

#include "shim/core/next.h"

/* What glibc's _dl_find_object tells (struct dl_find_object): headers before 2.35 do not have it.
 */
struct found {
	unsigned long long flags;
	void *begin, *end;
	struct link_map *object;
	void *unwinding;
	unsigned long long reserved[7];
};

/* NULL: an earlier glibc, whatever this was built with. */
extern int find_object(void *address, struct found *found) __asm__("_dl_find_object")
    __attribute__((weak));

static struct sr_loaded loaded_of(const struct dl_phdr_info *info)
{
	struct sr_loaded object = {
	    .begin = UINTPTR_MAX, .base = info->dlpi_addr, .name = info->dlpi_name};

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uintptr_t begin = info->dlpi_addr + segment->p_vaddr,
				end = begin + segment->p_memsz;

		if (segment->p_type != PT_LOAD)
			continue;
		if (begin < object.begin)
			object.begin = begin;
		if (end > object.end)
			object.end = end;
	}
	return object;
}

typedef int (*callback)(struct dl_phdr_info *info, size_t size, void *argument);

/* libc's own: the shim wraps it for the program. */
static bool any(callback look, void *argument)
{
	SR_NEXT(next, "dl_iterate_phdr");
	int (*iterate)(callback, void *) = (int (*)(callback, void *))sr_next(&next);

	return iterate && iterate(look, argument);
}

struct sought {
	uintptr_t address;
	struct sr_loaded *object;
};

static int look_for(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct sought *sought = argument;
	struct sr_loaded object = loaded_of(info);

	if (sought->address < object.begin || sought->address >= object.end)
		return 0;
	*sought->object = object;
	return 1;
}

bool sr_loaded_at_by_list(uintptr_t address, struct sr_loaded *object)
{
	struct sought sought = {address, object};

	return any(look_for, &sought);
}

bool sr_loaded_at(uintptr_t address, struct sr_loaded *object)
{
	struct found found;

	if (!find_object)
		return sr_loaded_at_by_list(address, object);
	if (find_object((void *)address, &found))
		return false;
	*object = (struct sr_loaded){
	    .begin = (uintptr_t)found.begin,
	    .end = (uintptr_t)found.end,
	    .base = found.object->l_addr,
	    .name = found.object->l_name,
	};
	return true;
}

struct looking {
	bool (*look)(const struct sr_loaded *object, void *argument);
	void *argument;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *argument)
{
	const struct looking *looking = argument;
	struct sr_loaded object = loaded_of(info);

	return looking->look(&object, looking->argument);
}

void sr_loaded_each(bool (*look)(const struct sr_loaded *object, void *argument), void *argument)
{
	struct looking looking = {look, argument};

	any(look_at, &looking);
}
