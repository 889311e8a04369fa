/* SPDX-License-Identifier: BSD-2-Clause */
/* loads_main.c: `loads_main MODULE ARGUMENT...` loads MODULE, and calls its main() as if it were the program. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "main") : NULL;

	if (!run) {
		fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "which module?");
		return 2;
	}
	return run(argc - 1, argv + 1);
}
