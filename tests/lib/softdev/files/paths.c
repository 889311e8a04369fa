/* SPDX-License-Identifier: BSD-2-Clause */
/* paths.c: the path names that are served from the tree. */
#include "paths.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cm/cm.h"

#define DEVICES "/dev/infiniband"

/* Of files that a kernel without RDMA does not have. */
static const char *const served[] = {
    DEVICES,
    "/sys/class/infiniband",
    "/sys/class/infiniband_cm",
    "/sys/class/infiniband_mad",
    "/sys/class/infiniband_verbs",
    "/sys/class/misc/rdma_cm",
    "/sys/devices/virtual/infiniband",
    "/sys/devices/virtual/infiniband_verbs",
    "/sys/devices/virtual/misc/rdma_cm",
};

/*
 * "": not in a fabric. Nothing comes from the program's heap: in a recorded process libibverbs is the first to need the
 * tree, in its replay the program itself is, whose heap would differ then.
 */
static const char *find_tree(void)
{
	static char path[SF_ROOM]; /* two threads that are the first write the same bytes */
	const char *link = getenv("SOFTDEV_LINK");
	Dl_info here;
	int length;

	if (!getenv("SOFTDEV_FABRIC") || !dladdr((void *)find_tree, &here))
		return "";
	length = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
	length = snprintf(path, sizeof(path), "%.*s/tree%s%s", length, here.dli_fname, link ? "." : "", link ? link : "");
	return length < (int)sizeof(path) ? path : "";
}

/*
 * Where the files are. It is kept when it is first needed, which may be before this library's
 * constructors have run, and does not change when the program clears its environment.
 */
static const char *tree(void)
{
	static const char *_Atomic kept;
	const char *t = atomic_load_explicit(&kept, memory_order_acquire);

	if (!t) {
		t = find_tree();
		atomic_store_explicit(&kept, t, memory_order_release);
	}
	return t;
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

static bool is_served(const char *path)
{
	/* Nearly all calls are over after these letters. */
	if (strncmp(path, "/sys/", 5) && strncmp(path, "/dev/i", 6))
		return false;
	for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++)
		if (is_below(path, served[i]))
			return true;
	return false;
}

const char *sf_path(const char *path, char *room)
{
	const char *t;
	size_t length;

	if (!path || !is_served(path) || !*(t = tree()))
		return path;
	length = strlen(t);
	if (length + strlen(path) >= SF_ROOM)
		return path;
	memcpy(room, t, length);
	strcpy(room + length, path);
	return room;
}

void sf_hide_tree(char *path)
{
	const char *t = tree();

	if (*t && is_below(path, t) && is_served(path + strlen(t)))
		memmove(path, path + strlen(t), strlen(path + strlen(t)) + 1);
}

int sf_open_device(const char *path, int flags)
{
	if (!path || strncmp(path, DEVICES "/", sizeof(DEVICES)) || !*tree())
		return SF_NOT_A_DEVICE;
	return softdev_cm_open(path, flags);
}
