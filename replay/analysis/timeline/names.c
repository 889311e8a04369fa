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

/* The last image is chosen when it returns. */
static int load_images(struct sr_names *names, size_t rank, struct sr_error *err)
{
	int32_t number = names->t->links.ranks[rank].number;
	uint32_t n = sr_trace_images(names->t->trace, number);
	struct sr_image_names *images = calloc(n + 1, sizeof(*images));
	int ret = images ? 0 : sr_error_set(err, -ENOMEM, "no memory left");

	names->images[rank] = images;
	for (uint32_t i = n; i-- && !ret;) {
		struct sr_image_names *image = &images[i];

		ret = sr_trace_choose_image(names->t->trace, number, n - 1 - i, err);
		if (ret)
			break;
		image->objects = json_incref(json_object_get(process_of(names, rank), "objects"));
		image->symbols = sr_symbols_new(image->objects);
		if (!image->symbols)
			ret = sr_error_set(err, -ENOMEM, "no memory left");
	}
	return ret;
}

int sr_names_load(struct sr_names *names, const struct sr_timeline *t, struct sr_error *err)
{
	int ret = 0;

	*names = (struct sr_names){.t = t};
	names->schemas = calloc(t->ranks_n + 1, sizeof(*names->schemas));
	names->images = calloc(t->ranks_n + 1, sizeof(*names->images));
	if (!names->schemas || !names->images)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < t->ranks_n && !ret; i++) {
		ret = load_images(names, i, err);
		if (ret)
			return ret;
		names->schemas[i] = sr_schema_of(t->trace, t->links.ranks[i].number, err);
		if (!names->schemas[i])
			return -EBADMSG;
	}
	return ret;
}

static void free_images(const struct sr_names *names, size_t rank)
{
	uint32_t n = sr_trace_images(names->t->trace, names->t->links.ranks[rank].number);

	for (uint32_t i = 0; names->images[rank] && i < n; i++) {
		sr_symbols_free(names->images[rank][i].symbols);
		json_decref(names->images[rank][i].objects);
	}
	free(names->images[rank]);
}

void sr_names_free(struct sr_names *names)
{
	for (size_t i = 0; names->t && i < names->t->ranks_n; i++) {
		if (names->schemas)
			sr_schema_free(names->schemas[i]);
		if (names->images)
			free_images(names, i);
	}
	free(names->schemas);
	free(names->images);
	*names = (struct sr_names){0};
}

const char *sr_names_call(const struct sr_names *names, size_t rank, uint16_t kind)
{
	return sr_schema_name(names->schemas[rank], kind);
}

const char *sr_names_site(const struct sr_names *names, size_t rank, uint64_t site)
{
	uint64_t address = sr_site_address(site);

	/* A damaged record may name an image that there is none of. */
	if (sr_site_image(site) >= sr_trace_images(names->t->trace, names->t->links.ranks[rank].number))
		return "";
	return address ? sr_symbols_site(names->images[rank][sr_site_image(site)].symbols, address) : "";
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
