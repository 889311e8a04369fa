/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/timeline/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "logd/trace/read_trace.h"

#define COMMAND_MAX 400

static const json_t *process_of(const struct sr_names *names, size_t rank)
{
	return sr_trace_process(names->t->trace, names->t->links.ranks[rank].number);
}

int sr_names_load(struct sr_names *names, const struct sr_timeline *t, struct sr_error *err)
{
	*names = (struct sr_names){.t = t};
	names->schemas = calloc(t->ranks_n + 1, sizeof(*names->schemas));
	names->symbols = calloc(t->ranks_n + 1, sizeof(*names->symbols));
	if (!names->schemas || !names->symbols)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < t->ranks_n; i++) {
		names->schemas[i] = sr_schema_of(t->trace, t->links.ranks[i].number, err);
		if (!names->schemas[i])
			return -EBADMSG;
		names->symbols[i] =
		    sr_symbols_new(json_object_get(process_of(names, i), "objects"));
		if (!names->symbols[i])
			return sr_error_set(err, -ENOMEM, "no memory left");
	}
	return 0;
}

void sr_names_free(struct sr_names *names)
{
	for (size_t i = 0; names->t && i < names->t->ranks_n; i++) {
		if (names->schemas)
			sr_schema_free(names->schemas[i]);
		if (names->symbols)
			sr_symbols_free(names->symbols[i]);
	}
	free(names->schemas);
	free(names->symbols);
	*names = (struct sr_names){0};
}

const char *sr_names_call(const struct sr_names *names, size_t rank, uint16_t kind)
{
	return sr_schema_name(names->schemas[rank], kind);
}

const char *sr_names_site(const struct sr_names *names, size_t rank, uint64_t site)
{
	return site ? sr_symbols_site(names->symbols[rank], site) : "";
}

char *sr_names_command(const struct sr_names *names, size_t rank)
{
	const json_t *arguments = json_object_get(process_of(names, rank), "arguments");
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; out && i < json_array_size(arguments) && ftell(out) < COMMAND_MAX; i++) {
		char *word = sr_trace_bytes(json_array_get(arguments, i), NULL);

		fprintf(out, "%s%.*s", i ? " " : "", COMMAND_MAX, word ? word : "?");
		free(word);
	}
	if (!out || fclose(out))
		return NULL;
	return text;
}
