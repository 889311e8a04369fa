/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace_maker.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "logd/trace/frame.h"
#include "shim/core/schema.h"

#define FRAME_BYTES 262144

struct stream {
	struct stream *next;
	uint32_t thread;
	int fd;
	struct sr_frame_header h;
	uint64_t sn;
	uint8_t frame[FRAME_BYTES];
};

struct rank {
	struct rank *next;
	int number;
	uint8_t process[16];
	struct stream *streams;
};

struct trace_maker {
	char dir[PATH_MAX - 64];
	struct rank *ranks;
	ZSTD_CCtx *compressor; /* NULL: frames are raw */
	uint8_t *compressed;
};

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static void *room(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		fail("no memory");
	return p;
}

static FILE *create(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		fail(path);
	return f;
}

struct trace_maker *trace_maker_new(const char *dir)
{
	struct trace_maker *m = room(sizeof(*m));
	char path[PATH_MAX];
	FILE *f;

	snprintf(m->dir, sizeof(m->dir), "%s", dir);
	snprintf(path, sizeof(path), "%s/manifest.json", m->dir);
	f = create(path);
	fprintf(f, "{\"format\": \"sreplay-trace\", \"version\": %d, \"writer\": \"test\"}\n",
		SR_TRACE_VERSION);
	fclose(f);
	return m;
}

void trace_maker_compress(struct trace_maker *m)
{
	m->compressor = ZSTD_createCCtx();
	m->compressed = room(FRAME_BYTES);
	if (!m->compressor)
		fail("no memory");
	ZSTD_CCtx_setParameter(m->compressor, ZSTD_c_compressionLevel, 1);
}

static void describe(struct trace_maker *m, struct rank *r, const char *extra)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/rank-%d/process.json", m->dir, r->number);
	f = create(path);
	fprintf(f, "{\"process\": \"");
	for (int i = 0; i < 16; i++)
		fprintf(f, "%02x", r->process[i]);
	fprintf(f,
		"\", \"rank\": %d, \"pid\": %d, \"hostname\": \"test\", \"kernel\": "
		"{\"release\": \"test\"}, \"executable\": \"/bin/true\", \"directory\": \"/\", "
		"\"arguments\": [\"true\"], \"environment\": [], \"objects\": [], "
		"\"extra\": %s}\n",
		r->number, 1000 + r->number, extra);
	fclose(f);
	snprintf(path, sizeof(path), "%s/rank-%d/schema.json", m->dir, r->number);
	f = create(path);
	fwrite(sr_schema, 1, sr_schema_size, f);
	fclose(f);
}

void trace_maker_rank(struct trace_maker *m, int rank, const char *extra)
{
	struct rank *r = room(sizeof(*r));
	char path[PATH_MAX];

	r->number = rank;
	memset(r->process, 0x10 + rank, sizeof(r->process));
	r->next = m->ranks;
	m->ranks = r;
	snprintf(path, sizeof(path), "%s/rank-%d", m->dir, rank);
	if (mkdir(path, 0777))
		fail(path);
	describe(m, r, extra);
}

static struct rank *rank_of(struct trace_maker *m, int number)
{
	struct rank *r = m->ranks;

	while (r->number != number)
		r = r->next;
	return r;
}

static void put(struct stream *s, const void *data, size_t size)
{
	if (write(s->fd, data, size) != (ssize_t)size)
		fail("a stream");
}

static struct stream *open_stream(struct trace_maker *m, struct rank *r, uint32_t thread)
{
	struct stream *s = room(sizeof(*s));
	struct sr_stream_header h = {.version = SR_TRACE_VERSION,
				     .header_bytes = sizeof(h),
				     .rank = r->number,
				     .thread = thread};
	char path[PATH_MAX];

	memcpy(h.magic, SR_STREAM_MAGIC, sizeof(h.magic));
	memcpy(h.process, r->process, sizeof(h.process));
	sr_stream_header_seal(&h);
	snprintf(path, sizeof(path), "%s/rank-%d/thread-%u.srs", m->dir, r->number, thread);
	s->thread = thread;
	s->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (s->fd < 0)
		fail(path);
	s->h = (struct sr_frame_header){.magic = SR_FRAME_MAGIC, .first_sn = 1};
	s->next = r->streams;
	r->streams = s;
	put(s, &h, sizeof(h));
	return s;
}

static struct stream *stream_of(struct trace_maker *m, int rank, uint32_t thread)
{
	struct rank *r = rank_of(m, rank);
	struct stream *s = r->streams;

