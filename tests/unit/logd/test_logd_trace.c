/* SPDX-License-Identifier: BSD-2-Clause */
/* Traces on disk: what was written is read back, and torn or damaged files are noticed. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "logd/trace/frame.h"
#include "logd/writer/frame_writer.h"
#include "harness.h"
#include "pattern.h"
#include "logd/writer/process.h"
#include "logd/base/rawsys.h"
#include "logd/writer/stream.h"
#include "logd/writer/trace_dir.h"

static const uint8_t process[16] = "a process's id..";

/* A trace with one stream, written in this process. */
struct fixture {
	struct harness h;
	int trace_fd, rank_fd;
	struct frame_writer *writer;
	struct sr_ring ring; /* the producer's side */
	int ring_fd;
	struct stream *stream;
	char path[256];
};

static void attach_consumer(const struct fixture *f, struct sr_ring *r)
{
	assert_int_equal(sr_ring_map(r, f->ring_fd, 0, sr_ring_bytes(&f->ring), SR_RING_CONSUMER, NULL), 0);
}

static void open_stream(struct fixture *f, bool resume)
{
	struct stream_origin o = {f->rank_fd, f->trace_fd, 0, 0, process};
	struct sr_ring ring;

	attach_consumer(f, &ring);
	f->stream = stream_new(&o, &ring, resume);
	assert_non_null(f->stream);
	assert_int_equal(stream_begin(f->stream), 0);
}

static void begin(struct fixture *f, int level, size_t ring_bytes)
{
	struct rank_claim claim = {.rank = 0, .process = process, .schema = "{}", .schema_size = 2};
	char error[400] = "", id[33];

	harness_begin(&f->h);
	claim.dir = f->h.trace;
	process_id_text(id, process);
	claim.description = json_pack("{s:s}", "process", id);
	assert_int_equal(trace_dir_claim(&claim, &f->trace_fd, &f->rank_fd, error, sizeof(error)),
			 0);
	json_decref(claim.description);
	f->writer = frame_writer_new(level, false);
	f->ring_fd = sr_ring_file_create(1, ring_bytes);
	assert_int_equal(sr_ring_map(&f->ring, f->ring_fd, 0, ring_bytes, SR_RING_PRODUCER, NULL), 0);
	sr_ring_renew(&f->ring);
	open_stream(f, false);
	snprintf(f->path, sizeof(f->path), "%s/rank-0/thread-0.srs", f->h.trace);
}

static void end(struct fixture *f)
{
	if (f->stream)
		stream_free(f->stream);
	sr_ring_detach(&f->ring);
	close(f->ring_fd);
	frame_writer_free(f->writer);
	close(f->trace_fd);
	close(f->rank_fd);
	harness_end(&f->h);
}

struct producer {
	struct sr_ring *ring;
	uint64_t seed, records;
};

static void *produce(void *argument)
{
	struct producer *p = argument;

	for (uint64_t n = 0; n < p->records; n++) {
		if (!pattern_write(p->ring, p->seed, n))
			abort();
	}
	sr_ring_close(p->ring);
	return NULL;
}

/* Write a whole pattern, in frames of random sizes. */
static void write_pattern(struct fixture *f, uint64_t seed, uint64_t records)
{
	struct producer p = {&f->ring, seed, records};
	pthread_t thread;

	pthread_create(&thread, NULL, produce, &p);
	while (!sr_ring_closed(&f->stream->ring) || stream_waiting(f->stream)) {
		if (stream_waiting(f->stream))
			stream_write(f->stream, f->writer);
		if (mix(f->stream->offset) % 3)
			sleep_us((unsigned int)(mix(f->stream->offset + 1) % 200));
	}
	pthread_join(thread, NULL);
}

