/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/other_output.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long ull;

/* So many bytes in front of the first one that differs are shown, too. */
#define BEFORE 8

static void say_quoted(const uint8_t *bytes, uint32_t n)
{
	fputc('"', stderr);
	for (uint32_t i = 0; i < n; i++) {
		if (bytes[i] == '\n')
			fputs("\\n", stderr);
		else if (bytes[i] == '"' || bytes[i] == '\\')
			fprintf(stderr, "\\%c", bytes[i]);
		else if (isprint(bytes[i]) && bytes[i] < 0x80)
			fputc(bytes[i], stderr);
		else
			fprintf(stderr, "\\x%02x", bytes[i]);
	}
	fputs("\"\n", stderr);
}

/* The first byte that differs, in the block; as far as the recorded ones were kept. */
static uint32_t first_difference(const struct sr_replay_output *o)
{
	uint32_t n = o->shown < o->recorded_shown ? o->shown : o->recorded_shown, i = 0;

	while (i < n && o->bytes[i] == o->recorded[i])
		i++;
	return i;
}

static void say_block(const struct sr_replay_output *o)
{
	uint64_t end = o->at + SR_OUTPUT_BLOCK;

	if (end > o->recorded_length)
		end = o->recorded_length;
	fprintf(stderr, "sreplay:   the first block that differs: bytes %llu to %llu of %llu\n",
		(ull)o->at, end > o->at ? (ull)end - 1 : (ull)o->at, (ull)o->recorded_length);
	fputs("sreplay:   recorded: ", stderr);
	fprintf(stderr, "only a checksum of these bytes is in the trace\nsreplay:   now:      ");
	say_quoted(o->bytes, o->shown);
}

static void say_bytes(const struct sr_replay_output *o, uint32_t differs)
{
	uint32_t from = differs > BEFORE ? differs - BEFORE : 0;
	uint32_t shown = o->shown < SR_OUTPUT_KEPT ? o->shown : SR_OUTPUT_KEPT;

	fprintf(stderr, "sreplay:   the first byte that differs: byte %u of %llu; from byte %u on:\n",
		differs, (ull)o->recorded_length, from);
	fputs("sreplay:   recorded: ", stderr);
	say_quoted(o->recorded + from, o->recorded_shown - from);
	fputs("sreplay:   now:      ", stderr);
	say_quoted(o->bytes + from, shown > from ? shown - from : 0);
}

void sr_say_other_output(const struct sr_replay_output *o)
{
	uint32_t differs = first_difference(o);

	if (differs < o->recorded_shown)
		say_bytes(o, differs);
	else
		say_block(o);
	if (o->length != o->recorded_length)
		fprintf(stderr, "sreplay:   it now writes %llu bytes, recorded were %llu\n",
			(ull)o->length, (ull)o->recorded_length);
}
