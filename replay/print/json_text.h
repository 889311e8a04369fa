/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json_text.h: text of a stranger's trace as a JSON string, also inside an HTML page.
 */
#ifndef REPLAY_PRINT_JSON_TEXT_H
#define REPLAY_PRINT_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>

/*
 * The text in quotes.  <, > and & become \u003c ..., so that no text can end a <script>; bytes that
 * are not UTF-8 become U+FFFD.
 */
void sr_json_text(FILE *out, const char *text);

/* How many bytes the UTF-8 character at `p` has; 0: it is none. */
size_t sr_utf8_length(const char *p, size_t size);

#endif
