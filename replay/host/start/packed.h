/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packed.h: the executables and libraries that `sreplay pack` put into a trace.
 *
 * A trace has them in packed/D/NAME: D is a hash of the directory that has the file, NAME the file's
 * name there.  A replay uses them where an installed file is missing or not the recorded one, in a
 * mount namespace of its own: what is packed for such a directory lies over the directory.  packed/tree has the directories
 * themselves, without files, for machines that lack them.
 * sreplay's own library is never packed, because it belongs to the command.
 */
#ifndef REPLAY_HOST_START_PACKED_H
#define REPLAY_HOST_START_PACKED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define SR_PACKED "packed"

/* ld.so's list of libraries.  It takes room among them, and has the paths by which they are found. */
#define SR_PACKED_CACHE "/etc/ld.so.cache"
/* Which of them were loaded by dlopen, that list among them: a list of {"path": }. */
#define SR_PACKED_LOADED SR_PACKED "/loaded.json"
/* That list, as a new array; empty if there is none. */
json_t *sr_packed_loaded(const char *trace);

/* Is it a file that is packed? */
bool sr_packed_may_be(const char *path);

/* Where a trace has the files of the path's directory: "packed/D". */
void sr_packed_directory(const char *path, char *name, size_t size);

/* Makes that directory; trace: that of the trace.  A descriptor, the caller's to close; or -errno. */
int sr_packed_make_directory(int trace, const char *path);

/* Does the trace have this object of process.json?  Then it is as recorded. */
bool sr_packed_has(const char *trace, const json_t *object, const char *path);

/* process: a rank's process.json.  Is there a file that is not installed as it was recorded, or loaded, but packed? */
bool sr_packed_is_needed(const char *trace, const json_t *process);

/*
 * Call in the process that is to become the program.  Puts what is needed in place, for this process
 * only.  False after a message.
 */
bool sr_packed_enter(const char *trace, const json_t *process);

#endif
