/* SPDX-License-Identifier: BSD-2-Clause */
/* guess.h: what a user may have meant by a word that is not known. */
#ifndef REPLAY_COMMAND_GUESS_H
#define REPLAY_COMMAND_GUESS_H

#include <argp.h>
#include <stddef.h>

/* The nearest of the words, where few letters differ; NULL: none is near.  NULLs are left out. */
const char *sr_guess(const char *word, const char *const *words, size_t n);

/* As argp_parse, but an unknown --option is answered with the one that was meant. */
error_t sr_argp_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
		      void *input);

#endif
