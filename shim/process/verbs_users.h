/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_users.h: tells a program that will use verbs from a shell or a launcher, when it starts.
 */
#ifndef SHIM_PROCESS_VERBS_USERS_H
#define SHIM_PROCESS_VERBS_USERS_H

#include <stdbool.h>

/*
 * Has this process loaded libibverbs, or a library that loads it later by dlopen?  Or is it an interpreter that a
 * launcher of parallel jobs has started (`mpirun python3 ...`)?  For start-up, before
 * the constructors of any library.
 */
bool sr_process_uses_verbs(void);

/*
 * Does the executable name libibverbs, as one does that loads it by dlopen?  Or does an argument name a plugin that is linked
 * with one of these libraries, or a script that loads one?  Called once, when the process starts.
 */
bool sr_names_verbs(char **argv);

#endif
