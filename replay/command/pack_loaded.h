/* SPDX-License-Identifier: BSD-2-Clause */
/* pack_loaded.h: packs the libraries that recorded programs loaded by dlopen. */
#ifndef REPLAY_COMMAND_PACK_LOADED_H
#define REPLAY_COMMAND_PACK_LOADED_H

#include <jansson.h>
#include <stdbool.h>

#include "logd/trace/reader.h"

/*
 * ld.so itself opens them in a replay, so they have to be in their places, as the libraries are with which the program started
 * (replay/host/start/packed.h).  Of the chosen image of a rank, whose inputs are in the trace.  *loaded, an array, gets an object
 * {"path": } for each.  trace: its directory.  -errno.
 */
int sr_pack_loaded(int trace, const struct sr_trace *t, int32_t rank, json_t *loaded);

/* Writes the list of them, with what is in the list that is there, as SR_PACKED_LOADED.  -errno. */
int sr_pack_list_loaded(int trace, const char *dir, json_t *loaded);

#endif
