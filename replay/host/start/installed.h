/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * installed.h: where the other parts of sreplay are: beside this executable, in a build
 * tree or an installation.  Each returns false after a message if its part is missing.
 */
#ifndef REPLAY_HOST_START_INSTALLED_H
#define REPLAY_HOST_START_INSTALLED_H

#include <stdbool.h>
#include <stddef.h>

bool sr_find_shim(char *path, size_t size);
bool sr_find_daemon(char *path, size_t size);
bool sr_find_gdb_commands(char *path, size_t size);

#endif