/* A few small records, one frame for each n of them; for tests that look at each byte. */
static void write_small(struct fixture *f, uint64_t from, uint64_t to, uint64_t each)
{
	for (uint64_t n = from; n < to; n++) {
		uint64_t *payload = sr_ring_reserve(&f->ring, SR_REC_CALL, 8);

		*payload = n;
		sr_ring_commit(&f->ring, 8);
		if ((n + 1) % each == 0)
			stream_write(f->stream, f->writer);
	}
	stream_write(f->stream, f->writer);
}

struct outcome {
	uint64_t records;
	int ret; /* of the last next, or of the open */
	char text[700];
};

/* Read numbered small records. */
static struct outcome read_small(const struct fixture *f)
{
	struct outcome o = {0};
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;

	assert_int_equal(sr_trace_open(&t, f->h.trace, &err), 0);
	o.ret = sr_stream_open(&s, t, 0, 0, &err);
	if (o.ret) {
		memcpy(o.text, err.text, sizeof(err.text));
	} else {
		while ((o.ret = sr_stream_next(s, &e)) == 1) {
			assert_int_equal(e.kind, SR_REC_CALL);
			assert_int_equal(*(const uint64_t *)e.payload, o.records);
			assert_int_equal(e.sn, ++o.records);
		}
		if (sr_stream_warning(s))
			snprintf(o.text, sizeof(o.text), "%s", sr_stream_warning(s));
		sr_stream_close(s);
	}
	sr_trace_close(t);
	return o;
}

static void *load(const char *path, size_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	void *data;

	assert_int_equal(fstat(fd, &st), 0);
	*size = (size_t)st.st_size;
	data = malloc(*size + 1);
	assert_int_equal(read(fd, data, *size), *size);
	close(fd);
	return data;
}

static void store(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	assert_int_equal(write(fd, data, size), size);
	close(fd);
}

/* ---- whole traces ---- */

static void check_property(uint64_t seed, int level)
{
	struct stream_check found;
	struct fixture f;

	begin(&f, level, (64u << 10) << (seed % 3));
	write_pattern(&f, seed, 4000);
	assert_true(check_stream(f.h.trace, 0, 0, seed, &found));
	assert_int_equal(found.records, 4000);
	assert_string_equal(found.warning, "");
	end(&f);
}

static void test_any_sequence_is_read_as_written(void **state)
{
	for (uint64_t seed = 100; seed < 110; seed++)
		check_property(seed, seed % 2 ? 1 : 0);
}

static void seek_to(struct sr_stream *s, const uint64_t *sns, uint64_t records, uint64_t sn,
		    uint64_t seed)
{
	uint64_t n = 0;
	struct sr_entry e;

	/* The last record that counts and begins at or before sn. */
	for (uint64_t i = 0; i < records && sns[i] <= sn; i++) {
		if (pattern_at(seed, i).sns)
			n = i;
	}
	assert_int_equal(sr_stream_seek(s, sn), 0);
	assert_int_equal(sr_stream_next(s, &e), 1);
	assert_true(pattern_matches(&e, seed, n, sns[n]));
	if (n + 1 < records) {
		assert_int_equal(sr_stream_next(s, &e), 1);
		assert_true(pattern_matches(&e, seed, n + 1, sns[n + 1]));
	}
}

static void test_seek_finds_every_sn(void **state)
{
	const uint64_t seed = 42, records = 3000;
	uint64_t *sns = calloc(records + 1, sizeof(*sns));
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct fixture f;

	begin(&f, 1, 64 << 10);
	write_pattern(&f, seed, records);
	sns[0] = 1;
	for (uint64_t n = 0; n < records; n++)
		sns[n + 1] = sns[n] + pattern_at(seed, n).sns;
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), 0);
	assert_int_equal(sr_stream_open(&s, t, 0, 0, &err), 0);
	for (uint64_t i = 0; i < 800; i++) /* to and fro */
		seek_to(s, sns, records, 1 + mix(i) % (sns[records] - 1), seed);
	seek_to(s, sns, records, 1, seed);
	seek_to(s, sns, records, sns[records] - 1, seed);
	assert_int_equal(sr_stream_seek(s, sns[records]), -ENOENT);
	sr_stream_close(s);
	sr_trace_close(t);
	free(sns);
	end(&f);
}

