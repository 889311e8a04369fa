/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inputs.h: the regular files that the recorded program opens.
 *
 * A replay reads the program's inputs again and expects them unchanged.  So the daemon notes the
 * size and a hash of the content when the program first opens a file.  It keeps the content if the
 * user asked for that, and of each input that will hardly be the same when the replay reads it: one
 * that the program is about to change or remove, and one that somebody (a child of the program,
 * say) has written since the recording began.  What the program writes itself, a replay makes
 * again.
 *
 * The wrappers of open and similar functions call this module, inside a section (sr_enter).
 */
#ifndef SHIM_FILES_INPUTS_H
#define SHIM_FILES_INPUTS_H

#include <stdbool.h>

#include "shim/core/opened_file.h"

struct sr_client;
struct sr_thread;

/*
 * keep: the daemon also keeps the content.  job: the process is a rank of a job, and may share files that it opens for writing
 * with the others (MPI-IO).
 */
void sr_files_start(struct sr_client *client, bool keep, bool job);
/* For a child process, which is not recorded. */
void sr_files_stop(void);

/* The program makes a child, which may change files that the program has written. */
void sr_files_child_made(void);

/*
 * The program is about to map the file in order to store into it.  From now on its content is
 * taken for the program's own, also where children write it.
 */
void sr_files_mapped(struct sr_thread *t, int fd);

/* The program renames a directory: the paths of inputs below are no longer what they were. */
void sr_files_moved(void);

/*
 * A child has ended: the next one of the files that the program has open for writing, and whose
 * content is not what it was when the child was made.  It is kept, and no other thread changes it
 * until sr_files_release().  *from: 0 at first; each file comes once, since another child may go on writing it.  Returns false
 * if there is none.
 */
bool sr_files_next_changed(uint32_t *from, struct sr_opened_file *file);
/* Call when there is none left. */
void sr_files_child_ended(void);

/*
 * Call before the program truncates the file of this path, gives its name to another one, or
 * removes it.  Keeps the content if the program has read it.  link: of a symbolic link, the file it
 * leads to.
 */
void sr_files_ends(int dirfd, const char *path, bool link);

/*
 * Call after the program has opened fd with these flags; fills in file, but not its class.  Until
 * sr_files_release() no other thread changes the file (write_order.h).  Notes
 * nothing but regular files, and no files in /proc and similar file systems, whose content the
 * kernel generates.  Of a file that is not small (small_inputs.h) it waits until the daemon has noted
 * it.  Preserves errno.  True: it is a regular file with content of its own; false: that is not known.
 */
bool sr_files_opened(int fd, int flags, struct sr_opened_file *file);
/* The same if the path may be there already; it is empty if not. */
bool sr_files_opened_at(int fd, int flags, struct sr_opened_file *file);

/*
 * Is this a file that others may be storing into: one that was written while the program ran or less
 * than a minute before, but was not made by it?  A launcher makes such files for its processes.
 */
bool sr_files_is_others(int fd);

/*
 * The program has locked this file.  Do other processes write it meanwhile?  So it is taken of a small one that the
 * descriptor can read: what it reads there is recorded from then on.
 */
bool sr_files_is_shared(int fd);

/* The file may be gone when the replay opens it: keeps its content. */
void sr_files_keep(int fd);

/* Does the kernel generate the content of this file (/proc, /sys, ...)? */
bool sr_files_made_up(int fd);

#endif
