/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forking.h: the recorded process forks, and its child is recorded, too.
 *
 * The child's recording is a trace of its own, in the directory of its parent's image
 * (SR_CHILD_DIR).  It goes on where the fork left it: the same thread, memory, descriptors and
 * signal handlers, and SNs behind the fork's.
 */
#ifndef SHIM_RECORD_FORKING_H
#define SHIM_RECORD_FORKING_H

#include <stdbool.h>
#include <stdint.h>

struct sr_image_origin;
struct sr_settings;
struct sr_thread;

/*
 * Call when a recording begins with its process.  --children decides which programs' children are
 * recorded: by default those of programs that may use verbs.
 */
void sr_record_expect_forks(const struct sr_settings *s, const struct sr_image_origin *image);

/* struct sr_engine's forks, starts_unrecorded and continues. */
uint32_t sr_record_forks(struct sr_thread *t);
void sr_record_starts_unrecorded(void);
void sr_record_continues(struct sr_thread *t, uint32_t child);

/* False: only those are that inherit a ring of io_uring, and nobody has asked for them. */
bool sr_record_all_children(void);

#endif