/* ---- cycles ---- */

/* What test_cycles_are_the_calls_that_they_repeat writes; a call's payload is its number. */
struct cycles {
	struct fixture *f;
	uint64_t kept[SR_KEPT], kept_n, kept_at[SR_KEPT]; /* payloads, and where they are in the ring */
	uint64_t *calls, n;                               /* the payload of each */
};

static void write_call(struct cycles *c, bool keeps)
{
	const uint64_t size = 8 * (1 + mix(c->n) % (keeps ? 8 : 400)), position = c->f->ring.head;
	uint64_t *payload = sr_ring_reserve(&c->f->ring, (uint16_t)(SR_REC_CALL + c->n % 3), (uint32_t)size);

	memset(payload, 0, size);
	*payload = c->calls[c->n] = c->n;
	((struct sr_record *)payload)[-1].flags = keeps ? SR_RECORD_KEPT : 0;
	sr_ring_commit(&c->f->ring, (uint32_t)size);
	if (keeps) {
		c->kept[c->kept_n % SR_KEPT] = c->n;
		c->kept_at[c->kept_n++ % SR_KEPT] = position;
	}
	c->n++;
}

static void write_cycle(struct cycles *c, uint64_t seed)
{
	struct sr_cycle_payload p = {.calls = 1 + (uint32_t)(mix(seed) % (seed % 5 ? 40 : SR_CYCLE_CALLS))};
	uint64_t of[SR_CYCLE_PERIOD];

	p.period = (uint8_t)(1 + mix(seed + 1) % SR_CYCLE_PERIOD);
	for (unsigned int i = 0; i < p.period; i++) {
		uint64_t back = 1 + mix(seed + 2 + i) % (c->kept_n < SR_KEPT ? c->kept_n : SR_KEPT);

		if (c->f->ring.head - c->kept_at[(c->kept_n - back) % SR_KEPT] > SR_CYCLE_WITHIN)
			back = 1;
		p.back[i] = (uint8_t)back;
		of[i] = c->kept[(c->kept_n - back) % SR_KEPT];
	}
	if (c->f->ring.head - c->kept_at[(c->kept_n - 1) % SR_KEPT] > SR_CYCLE_WITHIN)
		return;
	memcpy(sr_ring_reserve(&c->f->ring, SR_REC_CYCLE, sizeof(p)), &p, sizeof(p));
	sr_ring_commit(&c->f->ring, sizeof(p));
	for (uint32_t i = 0; i < p.calls; i++)
		c->calls[c->n++] = of[i % p.period];
}

static void is_call(const struct cycles *c, const struct sr_entry *e, uint64_t n)
{
	assert_int_equal(e->sn, n + 1);
	assert_int_equal(e->count, 1);
	assert_int_equal(e->kind, SR_REC_CALL + c->calls[n] % 3);
	assert_int_equal(*(const uint64_t *)e->payload, c->calls[n]);
	assert_int_equal(e->flags, 0);
}

/* Each call comes once, by itself or by one that stands for it. */
static void check_folded(const struct cycles *c, struct sr_stream *s)
{
	bool *seen = calloc(c->n, sizeof(*seen));
	uint64_t calls = 0, entries = 0;
	struct sr_entry e;

	sr_stream_fold_cycles(s);
	for (; sr_stream_next(s, &e) == 1; entries++) {
		assert_int_equal(sr_entry_last_sn(&e), e.sn + (e.count - 1) * e.stride);
		for (uint64_t sn = e.sn; sn <= sr_entry_last_sn(&e); sn += e.stride, calls++) {
			assert_in_range(sn, 1, c->n);
			assert_false(seen[sn - 1]);
			seen[sn - 1] = true;
			assert_int_equal(e.kind, SR_REC_CALL + c->calls[sn - 1] % 3);
			assert_int_equal(*(const uint64_t *)e.payload, c->calls[sn - 1]);
		}
	}
	assert_int_equal(calls, c->n);
	assert_true(entries < c->n / 10);
	free(seen);
}

