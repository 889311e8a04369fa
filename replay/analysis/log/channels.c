/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/channels.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/kinds.h"
#include "replay/analysis/log/schema.h"
#include "shim/core/call.h"

#define MOST_FDS 65536

/* A thread's stream, at its next call of interest. */
struct source {
	struct sr_stream *stream;
	uint32_t thread;
	uint64_t sn, event;
	const char *name;
	json_t *call; /* NULL: the end */
};

struct walk {
	int32_t rank;
	struct sr_schema *schema;
	struct source *sources;
	size_t n;
	struct sr_channel **fds;
	bool (*see)(void *argument, const struct sr_channel_use *u);
	void *argument;
	enum { NOT_ASKED, NOT_INTERESTING, INTERESTING } interest[SR_LOG_CALLS]; /* by kind of call */
	bool *shares; /* NULL: not asked */
	bool shares_not[SR_LOG_CALLS]; /* by kind of call: it cannot */
	bool has_begun; /* what it has inherited is known */
	int64_t *own_segments; /* System V: that only this process knows, as long as it tells nobody */
	size_t own_segments_n, own_segments_room;
};

/* ------------------------------------------------------------------ fields */

static const json_t *field(const json_t *call, const char *group, const char *name)
{
	return json_object_get(json_object_get(call, group), name);
}

static int number(const json_t *call, const char *group, const char *name)
{
	const json_t *v = field(call, group, name);

	return json_is_integer(v) ? (int)json_integer_value(v) : -1;
}

static int64_t result_of(const json_t *call)
{
	return json_integer_value(json_object_get(call, "result"));
}

/* "10.0.0.1:80"; a port alone says nothing, so other families than these have their bytes only. */
static void put_address(const json_t *bytes, char text[128])
{
	size_t n = 0;
	char *p = bytes ? sr_trace_bytes(bytes, &n) : NULL, ip[64];
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	uint16_t family = 0;

	if (p && n >= sizeof(family))
		memcpy(&family, p, sizeof(family));
	if (family == AF_INET && n >= sizeof(in)) {
		memcpy(&in, p, sizeof(in));
		inet_ntop(AF_INET, &in.sin_addr, ip, sizeof(ip));
		snprintf(text, 128, "%s:%u", ip, ntohs(in.sin_port));
	} else if (family == AF_INET6 && n >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
		memset(&in6, 0, sizeof(in6));
		memcpy(&in6, p, n < sizeof(in6) ? n : sizeof(in6));
		inet_ntop(AF_INET6, &in6.sin6_addr, ip, sizeof(ip));
		snprintf(text, 128, "[%s]:%u", ip, ntohs(in6.sin6_port));
	} else if (family == AF_UNIX && n > 2) {
		snprintf(text, 128, "%s%.*s", p[2] ? "" : "@", (int)(n - 2 - !p[2]), p + 2 + !p[2]);
	}
	free(p);
}

/* ------------------------------------------------------------- descriptors */

static struct sr_channel *channel_of(struct walk *w, int fd)
{
	return fd >= 0 && fd < MOST_FDS ? w->fds[fd] : NULL;
}

static struct sr_channel *make(struct walk *w, const struct source *s, int64_t fd, const char *what)
{
	struct sr_channel *c;

	if (fd < 0 || fd >= MOST_FDS)
		return NULL;
	if (!w->fds[fd])
		w->fds[fd] = malloc(sizeof(**w->fds));
	c = w->fds[fd];
	if (!c)
		return NULL;
	*c = (struct sr_channel){.thread = s->thread, .sn = s->sn, .end = -1};
	snprintf(c->what, sizeof(c->what), "%s", what);
	return c;
}

static void make_pair(struct walk *w, const struct source *s, const char *what)
{
	for (int end = 0; end < 2; end++) {
		struct sr_channel *c =
		    make(w, s, number(s->call, "out", end ? "fds[1]" : "fds[0]"), what);

		if (c)
			c->end = end;
	}
}

/* Counts of both descriptors go on by themselves: what a copy moves is not seen at the other one. */
static void copy(struct walk *w, const struct source *s, int64_t to)
{
	const struct sr_channel *from = channel_of(w, number(s->call, "in", "fd"));
	struct sr_channel *c = from && to != number(s->call, "in", "fd") ? make(w, s, to, "") : NULL;

	if (c)
		*c = *from;
}

