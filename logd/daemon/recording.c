/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/writer/drain.h"
#include "logd/writer/files.h"
#include "logd/base/log.h"
#include "logd/writer/process.h"
#include "logd/daemon/server.h"
#include "logd/writer/stream.h"
#include "logd/writer/trace_dir.h"

/* ---- hello ---- */

struct hello_texts {
	struct sr_hello_body body;
	char *text; /* all three */
	const char *trace_dir, *schema, *extra;
	char dir[PATH_MAX]; /* absolute */
};

static int read_texts(struct hello_texts *t, int fd)
{
	uint64_t size;

	if (pread(fd, &t->body, sizeof(t->body), 0) != sizeof(t->body))
		return -EPROTO;
	size = (uint64_t)t->body.trace_dir_size + t->body.schema_size + t->body.extra_size;
	if (size > SR_HELLO_MAX_TEXT || t->body.trace_dir_size >= PATH_MAX ||
	    !t->body.trace_dir_size)
		return -EPROTO;
	t->text = malloc(size + 1);
	if (!t->text)
		return -ENOMEM;
	if (pread(fd, t->text, size, sizeof(t->body)) != (ssize_t)size)
		return -EPROTO;
	t->trace_dir = t->text;
	t->schema = t->trace_dir + t->body.trace_dir_size;
	t->extra = t->schema + t->body.schema_size;
	return 0;
}

static int find_dir(struct hello_texts *t, pid_t pid)
{
	char given[PATH_MAX];

	memcpy(given, t->trace_dir, t->body.trace_dir_size);
	given[t->body.trace_dir_size] = 0;
	return process_path(pid, given, t->dir, sizeof(t->dir));
}

static int claim(struct recording *r, const struct sr_message *hello, const struct hello_texts *t,
		 char *error, size_t error_size)
{
	const struct process_facts facts = {
	    .pid = r->pid,
	    .rank = hello->rank,
	    .flags = hello->hello_flags,
	    .stack = hello->value,
	    .id = hello->process,
	    .extra = t->extra,
	    .extra_size = t->body.extra_size,
	};
	struct rank_claim c = {
	    .dir = t->dir,
	    .rank = hello->rank,
	    .process = hello->process,
	    .schema = t->schema,
	    .schema_size = t->body.schema_size,
	};
	struct stat st;
	int err;

	c.description = process_describe(&facts, error, error_size);
	if (!c.description)
		return -EINVAL;
	err = trace_dir_claim(&c, &r->trace_fd, &r->rank_fd, error, error_size);
	json_decref(c.description);
	if (!err && !fstat(r->trace_fd, &st)) {
		r->trace_device = st.st_dev;
		r->trace_inode = st.st_ino;
	}
	return err;
}

static void recording_free(struct server *s, struct recording *r)
{
	for (struct stream *m = r->streams, *next; m; m = next) {
		next = m->next_mine;
		stream_free(m);
	}
	if (r->source.fd >= 0) {
		server_unwatch(s, &r->source);
		close(r->source.fd);
	}
	if (r->rank_fd >= 0)
		close(r->rank_fd);
	if (r->trace_fd >= 0)
		close(r->trace_fd);
	free(r->dir);
	free(r);
}

static void process_died(struct server *s, struct source *source)
{
	struct recording *r = (struct recording *)source;

	server_unwatch(s, source);
	/*
	 * A ring that it sent with its last breath is still in the socket.
	 * Only then dead: what is served may end recordings that are.
	 */
	if (r->peer)
		peer_serve(s, r->peer);
	r->dead = true;
	for (struct stream *m = r->streams; m; m = m->next_mine)
		atomic_store(&m->gone, true);
	drain_kick(s->drain, r->doorbell);
	recordings_progress(s);
}

static int watch_process(struct server *s, struct recording *r)
{
	r->source.ready = process_died;
	r->source.fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	return r->source.fd < 0 ? -errno : server_watch(s, &r->source);
}

static struct recording *find_recording(struct server *s, const uint8_t *process)
{
	for (struct recording *r = s->recordings; r; r = r->next) {
		if (!memcmp(r->process, process, sizeof(r->process)))
			return r;
	}
	return NULL;
}

static void connect_peer(struct recording *r, struct peer *p)
{
	if (r->peer)
		r->peer->recording = NULL;
	r->peer = p;
	p->recording = r;
}

static int new_recording(struct server *s, struct peer *p, const struct sr_message *hello,
			 const struct hello_texts *t, char *error, size_t error_size)
{
	struct recording *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->source.fd = r->trace_fd = r->rank_fd = -1;
	r->pid = p->pid;
	r->rank = hello->rank;
	memcpy(r->process, hello->process, sizeof(r->process));
	memcpy(r->session, hello->session, sizeof(r->session));
	r->dir = strdup(t->dir);
	err = r->dir ? claim(r, hello, t, error, error_size) : -ENOMEM;
	if (!err)
		err = watch_process(s, r);
	if (err) {
		recording_free(s, r);
		return err;
	}
	r->doorbell = drain_assign(s->drain);
	r->next = s->recordings;
	s->recordings = r;
	connect_peer(r, p);
	return 0;
}

