/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/verbs_users.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "logd/base/recorder_mark.h"
#include "shim/core/settings.h"
#include "shim/process/python_imports.h"

/*
 * The beginnings of sonames.  Behind libibverbs come those libraries that load it as a plugin's
 * dependency: with them the program does not name it, and is recorded from its start all the same.
 */
static const char *const libraries[] = {
    "libibverbs.so.",
    "librdmacm.so.",
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

/* The program or one of its arguments names a library that it will load. */
static bool by_name;

static int uses_verbs(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (!strncmp(name, libraries[i], strlen(libraries[i])))
			return 1;
	return 0;
}

/* Interpreters, which load MPI or verbs as a module. */
static bool names_interpreter(const char *path)
{
	static const char *const names[] = {"python", "julia", "pypy"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static bool is_interpreter(void)
{
	char path[PATH_MAX];
	long n = sr_syscall(SYS_readlink, SR_ARG("/proc/self/exe"), SR_ARG(path), sizeof(path) - 1, 0, 0, 0);

	if (n <= 0)
		return false;
	path[n] = 0;
	return names_interpreter(path);
}

static bool has_one_of(const void *text, size_t size, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memmem(text, size, words[i], strlen(words[i])))
			return true;
	return false;
}

/* A plugin is linked with one of the libraries: their names are among its strings. */
static bool is_plugin(const void *file, size_t size, void *unused)
{
	return size > SELFMAG && !memcmp(file, ELFMAG, SELFMAG) && has_one_of(file, size, libraries, sizeof(libraries) / sizeof(libraries[0]));
}

/* Or code of an argument, behind -c. */
static bool is_script(const void *file, size_t size)
{
	static const char *const modules[] = {"pyverbs", "libibverbs", "librdmacm"};

	return has_one_of(file, size, modules, sizeof(modules) / sizeof(modules[0]));
}

/* Of the executable's text. */
#define LOOK_AT (16ul << 20)

static bool is_shared_object(const char *path)
{
	const char *end = strstr(path, ".so");

	return end && (!end[3] || end[3] == '.');
}

static bool executable_has(const struct dl_phdr_info *executable, const void *text, size_t length)
{
	for (int i = 0; i < executable->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &executable->dlpi_phdr[i];
		size_t n = segment->p_filesz < LOOK_AT ? segment->p_filesz : LOOK_AT;

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_R && !(segment->p_flags & PF_W) &&
		    memmem((void *)(executable->dlpi_addr + segment->p_vaddr), n, text, length))
			return true;
	}
	return false;
}

enum executable { NAMES_NONE, LOADS_LIBRARY, IS_RECORDER };

/*
 * An executable that loads the libraries by itself calls dlopen, and has their names among its constants.  (Tools that only
 * write to the library's files, or print its name, do not call it.)
 */
static enum executable kind_of(const struct dl_phdr_info *executable)
{
	static const char call[] = "\0dlopen", ibverbs[] = "libibverbs.so", rdmacm[] = "librdmacm.so";

	/* First, since most name neither, and each process that a recorded job starts looks for them. */
	if (!executable_has(executable, ibverbs, sizeof(ibverbs) - 1) && !executable_has(executable, rdmacm, sizeof(rdmacm) - 1))
		return NAMES_NONE;
	if (executable_has(executable, SR_RECORDER_MARK, sizeof(SR_RECORDER_MARK)))
		return IS_RECORDER;
	return executable_has(executable, call, sizeof(call)) ? LOADS_LIBRARY : NAMES_NONE;
}

static int look_at_executable(struct dl_phdr_info *executable, size_t size, void *found)
{
	*(enum executable *)found = kind_of(executable);
	return 1; /* what comes behind the first is no executable */
}

/* Code behind -c, a script, or the name of a module behind -m. */
static bool argument_imports(char **argv, bool (*is)(const void *text, size_t size))
{
	if (is(*argv, strlen(*argv)) || sr_script_imports(*argv, is))
		return true;
	return !strcmp(*argv, "-m") && argv[1] && sr_module_imports(argv[1], is);
}

/*
 * Servers are told which plugins they are to load, such as valkey-server --loadmodule valkey-rdma.so; interpreters, which
 * script they are to run.
 */
bool sr_names_verbs(char **argv)
{
	const bool interpreter = argv[0] && names_interpreter(argv[0]);
	enum executable what = NAMES_NONE;

	dl_iterate_phdr(look_at_executable, &what);
	by_name = what == LOADS_LIBRARY;
	/* A job that is recorded as a whole may start `sreplay record` for each rank: that is not the rank yet, whatever it names. */
	if (what == IS_RECORDER)
		return false;
	for (; !by_name && *argv; argv++)
		by_name = (is_shared_object(*argv) && sr_look_into_file(*argv, is_plugin, NULL)) ||
			  (interpreter && argument_imports(argv, is_script));
	return by_name;
}

/* A launcher's other processes, such as a shell around the program, are none: their child is the rank. */
bool sr_process_uses_verbs(void)
{
	return dl_iterate_phdr(uses_verbs, NULL) || (sr_launchers_rank() && is_interpreter()) || by_name;
}