static void open_file(struct walk *w, const struct source *s)
{
	struct sr_channel *c = make(w, s, result_of(s->call), "file");
	char *path = c ? sr_trace_bytes(field(s->call, "in", "path"), NULL) : NULL;

	if (path)
		snprintf(c->path, sizeof(c->path), "%s", path);
	free(path);
}

static void accept_one(struct walk *w, const struct source *s)
{
	const struct sr_channel *from = channel_of(w, number(s->call, "in", "fd"));
	struct sr_channel listener = from ? *from : (struct sr_channel){.end = -1};
	struct sr_channel *c = make(w, s, result_of(s->call), "socket");

	if (!c)
		return;
	snprintf(c->local, sizeof(c->local), "%s", listener.local);
	put_address(json_object_get(field(s->call, "out", "addr"), "data"), c->peer);
}

static bool is(const struct source *s, const char *name)
{
	return !strcmp(s->name, name);
}

static bool is_one_of(const char *name, const char *const names[])
{
	for (size_t i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static const char *const reads[] = {"read", "recv", "recvfrom", "recvmsg", "readv", "pread64", "preadv",
				    "preadv2", "__read_chk", "__recv_chk", "__recvfrom_chk", NULL};
static const char *const writes[] = {"write",	 "send",    "sendto",	"sendmsg", "writev",
				     "pwrite64", "pwritev", "pwritev2", NULL};
static const char *const makers[] = {"eventfd",	    "eventfd2",	     "timerfd_create", "signalfd4",
				     "epoll_create1", "inotify_init1", NULL};
static const char *const others[] = {"socket", "accept", "accept4",    "openat", "openat2", "pipe2", "socketpair", "dup",
				     "dup2",   "dup3",	 "fcntl",      "connect",     "bind",  "close",
				     "getsockname", "getpeername", NULL};

static void know(struct walk *w, const struct source *s)
{
	int64_t result = result_of(s->call);
	struct sr_channel *c = channel_of(w, number(s->call, "in", "fd"));
	int cmd = number(s->call, "in", "cmd");

	if (is(s, "connect") && c)
		put_address(field(s->call, "in", "addr"), c->peer);
	if (result < 0)
		return;
	if (is(s, "socket"))
		make(w, s, result, "socket");
	else if (is(s, "accept") || is(s, "accept4"))
		accept_one(w, s);
	else if (is(s, "openat") || is(s, "openat2"))
		open_file(w, s);
	else if (is(s, "pipe2") || is(s, "socketpair"))
		make_pair(w, s, is(s, "pipe2") ? "pipe" : "pair of sockets");
	else if (!strncmp(s->name, "dup", 3) ||
		 (is(s, "fcntl") && (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)))
		copy(w, s, result);
	else if (is_one_of(s->name, makers))
		make(w, s, result, s->name);
	else if (is(s, "close") && c)
		c->what[0] = c->local[0] = c->peer[0] = c->path[0] = 0;
	else if (is(s, "bind") && c)
		put_address(field(s->call, "in", "addr"), c->local);
	else if (is(s, "getsockname") && c)
		put_address(json_object_get(field(s->call, "out", "addr"), "data"), c->local);
	else if (is(s, "getpeername") && c)
		put_address(json_object_get(field(s->call, "out", "addr"), "data"), c->peer);
}

/* -------------------------------------------------------------------- uses */

static char *data_of(const json_t *call, bool is_write, size_t *n)
{
	const json_t *data = is_write ? json_object_get(field(call, "out", "output"), "first")
				      : field(call, "out", "buf");

	*n = 0;
	if (!data)
		data = field(call, "out", "data");
	return data ? sr_trace_bytes(data, n) : NULL;
}

/* False: it has been seen enough. */
static bool use(struct walk *w, const struct source *s, bool is_write)
{
	static const struct sr_channel unknown = {.end = -1};
	int fd = number(s->call, "in", "fd");
	struct sr_channel *c = channel_of(w, fd);
	struct sr_channel_use u = {w->rank, s->thread, s->sn, is_write, c ? c : &unknown, fd};
	int64_t bytes = result_of(s->call);
	bool more;
	char *data;

	u.bytes = bytes < 0 ? 0 : (uint64_t)bytes;
	data = data_of(s->call, is_write, &u.data_n);
	u.data = data;
	if (u.data_n > u.bytes)
		u.data_n = u.bytes;
	more = w->see(w->argument, &u);
	free(data);
	if (c && is_write)
		c->sent += u.bytes;
	else if (c)
		c->received += u.bytes;
	return more;
}

/* -------------------------------------------------------------- the streams */

uint64_t sr_entry_last_event(const struct sr_entry *e)
{
	struct sr_call_head head;
	uint64_t event = 0;

	memcpy(&head, e->payload, sizeof(head));
	if (head.orders)
		memcpy(&event, (const char *)e->payload + e->size - sizeof(event), sizeof(event));
	return event;
}

static bool is_of_interest(const char *name)
{
	return is_one_of(name, reads) || is_one_of(name, writes) || is_one_of(name, makers) ||
	       is_one_of(name, others);
}

/* Names are compared once for each kind of call. */
static bool is_kind_of_interest(struct walk *w, uint16_t kind)
{
	const size_t n = (size_t)kind - SR_REC_CALL;
	const char *name;

	if (n >= SR_LOG_CALLS)
		return false;
	if (!w->interest[n]) {
		name = sr_schema_name(w->schema, kind);
		w->interest[n] = name && is_of_interest(name) ? INTERESTING : NOT_INTERESTING;
	}
	return w->interest[n] == INTERESTING;
}

static void keep_own_segment(struct walk *w, int64_t id)
{
	int64_t *at = sr_grow((void **)&w->own_segments, w->own_segments_n, &w->own_segments_room, sizeof(*at));

	/* One that is not kept counts as others' too. */
	if (!at)
		return;
	*at = id;
	w->own_segments_n++;
}

static bool is_own_segment(const struct walk *w, int64_t id)
{
	for (size_t i = 0; i < w->own_segments_n; i++)
		if (w->own_segments[i] == id)
			return true;
	return false;
}

/* A file of /dev/shm that the process has not just made: another one that has it as well opens it so. */
static bool opens_shared(const json_t *call)
{
	char *path = sr_trace_bytes(field(call, "in", "path"), NULL);
	const bool is = path && !strncmp(path, "/dev/shm/", 9) && result_of(call) >= 0 && !(number(call, "in", "flags") & O_EXCL);

	free(path);
	return is;
}

/*
 * Does the call give the process memory that others have as well?  Libraries make segments and files for themselves, to see
 * whether they can: of two processes that share memory, at least one has not made it.
 */
static bool is_sharing(struct walk *w, const struct sr_entry *e)
{
	const size_t n = (size_t)e->kind - SR_REC_CALL;
	const char *name = n >= SR_LOG_CALLS || w->shares_not[n] ? NULL : sr_schema_name(w->schema, e->kind);
	json_t *call;
	bool is = false;

	if (name && strcmp(name, "shmget") && strcmp(name, "shmat") && strncmp(name, "openat", 6))
		w->shares_not[n] = true;
	if (!name || w->shares_not[n])
		return false;
	call = sr_schema_decode(w->schema, e->kind, e->payload, e->size);
	if (!strcmp(name, "shmat"))
		is = !is_own_segment(w, number(call, "in", "id"));
	else if (!strncmp(name, "openat", 6))
		is = opens_shared(call);
	else if (number(call, "in", "key") == IPC_PRIVATE)
		keep_own_segment(w, result_of(call));
	json_decref(call);
	return is;
}

/* What a child shares with its parent is noted in front of its first call. */
static bool is_inherited(struct walk *w, const struct sr_entry *e)
{
	const char *name = w->has_begun ? NULL : sr_schema_name(w->schema, e->kind);

	w->has_begun = !name || strcmp(name, "shared_mapping");
	return !w->has_begun;
}

static void advance(struct walk *w, struct source *s)
{
	struct sr_entry e;

	json_decref(s->call);
	s->call = NULL;
	while (!s->call && sr_stream_next(s->stream, &e) > 0) {
		if (e.kind < SR_REC_CALL || e.size < sizeof(struct sr_call_head))
			continue;
		if (w->shares && !*w->shares)
			*w->shares = is_inherited(w, &e) || is_sharing(w, &e);
		if (!is_kind_of_interest(w, e.kind))
			continue;
		s->name = sr_schema_name(w->schema, e.kind);
		s->call = sr_schema_decode(w->schema, e.kind, e.payload, e.size);
		s->sn = e.sn;
		/* Without an event it comes after the thread's one before. */
		if (s->call && sr_entry_last_event(&e))
			s->event = sr_entry_last_event(&e);
	}
}

static struct source *first(struct walk *w)
{
	struct source *found = NULL;

	for (size_t i = 0; i < w->n; i++)
		if (w->sources[i].call && (!found || w->sources[i].event < found->event))
			found = &w->sources[i];
	return found;
}

static int open_sources(struct walk *w, struct sr_trace *t, struct sr_error *err)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, w->rank, &threads);

	w->sources = calloc(n + 1, sizeof(*w->sources));
	w->fds = calloc(MOST_FDS, sizeof(*w->fds));
	if (!w->sources || !w->fds)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < n; i++) {
		struct source *s = &w->sources[w->n];
		int ret = sr_stream_open(&s->stream, t, w->rank, threads[i], err);

		if (ret)
			return ret;
		s->thread = threads[i];
		w->n++;
		advance(w, s);
	}
	return 0;
}

