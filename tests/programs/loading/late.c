/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * late.c: a program that loads libibverbs when it already runs, as Python and UCX do: as a dependency of MODULE or, if it is
 * told of none, of late_module.so beside it.
 * Before, it moves its environment and writes over what the kernel gave it, as servers do that show a title in ps.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void move_environment(void)
{
	size_t n = 0;
	char **moved;

	while (environ[n])
		n++;
	moved = calloc(n + 1, sizeof(*moved));
	for (size_t i = 0; moved && i < n; i++) {
		moved[i] = strdup(environ[i]);
		memset(environ[i], 0, strlen(environ[i]));
	}
	environ = moved;
}

int main(int argc, char **argv)
{
	char beside[4096];
	void *module;
	int (*use_a_device)(void);

	move_environment();
	snprintf(beside, sizeof(beside), "%s_module.so", argv[0]);
	module = dlopen(argc > 1 ? argv[1] : beside, RTLD_NOW | RTLD_LOCAL);
	use_a_device = module ? (int (*)(void))dlsym(module, "use_a_device") : NULL;

	if (!use_a_device) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return use_a_device();
}