	while (s && s->thread != thread)
		s = s->next;
	return s ? s : open_stream(m, r, thread);
}

static void flush(struct trace_maker *m, struct stream *s)
{
	struct sr_frame_header *h = &s->h;
	const void *stored = s->frame;
	size_t n;

	if (!h->raw_bytes)
		return;
	h->stored_bytes = h->ring_bytes = h->raw_bytes;
	if (m->compressor) {
		n = ZSTD_compress2(m->compressor, m->compressed, FRAME_BYTES, s->frame,
				   h->raw_bytes);
		if (!ZSTD_isError(n) && n < h->raw_bytes) {
			h->stored_bytes = (uint32_t)n;
			stored = m->compressed;
		}
	}
	h->codec = stored == s->frame ? SR_CODEC_RAW : SR_CODEC_ZSTD;
	sr_frame_seal(h, stored);
	put(s, h, sizeof(*h));
	put(s, stored, h->stored_bytes);
	h->first_sn += h->sns;
	h->ring_begin += h->ring_bytes;
	h->raw_bytes = h->records = 0;
	h->sns = 0;
}

/* Room for the payload of a record. */
static uint8_t *begin(struct trace_maker *m, struct stream *s, uint16_t kind, size_t size)
{
	struct sr_record r = {.size = (uint32_t)(sizeof(r) + size), .kind = kind};
	uint32_t padded = sr_record_padded(r.size);
	uint8_t *p;

	if (padded > FRAME_BYTES)
		fail("a record that is too large");
	if (s->h.raw_bytes + padded > FRAME_BYTES)
		flush(m, s);
	p = s->frame + s->h.raw_bytes;
	memset(p + padded - 8, 0, 8);
	memcpy(p, &r, sizeof(r));
	s->h.raw_bytes += padded;
	s->h.records++;
	return p + sizeof(r);
}

static void count(struct stream *s, uint64_t sns)
{
	s->h.sns += sns;
	s->sn += sns;
}

void trace_maker_record(struct trace_maker *m, int rank, uint32_t thread, uint16_t kind,
			const void *payload, size_t size)
{
	struct stream *s = stream_of(m, rank, thread);

	memcpy(begin(m, s, kind, size), payload, size);
	if (kind >= SR_REC_CALL)
		count(s, 1);
	else if (kind == SR_REC_REPEAT)
		count(s, ((const struct sr_repeat_payload *)payload)->count);
}

uint64_t trace_maker_call_ordered(struct trace_maker *m, int rank, uint32_t thread,
				  enum sr_call_number n, uint64_t result, const void *in,
				  size_t in_size, const void *out, size_t out_size,
				  const uint64_t *orders, uint32_t orders_n)
{
	struct stream *s = stream_of(m, rank, thread);
	struct sr_call_head head = {.site = 0x555555555000ull + s->sn % 4096,
				    .result = result,
				    .in_size = (uint32_t)in_size & 0x3fffffff,
				    .orders = orders_n & 3};
	uint8_t *p = begin(m, s, (uint16_t)(SR_REC_CALL + n),
			   sizeof(head) + in_size + out_size + orders_n * sizeof(*orders));

	memcpy(p, &head, sizeof(head));
	p += sizeof(head);
	if (in_size)
		memcpy(p, in, in_size);
	if (out_size)
		memcpy(p + in_size, out, out_size);
	if (orders_n)
		memcpy(p + in_size + out_size, orders, orders_n * sizeof(*orders));
	count(s, 1);
	return s->sn;
}

uint64_t trace_maker_call(struct trace_maker *m, int rank, uint32_t thread, enum sr_call_number n,
			  uint64_t result, const void *in, size_t in_size, const void *out,
			  size_t out_size)
{
	return trace_maker_call_ordered(m, rank, thread, n, result, in, in_size, out, out_size,
					NULL, 0);
}

uint64_t trace_maker_sn(struct trace_maker *m, int rank, uint32_t thread)
{
	return stream_of(m, rank, thread)->sn;
}

void trace_maker_finish(struct trace_maker *m)
{
	struct rank *r, *next_rank;
	struct stream *s, *next;

	for (r = m->ranks; r; r = next_rank) {
		next_rank = r->next;
		for (s = r->streams; s; s = next) {
			next = s->next;
			flush(m, s);
			close(s->fd);
			free(s);
		}
		free(r);
	}
	ZSTD_freeCCtx(m->compressor);
	free(m->compressed);
	free(m);
}
