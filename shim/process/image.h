/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * image.h: the images of a recorded process: each program that it executes is the next one.
 *
 * At an exec the next image is told through its environment that it is to be recorded from its
 * start, whose image it follows, and with which settings.  All of this stands behind the variables
 * that the program gives, and is taken off again before the new program's main.
 *
 * Functions are called at the start, or in a section (sr_enter).
 */
#ifndef SHIM_PROCESS_IMAGE_H
#define SHIM_PROCESS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"

struct sr_buf;

/* Reads from the environment which image this is.  False: the first one. */
bool sr_image_begin(struct sr_image_origin *image);

/* The connection to the daemon that the image before had; 0: none.  This one may be another user's, whom the daemon refuses. */
int sr_image_connection(void);

/* Leaves this connection to the next image; until the exec fails. */
void sr_image_pass_connection(int fd);
void sr_image_keep_connection(void);

/* Copies the settings of the recording, for the next image. */
void sr_image_keep_settings(void);

/* Takes off the environment what an exec has put there.  In a replay, too. */
void sr_image_end_environment(void);

/*
 * The environment for the next image: the program's `envp` and what is above.  It and its strings
 * lie in one block of the shim's heap; NULL: no memory.
 */
char **sr_image_environment(char *const *envp, const struct sr_image_origin *next);

/*
 * A process that is not recorded, as the shell of a wrapper script: the next program is to be recorded (it has the variable of the
 * trace), but was given an LD_PRELOAD of its own.  Returns the bytes that sr_image_preload() needs; 0: there is nothing to do.
 */
size_t sr_image_preload_room(char *const *envp);
/* Makes there the environment with our library in front.  Without memory of its own: it may be a child of vfork. */
char **sr_image_preload(char *const *envp, void *room);

/*
 * Appends what is recorded of an exec, and compared in a replay, as strings with their 0: path, number
 * of arguments, arguments, number of variables, checksum of the environment (a shell tries one
 * directory of PATH after the other).
 */
void sr_image_put(struct sr_buf *b, const char *path, char *const *argv, char *const *envp);
/* Recording: appends the event of the exec as a last string; 0: the process has no threads. */
void sr_image_put_event(struct sr_buf *b, uint64_t event);
/* Replay: what follows after sr_image_put's strings as that event; 0: nothing. */
uint64_t sr_image_event(const void *rest, size_t size);

#endif