static void close_sources(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++) {
		json_decref(w->sources[i].call);
		sr_stream_close(w->sources[i].stream);
	}
	for (int fd = 0; w->fds && fd < MOST_FDS; fd++)
		free(w->fds[fd]);
	free(w->sources);
	free(w->fds);
	free(w->own_segments);
	sr_schema_free(w->schema);
}

int sr_channels_walk(struct sr_trace *t, int32_t rank,
		     bool (*see)(void *argument, const struct sr_channel_use *u), void *argument,
		     bool *shares, struct sr_error *err)
{
	struct walk w = {.rank = rank, .see = see, .argument = argument, .shares = shares, .has_begun = rank < SR_FIRST_ADOPTED};
	struct source *s;
	bool more = true;
	int ret;

	w.schema = sr_schema_of(t, rank, err);
	if (!w.schema)
		return -EBADMSG;
	ret = open_sources(&w, t, err);
	while (!ret && more && (s = first(&w))) {
		if (is_one_of(s->name, reads) || is_one_of(s->name, writes))
			more = use(&w, s, is_one_of(s->name, writes));
		else
			know(&w, s);
		advance(&w, s);
	}
	close_sources(&w);
	return ret;
}

/* ------------------------------------------------------------------- links */

/* An address that was bound may stand for all of the host's. */
static bool is_address_of(const char *peer, const char *local)
{
	const char *port = strrchr(local, ':'), *peer_port = strrchr(peer, ':');

	if (!peer[0] || !local[0])
		return false;
	if (!strcmp(peer, local))
		return true;
	return port && peer_port && !strcmp(port, peer_port) &&
	       (!strncmp(local, "0.0.0.0:", 8) || !strncmp(local, "[::]:", 5));
}

