/* SPDX-License-Identifier: BSD-2-Clause */
/* json.h: what `--json` prints: a JSON object per line, in ASCII (docs/user/json.md has their keys). */
#ifndef REPLAY_PRINT_JSON_H
#define REPLAY_PRINT_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* A line on the stream.  Releases the object. */
void sr_json_write(FILE *out, json_t *object);
/* A line on standard output. */
void sr_json_print(json_t *object);

/* Text as a string.  Bytes that are not UTF-8 become U+FFFD; NULL: null. */
json_t *sr_json_string(const char *text);
/* "0x7f..." */
json_t *sr_json_address(uint64_t address);
/* Bytes in hexadecimal digits. */
json_t *sr_json_hex(const void *bytes, size_t n);
/* A count.  (jansson's own functions take signed numbers.) */
json_t *sr_json_count(uint64_t n);

/* The number of the rank of this name, and of a child its name among that rank's; NULL: it is a rank. */
int sr_json_rank(const char *name, const char **child);

#endif
