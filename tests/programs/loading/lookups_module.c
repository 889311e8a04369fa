/* SPDX-License-Identifier: BSD-2-Clause */
/* lookups_module.c: what lookups.c loads: it sees its own symbols by RTLD_DEFAULT, the program does
 * not. */
#include <dlfcn.h>

void *ask_for_default(const char *name);
int only_in_the_module(void);
int ibv_fork_init(void);
int the_modules_fork_init(void) __attribute__((alias("ibv_fork_init")));

void *ask_for_default(const char *name)
{
	/* Not as a jump, by which the program would be the caller. */
	void *volatile found = dlsym(RTLD_DEFAULT, name);

	return found;
}

int only_in_the_module(void)
{
	return 1;
}

/* A module may have a function of that name. */
int ibv_fork_init(void)
{
	return 2;
}
