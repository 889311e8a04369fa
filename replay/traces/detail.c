/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/traces/detail.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/file_io.h"
#include "logd/trace/format.h"
#include "logd/trace/layouts.h"
#include "logd/trace/read_trace.h"
#include "replay/print/say.h"
#include "replay/traces/complete.h"
#include "replay/traces/copy.h"
#include "replay/traces/write_stream.h"

#define FILE_MODE 0600

/* ------------------------------------------------------------------ the draft */

/* DIR/.NAME.PID, for DIR/NAME. */
static bool name_draft(struct sr_detail *d)
{
	const char *end = d->output + strlen(d->output), *name;

	while (end > d->output + 1 && end[-1] == '/')
		end--;
	for (name = end; name > d->output && name[-1] != '/';)
		name--;
	return snprintf(d->draft, sizeof(d->draft), "%.*s.%.*s.%d", (int)(name - d->output), d->output,
			(int)(end - name), name, (int)getpid()) < (int)sizeof(d->draft);
}

/* Nobody finds it by a name. */
static int open_produced(int dir)
{
	int fd = openat(dir, "produced", O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, FILE_MODE);

	if (fd < 0)
		return -errno;
	unlinkat(dir, "produced", 0);
	return fd;
}

int sr_detail_begin(struct sr_detail *d, struct sr_trace *t, const char *dir, const int32_t *ranks,
		    size_t count, const char *output)
{
	struct stat st;

	*d = (struct sr_detail){.trace = t, .dir = dir, .output = output, .draft_fd = -1};
	if (!lstat(output, &st))
		return sr_fail("%s is there already: choose another name for the new trace (-o)", output);
	d->ranks = calloc(count, sizeof(*d->ranks));
	if (!d->ranks || !name_draft(d)) {
		d->draft[0] = '\0';
		return sr_fail("no memory left, or too long a name: %s", output);
	}
	if (mkdir(d->draft, SR_COPY_DIR_MODE)) {
		int err = errno;

		d->draft[0] = '\0';
		return sr_fail("cannot make %s: %s", output, strerror(err));
	}
	d->draft_fd = open(d->draft, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (; d->count < count; d->count++) {
		struct sr_detail_rank *r = &d->ranks[d->count];

		*r = (struct sr_detail_rank){.rank = ranks[d->count]};
		r->produced = d->draft_fd < 0 ? -errno : open_produced(d->draft_fd);
		if (r->produced < 0)
			return sr_fail("cannot write to %s: %s", output, strerror(-r->produced));
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path), 0;
}

void sr_detail_end(struct sr_detail *d)
{
	for (size_t i = 0; i < d->count; i++)
		close(d->ranks[i].produced);
	if (d->draft_fd >= 0)
		close(d->draft_fd);
	if (d->draft[0])
		nftw(d->draft, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(d->ranks);
}

/* ------------------------------------------------------------------ streams */

struct completing {
	const struct sr_detail *d;
	int32_t rank;
	int rank_fd;
	struct sr_log_kinds kinds;
	struct sr_layouts *layouts;
	struct sr_produced produced;
};

/* The trace has it that a value came, but no rank was recorded far enough to produce it. */
static int end_early(struct sr_stream_writer *w)
{
	static const char text[] = "what another rank sent here could not be produced again";
	struct {
		struct sr_mark_payload mark;
		char text[sizeof(text) - 1];
	} p = {.mark.reason = SR_MARK_STOPPED};

	memcpy(p.text, text, sizeof(p.text));
	return sr_stream_writer_add(w, SR_REC_MARK, 0, &p, offsetof(typeof(p), text) + sizeof(p.text));
}

static int copy_records(struct sr_stream *s, struct sr_completer *c, struct sr_stream_writer *w)
{
	struct sr_entry e;
	int got, err = 0;

	while (!err && (got = sr_stream_next(s, &e)) > 0) {
		err = sr_complete(c, &e);
		if (err == -ENODATA)
			return end_early(w);
		if (!err && e.kind != SR_REC_CHECK && e.kind != SR_REC_PICKED)
			err = sr_stream_writer_add(w, e.kind, e.flags, e.payload, e.size);
	}
	return err ? err : got < 0 && got != -EBADMSG ? got : 0;
}

static int complete_thread(const struct completing *x, uint32_t thread)
{
	struct sr_trace *t = x->d->trace;
	const struct sr_stream_origin origin = {
	    .rank_fd = x->rank_fd,
	    .rank = x->rank,
	    .thread = thread,
	    .process = sr_trace_process_id(t, x->rank),
	    .sns_before = sr_trace_sns_before(t, x->rank),
	    .layouts = x->layouts,
	};
	struct sr_completer c = {.kinds = &x->kinds,
				 .produced = &x->produced,
				 .thread = thread,
				 .sums = sr_trace_has_sums(t, x->rank)};
	struct sr_stream_writer *w;
	struct sr_stream *s;
	struct sr_error error;
	int err, close_err;

	if (sr_stream_open(&s, t, x->rank, thread, &error))
		return sr_fail("%s", error.text);
	err = sr_stream_writer_open(&w, &origin);
	if (!err) {
		err = copy_records(s, &c, w);
		close_err = sr_stream_writer_close(w);
		err = err ? err : close_err;
	}
	sr_completer_end(&c);
	sr_stream_close(s);
	return err ? sr_fail("rank %d thread %u cannot be written to %s: %s", x->rank, thread,
			     x->d->output, strerror(-err))
		   : 0;
}

static int complete_streams(struct completing *x)
{
	struct sr_trace *t = x->d->trace;
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, x->rank, &threads), size;
	const char *schema = sr_trace_schema(t, x->rank, &size);
	struct sr_error error;
	int status = 0;

	if (sr_log_kinds_load(&x->kinds, t, x->rank, &error))
		return sr_fail("%s", error.text);
	x->layouts = sr_layouts_new(schema, size);
	for (size_t i = 0; i < n && !status; i++)
		status = complete_thread(x, threads[i]);
	sr_layouts_free(x->layouts);
	return status;
}

/* ------------------------------------------------------------------ ranks */

/* Nothing is left out of the new trace. */
static int write_description(const struct sr_trace *t, int32_t rank, int to)
{
	json_t *process = json_deep_copy(sr_trace_process(t, rank));
	char *text;
	int fd, err;

	json_object_del(json_object_get(process, "extra"), "order");
	json_object_del(json_object_get(process, "extra"), "sums");
	text = process ? json_dumps(process, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
	json_decref(process);
	if (!text)
		return -ENOMEM;
	fd = openat(to, "process.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	err = fd < 0 ? -errno : write_all(fd, text, strlen(text));
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	free(text);
	return err;
}

/* What is written anew, and images, which are copied one by one. */
static bool is_made(const char *name)
{
	return !strncmp(name, "thread-", 7) || !strncmp(name, "image-", 6) ||
	       !strcmp(name, SR_STREAMS_FILE) || !strcmp(name, SR_SEAL_FILE) ||
	       !strcmp(name, "process.json");
}

static int copy_other(int from, int to, const char *name)
{
	return is_made(name) ? 0 : sr_copy_of_rank(from, to, name);
}

static int open_image(const struct sr_detail *d, int32_t rank, uint32_t image, int *from, int *to)
{
	char path[PATH_MAX], name[64];
	int n = snprintf(name, sizeof(name), "rank-%d", rank);

	if (image)
		snprintf(name + n, sizeof(name) - (size_t)n, "/" SR_IMAGE_DIR, image);
	sr_trace_rank_path(d->trace, rank, NULL, path, sizeof(path));
	*to = -1;
	*from = sr_copy_open_directory(AT_FDCWD, path);
	if (*from < 0)
		return *from;
	if (mkdirat(d->draft_fd, name, SR_COPY_DIR_MODE))
		return -errno;
	*to = sr_copy_open_directory(d->draft_fd, name);
	return *to < 0 ? *to : 0;
}

static int make_image(const struct sr_detail *d, const struct sr_detail_rank *r, uint32_t image, bool last)
{
	struct completing x = {.d = d, .rank = r->rank};
	char bad[NAME_MAX + 1] = "";
	int from, to, status = 0;
	int err = open_image(d, r->rank, image, &from, &to);

	if (!err)
		err = sr_copy_files(from, to, copy_other, bad);
	if (!err)
		err = write_description(d->trace, r->rank, to);
	/* Only the last image of a rank took part in the replay of the others. */
	if (!err && last)
		err = sr_produced_open(&x.produced, r->produced);
	x.rank_fd = to;
	if (!err)
		status = complete_streams(&x);
	if (!err && !status)
		sr_copy_seal(from, to);
	sr_produced_close(&x.produced);
	if (to >= 0)
		close(to);
	if (from >= 0)
		close(from);
	return err ? sr_fail("rank %d cannot be written to %s: %s%s%s", r->rank, d->output, bad,
			     bad[0] ? ": " : "", sr_copy_reason(err))
		   : status;
}

static int make_rank(const struct sr_detail *d, const struct sr_detail_rank *r)
{
	uint32_t images = sr_trace_images(d->trace, r->rank);
	struct sr_error error;
	int status = 0;

	if (r->error)
		return sr_fail("what entered rank %d could not be kept in the directory of %s: %s", r->rank,
			       d->output, strerror(r->error));
	for (uint32_t image = 0; image < images && !status; image++) {
		if (sr_trace_choose_image(d->trace, r->rank, image, &error))
			return sr_fail("%s", error.text);
		status = make_image(d, r, image, image + 1 == images);
	}
	return status;
}

int sr_detail_finish(struct sr_detail *d)
{
	int from = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status;
	int err = from < 0 ? -errno : sr_copy_manifest(from, d->draft_fd);

	status = err ? sr_fail("%s: %s", d->dir, sr_copy_reason(err))
		     : sr_copy_kept_files(d->dir, from, d->draft_fd);
	if (from >= 0)
		close(from);
	for (size_t i = 0; i < d->count && !status; i++)
		status = make_rank(d, &d->ranks[i]);
	/* Atomically, and not over what has come meanwhile. */
	if (!status && renameat2(AT_FDCWD, d->draft, AT_FDCWD, d->output, RENAME_NOREPLACE) &&
	    (errno != EINVAL || rename(d->draft, d->output)))
		status = sr_fail("cannot make %s: %s", d->output, strerror(errno));
	if (!status)
		d->draft[0] = '\0';
	return status;
}