static void test_cycles_are_the_calls_that_they_repeat(void **state)
{
	const uint64_t records = 4000;
	struct fixture f;
	struct cycles c = {.f = &f, .calls = calloc(records, SR_CYCLE_CALLS * sizeof(uint64_t))};
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;

	begin(&f, 1, 4 << 20);
	for (uint64_t n = 0; n < records; n++) {
		if (c.kept_n && mix(n) % 3 == 0)
			write_cycle(&c, mix(n));
		else
			write_call(&c, mix(n) % 3 == 1);
		if (mix(n) % 50 == 7)
			stream_write(f.stream, f.writer);
	}
	stream_write(f.stream, f.writer);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), 0);
	assert_int_equal(sr_stream_open(&s, t, 0, 0, &err), 0);
	for (uint64_t n = 0; n < c.n; n++) {
		assert_int_equal(sr_stream_next(s, &e), 1);
		is_call(&c, &e, n);
	}
	assert_int_equal(sr_stream_next(s, &e), 0);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t n = mix(i) % c.n;

		assert_int_equal(sr_stream_seek(s, n + 1), 0);
		for (uint64_t k = n; k < n + 100 && k < c.n; k++) {
			assert_int_equal(sr_stream_next(s, &e), 1);
			is_call(&c, &e, k);
		}
	}
	sr_stream_close(s);
	assert_int_equal(sr_stream_open(&s, t, 0, 0, &err), 0);
	check_folded(&c, s);
	sr_stream_close(s);
	sr_trace_close(t);
	free(c.calls);
	end(&f);
}

static void check_wrong_cycle(const struct sr_cycle_payload *p)
{
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	struct fixture f;
	uint64_t *payload;

	begin(&f, 1, 64 << 10);
	payload = sr_ring_reserve(&f.ring, SR_REC_CALL, 8);
	*payload = 7;
	((struct sr_record *)payload)[-1].flags = SR_RECORD_KEPT;
	sr_ring_commit(&f.ring, 8);
	memcpy(sr_ring_reserve(&f.ring, SR_REC_CYCLE, sizeof(*p)), p, sizeof(*p));
	sr_ring_commit(&f.ring, sizeof(*p));
	stream_write(f.stream, f.writer);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), 0);
	assert_int_equal(sr_stream_open(&s, t, 0, 0, &err), 0);
	assert_int_equal(sr_stream_next(s, &e), 1);
	assert_int_equal(sr_stream_next(s, &e), -EBADMSG);
	assert_non_null(strstr(sr_stream_warning(s), "come again"));
	sr_stream_close(s);
	sr_trace_close(t);
	end(&f);
}

static void test_cycle_of_what_is_not_there_is_damage(void **state)
{
	check_wrong_cycle(&(struct sr_cycle_payload){.calls = 3, .period = 2, .back = {1, 2}});
	check_wrong_cycle(&(struct sr_cycle_payload){.calls = 3, .period = 2, .back = {1, 0}});
	check_wrong_cycle(&(struct sr_cycle_payload){.calls = 3, .period = 0, .back = {1}});
	check_wrong_cycle(&(struct sr_cycle_payload){.calls = 3, .period = SR_CYCLE_PERIOD + 1, .back = {1}});
}

static void test_stream_is_read_while_it_grows(void **state)
{
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	struct fixture f;

	begin(&f, 1, 64 << 10);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), 0);
	assert_int_equal(sr_stream_open(&s, t, 0, 0, &err), 0);
	for (uint64_t n = 0; n < 50; n++) {
		assert_int_equal(sr_stream_next(s, &e), 0);
		write_small(&f, n, n + 1, 1);
		assert_int_equal(sr_stream_next(s, &e), 1);
		assert_int_equal(e.sn, n + 1);
	}
	sr_stream_close(s);
	sr_trace_close(t);
	end(&f);
}

