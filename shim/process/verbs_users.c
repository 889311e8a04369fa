/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/verbs_users.h"

#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "shim/core/setting.h"
#include "shim/core/variables.h"

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
    "librccl.so.",
    /* Mercury, and what is built on it. */
    "libna.so.",
    "libmercury.so.",
    "libdaos.so.",
    /* uDAPL: its providers are linked with librdmacm. */
    "libdat2.so.",
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

static bool is_rank_of_launcher(void)
{
	for (int i = 0; i < SR_LAUNCHER_RANKS; i++)
		if (sr_variable(sr_launcher_ranks[i]))
			return true;
	return false;
}

/* Interpreters, which load MPI as a module. */
static bool is_interpreter(void)
{
	static const char *const names[] = {"python", "julia", "pypy"};
	char path[PATH_MAX], *name;
	long n = sr_syscall(SYS_readlink, SR_ARG("/proc/self/exe"), SR_ARG(path), sizeof(path) - 1, 0, 0, 0);

	if (n <= 0)
		return false;
	path[n] = 0;
	name = strrchr(path, '/');
	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name + 1, names[i], strlen(names[i])))
			return true;
	return false;
}

/* A launcher's other processes, such as a shell around the program, are none: their child is the rank. */
bool sr_process_uses_verbs(void)
{
	return dl_iterate_phdr(uses_verbs, NULL) || (is_rank_of_launcher() && is_interpreter());
}
