/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held_inputs.h: what a process has read, held open until its recording ends.
 *
 * Others, such as a child that is not recorded, may remove an input, or give its name to another file.  Then only a descriptor
 * still leads to what the program has read, and a replay would not find it: so its content goes into the trace after all.
 *
 * For one thread at a time.
 */
#ifndef LOGD_WRITER_HELD_INPUTS_H
#define LOGD_WRITER_HELD_INPUTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Of one recording: the newest ones.  Zeroed at first. */
struct held_inputs {
	struct held_input *first, **last;
	unsigned int count;
};

struct held_input {
	struct held_input *next;
	int fd;
	struct stat st; /* as the program found it */
	uint64_t number;
	char file[96]; /* its identity in files.jsonl */
	char path[];
};

/* Takes the descriptor. */
void held_inputs_add(struct held_inputs *h, int fd, const struct stat *st, const char *path, const char *file, uint64_t number);

/* Takes the next one out whose path leads elsewhere, and drops those before; NULL: there is none.  held_input_free() it. */
struct held_input *held_inputs_next_replaced(struct held_inputs *h);

void held_input_free(struct held_input *input);
void held_inputs_free(struct held_inputs *h);

/* The same content, as far as size and time say it? */
bool is_same_content(const struct stat *a, const struct stat *b);

#endif