static bool contradict(const char *peer, const char *local)
{
	return peer[0] && local[0] && !is_address_of(peer, local);
}

bool sr_channels_are_linked(const struct sr_channel *to, int32_t to_rank,
			    const struct sr_channel *from, int32_t from_rank)
{
	if (to->end >= 0)
		return from->end == !to->end && to_rank == from_rank && to->thread == from->thread &&
		       to->sn == from->sn;
	if (strcmp(to->what, "socket") || strcmp(from->what, "socket") ||
	    contradict(to->peer, from->local) || contradict(from->peer, to->local))
		return false;
	return is_address_of(to->peer, from->local) || is_address_of(from->peer, to->local);
}

json_t *sr_channels_call(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t sn)
{
	struct sr_schema *schema = sr_schema_of(t, rank, NULL);
	struct sr_stream *s = NULL;
	json_t *call = NULL;
	struct sr_error err;
	struct sr_entry e;

	if (schema && !sr_stream_open(&s, t, rank, thread, &err) && !sr_stream_seek(s, sn))
		while (!call && sr_stream_next(s, &e) > 0 && e.sn <= sn)
			if (e.kind >= SR_REC_CALL && e.sn == sn &&
			    (call = sr_schema_decode(schema, e.kind, e.payload, e.size)))
				json_object_set_new(call, "call", json_string(sr_schema_name(schema, e.kind)));
	sr_stream_close(s);
	sr_schema_free(schema);
	return call;
}
