/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/frames: what the codecs make of the records of a trace.
 *
 *   frames [--level N] STREAM SCHEMA...
 *
 * Cuts the records of each stream (thread-T.srs, with the schema.json of its rank) into frames as
 * the daemon does, and encodes and decodes them with zstd of level N (1) and as columns.  Prints bytes and
 * times, and fails where the records do not come back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "logd/trace/columns.h"
#include "logd/trace/frame.h"
#include "logd/writer/stream_file.h"

#define MOST  (2u << 20)

struct result {
	uint64_t raw, stored;
	double encode_s, decode_s;
};

static struct sr_columns_encoder *encoder;
static ZSTD_CCtx *compressor;
static int level = SR_LEVEL_DEFAULT;
static _Alignas(8) unsigned char decoded[MOST];
static unsigned char stored[2 * MOST];

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "frames: %s\n", what);
	exit(1);
}

static void *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	char *data;

	if (!f || fseek(f, 0, SEEK_END))
		fail(path);
	*size = (size_t)ftell(f);
	rewind(f);
	data = malloc(*size + 1);
	if (!data || fread(data, 1, *size, f) != *size)
		fail(path);
	fclose(f);
	return data;
}

/* All records of a stream. */
static unsigned char *records_of(const char *path, size_t *bytes)
{
	size_t size, at = sizeof(struct sr_stream_header), room = 0;
	unsigned char *data = read_file(path, &size), *all = NULL;
	const struct sr_frame_header *h;

	*bytes = 0;
	for (; size - at >= sizeof(*h); at += sizeof(*h) + h->stored_bytes) {
		h = (const void *)(data + at);
		if (!sr_frame_header_valid(h))
			fail("a bad header");
		if (*bytes + h->raw_bytes > room)
			all = realloc(all, room = 2 * (*bytes + h->raw_bytes));
		if (sr_frame_decode(h, h + 1, all + *bytes))
			fail("a bad frame");
		*bytes += h->raw_bytes;
	}
	free(data);
	return all;
}

static void encode(struct result *r, const struct sr_layouts *l, const unsigned char *records,
		   size_t size, bool as_columns)
{
	struct sr_frame_header h = {.raw_bytes = (uint32_t)size, .codec = SR_CODEC_ZSTD};
	double start = cpu_s();
	const void *from = records, *columns;
	size_t from_size = size, n = 0;

	if (as_columns && (n = sr_columns_encode(encoder, l, records, size, &columns))) {
		from = columns;
		from_size = n;
		h.codec = SR_CODEC_COLUMNS;
	}
	ZSTD_CCtx_setParameter(compressor, ZSTD_c_compressionLevel, sr_level_of_frame(level, n, size));
	n = ZSTD_compress2(compressor, stored, sizeof(stored), from, from_size);
	r->encode_s += cpu_s() - start;
	h.stored_bytes = (uint32_t)n;
	start = cpu_s();
	if (sr_frame_decode(&h, stored, decoded) || memcmp(decoded, records, size))
		fail("the records do not come back");
	r->decode_s += cpu_s() - start;
	r->raw += size;
	r->stored += n + sizeof(h);
}

static void measure(const char *stream, const char *schema)
{
	size_t schema_size, size;
	char *text = read_file(schema, &schema_size);
	struct sr_layouts *l = sr_layouts_new(text, schema_size);
	unsigned char *records = records_of(stream, &size);
	struct result plain = {0}, columns = {0};
	struct sr_count count;
	bool open = false;

	for (size_t at = 0; at < size; at += count.bytes) {
		if (sr_count_records(&count, records + at, size - at, STREAM_FRAME_DENSE, open))
			fail("bad records");
		open = count.open;
		encode(&plain, l, records + at, count.bytes, false);
		encode(&columns, l, records + at, count.bytes, true);
	}
	printf("%s: %llu bytes; zstd %llu, %.0f ms, back %.0f ms; columns %llu, %.0f ms, back %.0f "
	       "ms; %.2f of the bytes, %.2f of the time\n",
	       stream, (unsigned long long)plain.raw, (unsigned long long)plain.stored,
	       plain.encode_s * 1e3, plain.decode_s * 1e3, (unsigned long long)columns.stored,
	       columns.encode_s * 1e3, columns.decode_s * 1e3,
	       (double)columns.stored / (double)plain.stored, columns.encode_s / plain.encode_s);
	sr_layouts_free(l);
	free(records);
	free(text);
}

int main(int argc, char **argv)
{
	int at = 1;

	if (argc > 2 && !strcmp(argv[1], "--level")) {
		level = atoi(argv[2]);
		at = 3;
	}
	encoder = sr_columns_encoder_new(MOST);
	compressor = ZSTD_createCCtx();
	if (!encoder || !compressor)
		fail("no memory");
	for (; at + 1 < argc; at += 2)
		measure(argv[at], argv[at + 1]);
	return 0;
}
