/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * installed.h: where the other parts of sreplay are: beside this executable, in a build
 * tree or an installation.  Each sr_find function returns false after a message if its part is missing.
 */
#ifndef REPLAY_HOST_START_INSTALLED_H
#define REPLAY_HOST_START_INSTALLED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The path of this executable, as it was at the first call: main() makes it.  In a chroot the kernel names it by its path outside
 * when the process has mounts of its own.  "": it cannot be read.
 */
const char *sr_installed_self(void);

/* Without it nothing is recorded or replayed.  False after a message. */
bool sr_installed_has_proc(void);

bool sr_find_shim(char *path, size_t size);
bool sr_find_daemon(char *path, size_t size);
bool sr_find_gdb_commands(char *path, size_t size);

#endif
