/* SPDX-License-Identifier: BSD-2-Clause */
/* audit.c: a library for LD_AUDIT, as profilers have it, that hears of every binding. */
#include <link.h>

unsigned int la_version(unsigned int version);
unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie);

unsigned int la_version(unsigned int version)
{
	return version;
}

unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