/* ---- torn and damaged ---- */

static void test_cut_at_every_byte_is_read_up_to_the_cut(void **state)
{
	size_t size, whole = sizeof(struct sr_stream_header);
	uint64_t records = 0;
	unsigned char *data;
	struct fixture f;

	begin(&f, 0, 64 << 10);
	write_small(&f, 0, 40, 10);
	data = load(f.path, &size);
	for (size_t cut = 0; cut <= size; cut++) {
		struct sr_frame_header h;
		struct outcome o;

		if (cut > whole) {
			memcpy(&h, data + whole, sizeof(h) < size - whole ? sizeof(h) : 0);
			if (cut == whole + sizeof(h) + h.stored_bytes) {
				whole = cut;
				records += h.records;
			}
		}
		store(f.path, data, cut);
		o = read_small(&f);
		assert_int_equal(o.ret, 0);
		assert_int_equal(o.records, records);
		if (cut == whole) {
			assert_string_equal(o.text, "");
		} else {
			assert_non_null(strstr(o.text, "thread-0.srs"));
			assert_non_null(strstr(o.text, "offset"));
		}
	}
	assert_int_equal(records, 40);
	free(data);
	end(&f);
}

static void test_every_damaged_byte_is_noticed(void **state)
{
	unsigned char *data;
	struct fixture f;
	size_t size;

	begin(&f, 1, 64 << 10);
	write_small(&f, 0, 30, 10);
	data = load(f.path, &size);
	for (size_t i = 0; i < size; i++) {
		data[i] ^= (unsigned char)(1 << i % 8);
		store(f.path, data, size);
		assert_true(read_small(&f).ret < 0);
		data[i] ^= (unsigned char)(1 << i % 8);
	}
	free(data);
	end(&f);
}

static void test_zeros_at_the_end_are_a_torn_tail(void **state)
{
	struct fixture f;
	struct outcome o;
	struct stat st;

	begin(&f, 1, 64 << 10);
	write_small(&f, 0, 20, 10);
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(truncate(f.path, st.st_size + 5000), 0);
	o = read_small(&f);
	assert_int_equal(o.ret, 0);
	assert_int_equal(o.records, 20);
	assert_non_null(strstr(o.text, "ends within a frame"));
	end(&f);
}

static void test_missing_frame_is_noticed(void **state)
{
	struct sr_frame_header h;
	unsigned char *data;
	struct fixture f;
	size_t size, from = sizeof(struct sr_stream_header), n;

	begin(&f, 0, 64 << 10);
	write_small(&f, 0, 30, 10);
	data = load(f.path, &size);
	memcpy(&h, data + from, sizeof(h));
	n = sizeof(h) + h.stored_bytes;
	memmove(data + from, data + from + n, size - from - n);
	store(f.path, data, size - n);
	assert_int_equal(read_small(&f).ret, -EBADMSG);
	free(data);
	end(&f);
}

static void expect_remedy(const char *text, const char *path)
{
	assert_non_null(strstr(text, path));
	assert_non_null(strstr(text, "version 1,"));
	assert_non_null(strstr(text, "version 2"));
	assert_non_null(strstr(text, "an earlier sreplay"));
	assert_non_null(strstr(text, "record the program again"));
	assert_non_null(strstr(text, "the sreplay that recorded it"));
}

/* Some records have other names in traces of the first release. */
static void test_version_1_is_refused_with_the_remedy(void **state)
{
	struct sr_stream_header h;
	struct sr_trace *t;
	struct sr_error err;
	struct fixture f;
	struct outcome o;
	char path[256];
	int fd;

	begin(&f, 1, 64 << 10);
	fd = open(f.path, O_RDWR);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	h.version = 1;
	sr_stream_header_seal(&h);
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	close(fd);
	o = read_small(&f);
	assert_int_equal(o.ret, -EPROTO);
	expect_remedy(o.text, f.path);
	snprintf(path, sizeof(path), "%s/manifest.json", f.h.trace);
	store(path, "{\"format\": \"sreplay-trace\", \"version\": 1}", 41);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), -EPROTO);
	expect_remedy(err.text, path);
	end(&f);
}

