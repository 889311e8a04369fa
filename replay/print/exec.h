/* SPDX-License-Identifier: BSD-2-Clause */
/* exec.h: what a process executed: the payload of SR_REC_EXEC. */
#ifndef REPLAY_PRINT_EXEC_H
#define REPLAY_PRINT_EXEC_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* {"record": "exec", "path": , "arguments": [...], "variables": , "checksum": of these, "order": its event}. */
json_t *sr_exec_decode(const void *payload, size_t size);

/* Path and arguments, as " PATH: ARGUMENT..."; what is cut off is left out. */
void sr_print_exec(FILE *out, const void *payload, size_t size);

#endif
