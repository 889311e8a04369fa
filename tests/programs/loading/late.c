/* SPDX-License-Identifier: BSD-2-Clause */
/* late.c: a program that loads libibverbs when it already runs, as Python and UCX do.  MODULE */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*use_a_device)(void) = module ? (int (*)(void))dlsym(module, "use_a_device") : NULL;

	if (!use_a_device) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return use_a_device();
}