static void test_unknown_version_is_named(void **state)
{
	struct sr_stream_header h;
	struct sr_trace *t;
	struct sr_error err;
	struct fixture f;
	struct outcome o;
	char path[256];
	int fd;

	begin(&f, 1, 64 << 10);
	fd = open(f.path, O_RDWR);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	h.version = 77;
	sr_stream_header_seal(&h);
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	close(fd);
	o = read_small(&f);
	assert_int_equal(o.ret, -EPROTO);
	assert_non_null(strstr(o.text, f.path));
	assert_non_null(strstr(o.text, "version 77"));
	assert_non_null(strstr(o.text, "version 2"));
	assert_non_null(strstr(o.text, "a later sreplay"));
	snprintf(path, sizeof(path), "%s/manifest.json", f.h.trace);
	store(path, "{\"format\": \"sreplay-trace\", \"version\": 9}", 41);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), -EPROTO);
	assert_non_null(strstr(err.text, "version 9"));
	store(path, "{\"format\": \"sreplay-trace\", \"version\": \"2\"}", 43);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), -EBADMSG);
	store(path, "{\"format\": \"other\", \"version\": 2}", 33);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), -EINVAL);
	store(path, "{", 1);
	assert_int_equal(sr_trace_open(&t, f.h.trace, &err), -EBADMSG);
	assert_int_equal(sr_trace_open(&t, "/nowhere.srec", &err), -ENOENT);
	end(&f);
}

/* ---- the next daemon ---- */

/*
 * Resumes as if the daemon had been killed with `cut` bytes written and nothing after
 * `tail` released.
 */
static void resume_from(struct fixture *f, const void *data, size_t cut, uint64_t tail)
{
	struct outcome o;

	store(f->path, data, cut);
	stream_free(f->stream);
	atomic_store(&f->ring.shared->tail, tail);
	open_stream(f, true);
	while (stream_waiting(f->stream))
		stream_write(f->stream, f->writer);
	o = read_small(f);
	assert_int_equal(o.ret, 0);
	assert_int_equal(o.records, 40);
	assert_string_equal(o.text, "");
}

static void test_next_daemon_neither_loses_nor_doubles(void **state)
{
	unsigned char *data;
	struct fixture f;
	size_t size;

	begin(&f, 0, 64 << 10);
	write_small(&f, 0, 40, 10);
	data = load(f.path, &size);
	/* Nothing released: all 40 records are in the ring, some of them in the file too. */
	for (size_t cut = 0; cut <= size; cut++)
		resume_from(&f, data, cut, 0);
	/*
	 * All is released up to the third frame: a cut before that would lose records and
	 * cannot happen.
	 */
	resume_from(&f, data, size - 3, 30 * 16);
	resume_from(&f, data, size, 40 * 16);
	free(data);
	end(&f);
}

/* ---- the daemon's own marks ---- */

struct marks {
	unsigned int of[8]; /* by reason */
	uint32_t last;      /* 0: the last record is no mark */
	bool ended;
};

static struct marks read_marks(const struct fixture *f)
{
	struct marks m = {0};
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	int ret;

	assert_int_equal(sr_trace_open(&t, f->h.trace, &err), 0);
	assert_int_equal(sr_stream_open(&s, t, 0, 0, &err), 0);
	while ((ret = sr_stream_next(s, &e)) == 1) {
		m.last = 0;
		if (e.kind == SR_REC_MARK) {
			m.last = ((const struct sr_mark_payload *)e.payload)->reason;
			m.of[m.last]++;
		}
	}
	assert_int_equal(ret, 0);
	m.ended = sr_stream_ended(s);
	sr_stream_close(s);
	sr_trace_close(t);
	return m;
}

