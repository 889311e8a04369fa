/* SPDX-License-Identifier: BSD-2-Clause */
/* same_code.h: an address of one run of a program in another run. */
#ifndef REPLAY_COMMAND_SAME_CODE_H
#define REPLAY_COMMAND_SAME_CODE_H

#include <jansson.h>
#include <stdint.h>

/*
 * from, to: process.json of the two runs.  Where addresses are random (in a container), the files of a program lie elsewhere in each
 * run.  An address in none of them stays what it is.
 */
uint64_t sr_same_code(uint64_t address, const json_t *from, const json_t *to);

#endif
