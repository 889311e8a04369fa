/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * old_versions.c: programs built against older versions of the functions.
 *
 * libibverbs keeps the functions that programs of 2006 call as ibv_x@IBVERBS_1.0: the same names
 * with other structs.  The wrappers are versioned (ibv_x@@IBVERBS_1.1), so such a program finds
 * libibverbs's old function.  That translates the structs and calls ibv_x@@IBVERBS_1.1 by its
 * procedure linkage table, which leads to the wrapper.  So what the old function does is recorded,
 * including the data path, and replayed below it.
 *
 * That is so on Debian.  A libibverbs that was linked with -Bsymbolic-functions (Ubuntu's) calls
 * its own functions directly.  Then such a program is not recorded, and a message says so.
 *
 * libmlx5 has two versions of one function: mlx5dv_init_obj@MLX5_1.0 is refused like the newer.
 */
#include <dlfcn.h>
#include <errno.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/calls/direct.h"
#include "shim/verbs/objects.h"
#include "shim/calls/real.h"
#include "logd/base/say.h"
#include "shim/core/symbols.h"
#include "shim/core/thread.h"

SR_EXPORT void *sr_open_device_1_0(void *device);
__asm__(".symver sr_open_device_1_0, ibv_open_device@IBVERBS_1.0, remove");

SR_EXPORT int sr_init_obj_1_0(void *obj, uint64_t type);
__asm__(".symver sr_init_obj_1_0, mlx5dv_init_obj@MLX5_1.0, remove");

static void *old_function(const char *library, const char *name, const char *version)
{
	enum sr_heap before = sr_enter(&sr_self);
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	void *f = handle ? sr_dlvsym(handle, name, version) : NULL;

	sr_leave(&sr_self, before);
	return f;
}

void *sr_open_device_1_0(void *device)
{
	void *(*open_device)(void *) =
	    (void *(*)(void *))old_function("libibverbs.so.1", "ibv_open_device", "IBVERBS_1.0");
	uint32_t contexts = sr_contexts_seen();
	void *context;

	if (!open_device) {
		errno = ENOSYS;
		return NULL;
	}
	context = open_device(device);
	if (context && (sr_engine || sr_waiting) && contexts == sr_contexts_seen())
		sr_say("this program was built for verbs older than IBVERBS_1.1, which this build "
		       "of libibverbs keeps to itself: what it does with its device is not "
		       "recorded");
	return context;
}

int sr_init_obj_1_0(void *obj, uint64_t type)
{
	const struct sr_call_desc *d = &sr_calls[SR_CALL_mlx5dv_init_obj];
	const uint64_t a[] = {(uintptr_t)obj, type};
	int (*init_obj)(void *, uint64_t);

	if (sr_direct_refuses(d, a))
		return (int)sr_direct_failure(d);
	init_obj =
	    (int (*)(void *, uint64_t))old_function("libmlx5.so.1", "mlx5dv_init_obj", "MLX5_1.0");
	return init_obj ? init_obj(obj, type) : EOPNOTSUPP;
}