/* Lets the next daemon find the file as it is. */
static void next_daemon(struct fixture *f)
{
	stream_free(f->stream);
	open_stream(f, true);
}

static void expect_dropped_once(struct fixture *f, uint32_t last)
{
	struct marks m = read_marks(f);

	assert_int_equal(m.of[SR_MARK_DROPPED], 1);
	assert_int_equal(m.of[last], 1);
	assert_int_equal(m.last, last);
	assert_true(m.ended);
}

/* A daemon may be killed after any byte of the last marks; the next daemon writes the rest. */
static void test_last_marks_are_written_once(void **state)
{
	size_t records, size;
	unsigned char *data;
	struct fixture f;

	for (int level = 0; level < 2; level++) {
		begin(&f, level, 64 << 10);
		write_small(&f, 0, 40, 10);
		free(load(f.path, &records));
		atomic_store(&f.ring.shared->unmarked_records, 5);
		sr_ring_close_of_other_thread(&f.ring);
		assert_false(read_marks(&f).ended);
		stream_end(f.stream, f.writer);
		expect_dropped_once(&f, SR_MARK_ENDED);
		data = load(f.path, &size);
		for (size_t cut = records; cut <= size; cut++) {
			store(f.path, data, cut);
			next_daemon(&f);
			stream_end(f.stream, f.writer);
			expect_dropped_once(&f, SR_MARK_ENDED);
		}
		free(data);
		end(&f);
	}
}

static void test_exit_is_the_last_record_for_the_next_daemon_too(void **state)
{
	struct sr_exit_payload *payload;
	struct fixture f;

	begin(&f, 0, 64 << 10);
	payload = sr_ring_reserve(&f.ring, SR_REC_EXIT, sizeof(*payload));
	payload->status = 3;
	sr_ring_commit(&f.ring, sizeof(*payload));
	stream_write(f.stream, f.writer);
	next_daemon(&f);
	atomic_store(&f.stream->gone, true);
	stream_end(f.stream, f.writer);
	assert_int_equal(read_marks(&f).last, 0);
	assert_true(read_marks(&f).ended);
	end(&f);
}

