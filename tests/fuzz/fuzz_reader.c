/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_reader: the trace reader against arbitrary files (libFuzzer).
 *
 * The input's first byte says what the rest is: 0 = a stream as it is; 1 = a
 * stream whose checksums are put right first, so that what lies behind them is
 * reached; 2 = process.json; 3 = manifest.json; 4 = files.jsonl; 5 = the list of streams; 6 = the
 * columns of a frame, behind four bytes that say how many bytes of records they are.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/columns.h"
#include "logd/trace/frame.h"
#include "logd/trace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char dir[64], stream_path[96], process_path[96], manifest_path[96], files_path[96],
    list_path[96];

static const char process_json[] =
    "{\"process\": \"00000000000000000000000000000000\", \"rank\": 0}";
static const char manifest_json[] = "{\"format\": \"sreplay-trace\", \"version\": 2}";

static void put(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

static void remove_dir(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command))
		perror(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[96];

	strcpy(dir, "/dev/shm/fuzz-reader-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	atexit(remove_dir);
	snprintf(path, sizeof(path), "%s/rank-0", dir);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/rank-0/schema.json", dir);
	put(path, "{}", 2);
	snprintf(stream_path, sizeof(stream_path), "%s/rank-0/thread-0.srs", dir);
	snprintf(process_path, sizeof(process_path), "%s/rank-0/process.json", dir);
	snprintf(manifest_path, sizeof(manifest_path), "%s/manifest.json", dir);
	snprintf(files_path, sizeof(files_path), "%s/rank-0/files.jsonl", dir);
	snprintf(list_path, sizeof(list_path), "%s/rank-0/streams", dir);
	put(stream_path, "", 0);
	put(process_path, process_json, sizeof(process_json) - 1);
	put(manifest_path, manifest_json, sizeof(manifest_json) - 1);
	return 0;
}

/* Make the checksums right, as far as the sizes lead; the sequence as well. */
static void repair(uint8_t *data, size_t size)
{
	struct sr_stream_header stream;
	struct sr_frame_header frame;
	size_t at = sizeof(stream);

	if (size < sizeof(stream))
		return;
	memcpy(&stream, data, sizeof(stream));
	sr_stream_header_seal(&stream);
	memcpy(data, &stream, sizeof(stream));
	while (size - at >= sizeof(frame)) {
		memcpy(&frame, data + at, sizeof(frame));
		if (frame.stored_bytes > size - at - sizeof(frame))
			frame.stored_bytes = (uint32_t)(size - at - sizeof(frame));
		frame.magic = SR_FRAME_MAGIC;
		sr_frame_seal(&frame, data + at + sizeof(frame));
		memcpy(data + at, &frame, sizeof(frame));
		at += sizeof(frame) + frame.stored_bytes;
	}
}

static volatile uint8_t sink;

static void read_all(struct sr_stream *s)
{
	struct sr_entry e;

	while (sr_stream_next(s, &e) == 1) {
		const uint8_t *bytes = e.payload;

		/* Every byte that is handed out must be there. */
		for (size_t i = 0; i < e.size; i++)
			sink ^= bytes[i];
	}
	(void)sr_stream_warning(s);
}

static void read_stream(void)
{
	static const uint64_t places[] = {0, 1, 7, 1000, UINT64_MAX};
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	uint32_t *listed;
	size_t n;

	if (sr_trace_open(&t, dir, &err))
		return;
	json_decref(sr_trace_files(t, 0, &err));
	if (!sr_trace_listed_threads(t, 0, &listed, &n, &err))
		free(listed);
	if (!sr_stream_open(&s, t, 0, 0, &err)) {
		read_all(s);
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			if (!sr_stream_seek(s, places[i]))
				sr_stream_next(s, &e);
		}
		sr_stream_close(s);
	}
	sr_trace_close(t);
}

/* The records are written to exactly as many bytes as there are to be. */
static void decode_columns(const uint8_t *data, size_t size)
{
	uint32_t records_size;
	uint8_t *records, *columns;

	if (size < sizeof(records_size))
		return;
	memcpy(&records_size, data, sizeof(records_size));
	records_size %= SR_FRAME_MAX_RAW + 1;
	size -= sizeof(records_size);
	records = malloc(records_size + 1);
	columns = malloc(size + 1);
	memcpy(columns, data + sizeof(records_size), size);
	if (!sr_columns_decode(columns, size, records, records_size))
		for (uint32_t i = 0; i < records_size; i++)
			sink ^= records[i];
	free(columns);
	free(records);
}

#define COLUMNS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	const char *const paths[] = {stream_path,   stream_path, process_path,
				     manifest_path, files_path,	 list_path};

	if (size && data[0] == COLUMNS) {
		decode_columns(data + 1, size - 1);
		return 0;
	}
	if (!size || data[0] >= sizeof(paths) / sizeof(paths[0]))
		return -1;
	copy = malloc(size);
	memcpy(copy, data + 1, size - 1);
	if (data[0] == 1)
		repair(copy, size - 1);
	put(paths[data[0]], copy, size - 1);
	free(copy);
	read_stream();
	if (data[0] == 2)
		put(process_path, process_json, sizeof(process_json) - 1);
	if (data[0] == 3)
		put(manifest_path, manifest_json, sizeof(manifest_json) - 1);
	if (data[0] >= 4)
		unlink(paths[data[0]]);
	return 0;
}
