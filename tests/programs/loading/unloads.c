/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unloads.c: uses verbs, unloads them, and loads them again: by MODULE, a plugin with a function use_a_device, or libibverbs
 * itself. What is mapped meanwhile shows whether libraries come to the same addresses.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/mman.h>

static int plugin_used(void *module)
{
	int (*use_a_device)(void) = (int (*)(void))dlsym(module, "use_a_device");

	return use_a_device ? use_a_device() : 1;
}

static int verbs_used(void *libibverbs)
{
	struct ibv_device **(*get)(int *) = (struct ibv_device * *(*)(int *)) dlsym(libibverbs, "ibv_get_device_list");
	struct ibv_context *(*open)(struct ibv_device *) = (struct ibv_context * (*)(struct ibv_device *)) dlsym(libibverbs, "ibv_open_device");
	int (*close)(struct ibv_context *) = (int (*)(struct ibv_context *))dlsym(libibverbs, "ibv_close_device");
	struct ibv_device **list = get ? get(NULL) : NULL;
	struct ibv_context *context = list && list[0] ? open(list[0]) : NULL;

	return context ? close(context) : 1;
}

int main(int argc, char **argv)
{
	for (int round = 0; round < 3; round++) {
		void *library = dlopen(argc > 1 ? argv[1] : "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
		int status = !library ? 1 : argc > 1 ? plugin_used(library) : verbs_used(library);

		if (status || dlclose(library))
			return 1;
		printf("round %d: %p at %p\n", round, library,
		       mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	}
	return 0;
}