static void limit_files_to(rlim_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk is full to the last byte, so that not even the mark fits. */
static void stop_without_a_mark(struct fixture *f)
{
	uint64_t *payload;
	size_t size;

	begin(f, 0, 64 << 10);
	write_small(f, 0, 10, 10);
	payload = sr_ring_reserve(&f->ring, SR_REC_CALL, 8);
	*payload = 10;
	sr_ring_commit(&f->ring, 8);
	free(load(f->path, &size));
	limit_files_to(size);
	stream_write(f->stream, f->writer);
	assert_true(sr_ring_stopped(&f->ring));
	assert_int_equal(read_marks(f).last, 0);
}

static void expect_stopped(struct fixture *f)
{
	struct marks m = read_marks(f);

	assert_int_equal(m.of[SR_MARK_STOPPED], 1);
	assert_int_equal(m.last, SR_MARK_STOPPED);
	assert_true(m.ended);
	end(f);
}

static void test_mark_of_a_full_disk_comes_when_there_is_space(void **state)
{
	struct fixture f;

	signal(SIGXFSZ, SIG_IGN);
	stop_without_a_mark(&f);
	stream_mark_again(f.stream, f.writer, INT64_MAX);
	assert_int_equal(read_marks(&f).last, 0);
	limit_files_to(RLIM_INFINITY);
	stream_mark_again(f.stream, f.writer, 2); /* not yet due */
	assert_int_equal(read_marks(&f).last, 0);
	stream_mark_again(f.stream, f.writer, INT64_MAX);
	stream_mark_again(f.stream, f.writer, INT64_MAX);
	expect_stopped(&f);

	stop_without_a_mark(&f);
	limit_files_to(RLIM_INFINITY);
	stream_end(f.stream, f.writer); /* the last chance */
	expect_stopped(&f);

	stop_without_a_mark(&f);
	limit_files_to(RLIM_INFINITY);
	next_daemon(&f);
	stream_mark_again(f.stream, f.writer, sr_sys_now_ms());
	next_daemon(&f);
	stream_mark_again(f.stream, f.writer, sr_sys_now_ms());
	stream_end(f.stream, f.writer);
	expect_stopped(&f);
}

static void test_another_processes_stream_is_not_resumed(void **state)
{
	struct sr_stream_header h;
	struct stream *stream;
	struct sr_ring ring;
	struct fixture f;
	int fd;

	begin(&f, 0, 64 << 10);
	fd = open(f.path, O_RDWR);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	h.process[0] ^= 1;
	sr_stream_header_seal(&h);
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	close(fd);
	attach_consumer(&f, &ring);
	stream = stream_new(&(struct stream_origin){f.rank_fd, f.trace_fd, 0, 0, process}, &ring,
			    true);
	assert_non_null(stream);
	assert_int_equal(stream_begin(stream), -EEXIST);
	assert_true(sr_ring_stopped(&f.ring));
	stream_free(stream);
	end(&f);
}

/* ---- describing a process ---- */

/*
 * Runs in a process of its own because it gives up root, which may open any mapping by its range.
 */
static void describe_with_fifo(const char *dir)
{
	const struct process_facts facts = {.pid = getpid(), .id = process};
	char path[200], error[400] = "";
	int fd;

	/* The name that /proc gives for a removed file may belong to another file now. */
	snprintf(path, sizeof(path), "%s/x", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, 4096) ||
	    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED || unlink(path))
		_exit(1);
	close(fd);
	snprintf(path, sizeof(path), "%s/x (deleted)", dir);
	if (mkfifo(path, 0666) || setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1))
		_exit(2);
	alarm(10); /* the open of a FIFO waits for a writer */
	_exit(process_describe(&facts, error, sizeof(error)) ? 0 : 3);
}

static void test_fifo_in_place_of_a_mapped_file_does_not_wait(void **state)
{
	struct harness h;
	int status;
	pid_t pid;

	if (geteuid())
		skip();
	harness_begin(&h);
	chmod(h.dir, 0755);
	pid = fork();
	if (pid == 0)
		describe_with_fifo(h.dir);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	harness_end(&h);
}

/* With an argument all that is read is read ahead by a thread. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_any_sequence_is_read_as_written),
	    cmocka_unit_test(test_seek_finds_every_sn),
	    cmocka_unit_test(test_cycles_are_the_calls_that_they_repeat),
	    cmocka_unit_test(test_cycle_of_what_is_not_there_is_damage),
	    cmocka_unit_test(test_stream_is_read_while_it_grows),
	    cmocka_unit_test(test_cut_at_every_byte_is_read_up_to_the_cut),
	    cmocka_unit_test(test_every_damaged_byte_is_noticed),
	    cmocka_unit_test(test_zeros_at_the_end_are_a_torn_tail),
	    cmocka_unit_test(test_missing_frame_is_noticed),
	    cmocka_unit_test(test_version_1_is_refused_with_the_remedy),
	    cmocka_unit_test(test_unknown_version_is_named),
	    cmocka_unit_test(test_next_daemon_neither_loses_nor_doubles),
	    cmocka_unit_test(test_last_marks_are_written_once),
	    cmocka_unit_test(test_exit_is_the_last_record_for_the_next_daemon_too),
	    cmocka_unit_test(test_mark_of_a_full_disk_comes_when_there_is_space),
	    cmocka_unit_test(test_fifo_in_place_of_a_mapped_file_does_not_wait),
	    cmocka_unit_test(test_another_processes_stream_is_not_resumed),
	};

	(void)argv;
	if (argc > 1)
		sr_streams_read_ahead();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