static int check_hello(const struct sr_message *hello, int body_fd, char *error, size_t error_size)
{
	if (body_fd < 0)
		return -EPROTO;
	if (hello->trace_version != SR_TRACE_VERSION) {
		snprintf(
		    error, error_size,
		    "the process writes traces of version %u, this sreplay-logd of version %d: "
		    "use the two of one release",
		    hello->trace_version, SR_TRACE_VERSION);
		return -EPROTO;
	}
	if (hello->rank < 0) {
		snprintf(error, error_size, "rank %d is not a rank: they begin at 0", hello->rank);
		return -EINVAL;
	}
	return 0;
}

int recording_hello(struct server *s, struct peer *p, const struct sr_message *hello, int body_fd,
		    char *error, size_t error_size)
{
	struct recording *known = find_recording(s, hello->process);
	struct hello_texts t = {0};
	int err = check_hello(hello, body_fd, error, error_size);

	if (err)
		return err;
	if (p->recording) {
		snprintf(error, error_size, "this process has introduced itself already");
		return -EALREADY;
	}
	if (known && known->pid == p->pid && !known->dead) {
		connect_peer(known, p);
		return 0;
	}
	err = read_texts(&t, body_fd);
	if (!err)
		err = find_dir(&t, p->pid);
	if (!err)
		err = new_recording(s, p, hello, &t, error, error_size);
	free(t.text);
	return err;
}

/* ---- rings ---- */

static struct stream *find_stream(const struct recording *r, uint32_t thread)
{
	for (struct stream *m = r->streams; m; m = m->next_mine) {
		if (m->thread == thread)
			return m;
	}
	return NULL;
}

int recording_add_ring(struct server *s, struct recording *r, const struct sr_message *m, int memfd,
		       char *error, size_t error_size)
{
	const struct stream_origin origin = {
	    .rank_fd = r->rank_fd,
	    .trace_fd = r->trace_fd,
	    .rank = r->rank,
	    .thread = m->thread,
	    .process = r->process,
	};
	bool resume = m->flags & SR_MESSAGE_RESUME;
	struct stream *stream;
	int err;

	if (resume && find_stream(r, m->thread)) {
		close(memfd); /* only the connection was lost */
		return 0;
	}
	err = stream_open(&stream, &origin, memfd, resume, error, error_size);
	if (err) {
		log_trace(r->trace_fd, "rank %d of %s: thread %u is not recorded: %s", r->rank,
			  r->dir, m->thread, error);
		return err;
	}
	stream->next_mine = r->streams;
	r->streams = stream;
	drain_add(s->drain, r->doorbell, stream);
	return 0;
}

/* ---- files ---- */

int recording_add_file(struct server *s, struct recording *r, const struct sr_message *m, int fd)
{
	const struct file_note note = {
	    .fd = fd,
	    .path = m->text,
	    .keep = m->flags & SR_MESSAGE_KEEP,
	    .trace_fd = r->trace_fd,
	    .rank_fd = r->rank_fd,
	    .busy = &r->files_busy,
	};

	return files_add(s->files, &note);
}

/* ---- finishing ---- */

void recording_finish(struct server *s, struct recording *r)
{
	r->finishing = true;
	for (struct stream *m = r->streams; m; m = m->next_mine) {
		atomic_store(&m->flush_to, stream_committed(m));
		atomic_store(&m->tell, true);
	}
	drain_kick(s->drain, r->doorbell);
}

static bool is_finished(const struct recording *r)
{
	if (atomic_load(&r->files_busy))
		return false;
	for (struct stream *m = r->streams; m; m = m->next_mine) {
		if (!atomic_load(&m->ended) && stream_is_asked(m))
			return false;
	}
	return true;
}

static void free_ended(struct recording *r)
{
	for (struct stream **at = &r->streams; *at;) {
		struct stream *m = *at;

		if (!atomic_load(&m->ended)) {
			at = &m->next_mine;
			continue;
		}
		*at = m->next_mine;
		r->stored_bytes += atomic_load(&m->stored_bytes);
		r->records += atomic_load(&m->records);
		r->dropped += atomic_load(&m->ring.shared->lost_records);
		stream_free(m);
	}
}

void recordings_progress(struct server *s)
{
	for (struct recording **at = &s->recordings; *at;) {
		struct recording *r = *at;

		free_ended(r);
		if (r->finishing && is_finished(r))
			peer_answer_finish(r);
		if (!r->dead || r->streams || atomic_load(&r->files_busy)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		if (r->peer)
			r->peer->recording = NULL;
		s->recordings_ended++;
		recording_free(s, r);
	}
	peers_answer_waits(s);
}

void recordings_free(struct server *s)
{
	while (s->recordings) {
		struct recording *r = s->recordings;

		s->recordings = r->next;
		recording_free(s, r);
	}
}
