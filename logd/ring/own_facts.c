/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/own_facts.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"

/* Arguments and environment of a process are 6 MiB at most, by default 2.  Only what is written takes memory. */
#define AREA_BYTES (8ul << 20)

static size_t read_link(const char *path, char *text, size_t size)
{
	long n = sr_syscall(SYS_readlink, SR_ARG(path), SR_ARG(text), (long)size, 0, 0, 0);

	return n < 0 || (size_t)n == size ? 0 : (size_t)n;
}

static size_t read_file(const char *path, char *text, size_t size)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0), n = 1;
	size_t got = 0;

	if (fd < 0)
		return 0;
	while (n > 0 && got < size) {
		n = sr_sys_read((int)fd, text + got, size - got);
		got += n > 0 ? (size_t)n : 0;
	}
	sr_sys_close((int)fd);
	return n ? 0 : got;
}

void sr_own_facts_read(struct sr_own_facts *f)
{
	static const struct {
		const char *path;
		size_t (*read)(const char *path, char *text, size_t size);
	} sources[SR_FACTS] = {
	    [SR_FACT_EXECUTABLE] = {"/proc/self/exe", read_link},
	    [SR_FACT_DIRECTORY] = {"/proc/self/cwd", read_link},
	    [SR_FACT_ENVIRONMENT] = {"/proc/self/environ", read_file},
	    [SR_FACT_MAPS] = {"/proc/self/maps", read_file},
	    [SR_FACT_MOUNTS] = {"/proc/self/mountinfo", read_file},
	};
	size_t used = 0;
	char *area;

	*f = (struct sr_own_facts){.area = NULL};
	area = sr_sys_mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sr_sys_is_error(area))
		return;
	f->area = area;
	for (int i = 0; i < SR_FACTS; i++) {
		f->texts[i].iov_base = area + used;
		f->texts[i].iov_len = sources[i].read(sources[i].path, area + used, AREA_BYTES - used);
		used += f->texts[i].iov_len;
	}
}

void sr_own_facts_free(struct sr_own_facts *f)
{
	if (f->area)
		sr_sys_munmap(f->area, AREA_BYTES);
	f->area = NULL;
}
