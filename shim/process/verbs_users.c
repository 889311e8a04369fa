/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/verbs_users.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

/*
 * The beginnings of sonames.  Behind libibverbs come those libraries that load it as a plugin's
 * dependency: with them the program does not name it, and is recorded from its start all the same.
 */
static const char *const libraries[] = {
    "libibverbs.so.",
    /* UCX: its modules are linked with libibverbs. */
    "libucp.so.",
    "libuct.so.",
    "libfabric.so.",
    /* OpenMPI, MVAPICH, Intel MPI; MPICH. */
    "libmpi.so.",
    "libmpi_cxx.so.",
    "libmpich.so.",
    "liboshmem.so.",
    "libnvshmem_host.so.",
    "libnccl.so.",
    /* Mercury, and what is built on it. */
    "libna.so.",
    "libmercury.so.",
    "libdaos.so.",
    /* GlusterFS. */
    "libgfapi.so.",
    "libspdk_nvme.so.",
};

static int uses_verbs(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (!strncmp(name, libraries[i], strlen(libraries[i])))
			return 1;
	return 0;
}

bool sr_process_uses_verbs(void)
{
	return dl_iterate_phdr(uses_verbs, NULL);
}
