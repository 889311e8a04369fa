/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The talk, in pieces of fixed size:
 *
 *   answerer  hello   what it is, its nonce
 *   asker     ask     the job's public id, its nonce, its proof
 *   answerer  accept  its proof and the header of its stream
 *   asker     header  of its stream
 *   both      sealed  struct question, struct reply
 *
 * Each side reads one piece at a time and knows which comes next.
 */
#include "node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "directory.h"
#include "log.h"
#include "rawsys.h"
#include "secret.h"
#include "server.h"

/* One for each user of a host: the daemons of one user find each other by it. */
#define PORT_BASE      24000
#define PORT_RANGE     8000

#define TICK_MS        100
#define HANDSHAKE_MS   5000
#define AVOID_MS       10000 /* a host that could not be reached */
#define STRANGERS_MAX  64    /* connections whose proof has not come */
#define CANDIDATES_MAX 64
#define OUT_MAX        (64 << 10)

static const uint8_t hello_magic[8] = {'s', 'r', 'e', 'p', 'l', 'a', 'y', 1};

/* ------------------------------------------------------------------ messages */

struct hello {
	uint8_t magic[sizeof(hello_magic)];
	uint8_t nonce[SECRET_NONCE_BYTES];
};

struct ask {
	uint8_t job[SECRET_ID_BYTES];
	uint8_t nonce[SECRET_NONCE_BYTES];
	uint8_t proof[SECRET_PROOF_BYTES];
};

struct accept {
	uint8_t proof[SECRET_PROOF_BYTES];
	uint8_t header[SECRET_HEADER_BYTES];
};

struct question {
	uint64_t number;
	uint8_t gid[SR_GID_BYTES];
	uint32_t qp;
	uint32_t asker; /* its member, or SR_OUTSIDER */
};

struct reply {
	uint64_t number;
	struct sr_found found;
	int32_t error;
	uint32_t reserved;
};

#define LARGEST 256

/* --------------------------------------------------------------------- state */

enum stage { CONNECTING, WANT_HELLO, WANT_ASK, WANT_ACCEPT, WANT_HEADER, OPEN };

struct link {
	struct source source;
	struct link *next;
	const struct job *job; /* of an answerer NULL until the ask */
	enum secret_side side;
	enum stage stage;
	struct sockaddr_storage address;
	struct secret_talk talk;
	struct secret_stream *stream;
	int64_t since;
	uint8_t in[LARGEST];
	size_t in_size;
	uint8_t *out; /* what the socket would not take yet */
	size_t out_size;
};

/* A question that waits, with the links that it was put to. */
struct waiting {
	struct waiting *next;
	uint64_t number;
	struct peer *peer;
	const struct job *job;
	uint32_t member;
	struct sr_message request;
	int64_t deadline;
	struct candidate {
		struct sockaddr_storage address;
		struct link *link; /* NULL: has answered, or is to be tried again */
		bool sent, again;
	} candidate[CANDIDATES_MAX];
	int candidates, open;
	bool silent; /* one of them did not answer */
	char who[INET6_ADDRSTRLEN];
};

struct host {
	struct host *next;
	struct sockaddr_storage address;
	bool known; /* it has a daemon of ours: if it is gone, another one will come */
	int64_t avoided_until;
};

struct nodes {
	struct source listener, timer;
	struct link *links;
	struct waiting *waiting;
	struct host *hosts;
	uint64_t last_number;
	bool ticking;
};

static struct sockaddr_storage listen_address;

/* ------------------------------------------------------------------ addresses */

static in_port_t default_port(void)
{
	return htons((in_port_t)(PORT_BASE + geteuid() % PORT_RANGE));
}

static in_port_t *port_of(struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? &((struct sockaddr_in *)a)->sin_port
				       : &((struct sockaddr_in6 *)a)->sin6_port;
}

static bool parse_ip(const char *text, struct sockaddr_storage *a)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)a)->sin_addr) == 1)
		a->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)a)->sin6_addr) == 1)
		a->ss_family = AF_INET6;
	else
		return false;
	return true;
}

/* "1.2.3.4", "1.2.3.4:5", "::1", "[::1]:5" */
static bool parse_address(const char *text, struct sockaddr_storage *a)
{
	char host[64], *colon, *end;
	long port = 0;

	if (strlen(text) >= sizeof(host))
		return false;
	strcpy(host, text);
	if (host[0] == '[') {
		memmove(host, host + 1, strlen(host));
		colon = strchr(host, ']');
		if (!colon || (colon[1] && colon[1] != ':'))
			return false;
		*colon = 0;
		colon = colon[1] ? colon + 1 : NULL;
	} else {
		colon = strchr(host, ':');
		if (colon && strchr(colon + 1, ':'))
			colon = NULL;
	}
	if (colon) {
		*colon = 0;
		port = strtol(colon + 1, &end, 10);
		if (*end || port < 1 || port > 65535)
			return false;
	}
	if (!parse_ip(host, a))
		return false;
	*port_of(a) = port ? htons((in_port_t)port) : 0;
	return true;
}

int node_set_address(const char *text)
{
	return parse_address(text, &listen_address) ? 0 : -EINVAL;
}

/* Others' daemons listen on the port of this one, unless the host list says otherwise. */
static in_port_t common_port(void)
{
	in_port_t port = listen_address.ss_family ? *port_of(&listen_address) : 0;

	return port ? port : default_port();
}

static void name_of(const struct sockaddr_storage *a, char *text, size_t size)
{
	const void *ip = a->ss_family == AF_INET
			     ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
			     : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;

	if (!inet_ntop(a->ss_family, ip, text, (socklen_t)size))
		snprintf(text, size, "?");
}

static bool is_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* A GID that is an IP address: ::ffff:a.b.c.d, or global IPv6. */
static bool gid_address(const uint8_t *gid, struct sockaddr_storage *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memset(a, 0, sizeof(*a));
	if (!memcmp(gid, mapped, sizeof(mapped))) {
		a->ss_family = AF_INET;
		memcpy(&((struct sockaddr_in *)a)->sin_addr, gid + 12, 4);
	} else if (gid[0] >> 5 == 1) {
		a->ss_family = AF_INET6;
		memcpy(&((struct sockaddr_in6 *)a)->sin6_addr, gid, 16);
	} else {
		return false;
	}
	*port_of(a) = common_port();
	return true;
}

/*
 * Where to ask: the host of the GID if that is an address, and all that the job
 * names, whose daemons may be on a network of their own.
 */
static void list_candidates(struct waiting *w, const uint8_t *gid)
{
	char hosts[SR_JOB_MAX], *rest = hosts, *host;

	if (gid_address(gid, &w->candidate[0].address))
		w->candidates = 1;
	snprintf(hosts, sizeof(hosts), "%s", w->job->hosts);
	while (w->candidates < CANDIDATES_MAX && (host = strsep(&rest, ",\n "))) {
		struct sockaddr_storage *a = &w->candidate[w->candidates].address;

		if (!*host || !parse_address(host, a))
			continue;
		if (!*port_of(a))
			*port_of(a) = common_port();
		w->candidates++;
	}
}

/* ---------------------------------------------------------------------- hosts */

/* NULL without memory. */
static struct host *host_of(struct nodes *n, const struct sockaddr_storage *a)
{
	struct host *h;

	for (h = n->hosts; h && !is_same_address(&h->address, a); h = h->next)
		;
	if (h)
		return h;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->address = *a;
	h->next = n->hosts;
	n->hosts = h;
	return h;
}

static bool is_known(struct nodes *n, const struct sockaddr_storage *a)
{
	const struct host *h = host_of(n, a);

	return h && h->known;
}

static bool is_avoided(struct nodes *n, const struct sockaddr_storage *a)
{
	const struct host *h = host_of(n, a);

	return !h || sr_sys_now_ms() < h->avoided_until;
}

static void avoid(struct nodes *n, const struct sockaddr_storage *a)
{
	struct host *h = host_of(n, a);

	if (!h)
		return;
	h->known = false;
	h->avoided_until = sr_sys_now_ms() + AVOID_MS;
}

static void make_known(struct nodes *n, const struct sockaddr_storage *a)
{
	struct host *h = host_of(n, a);

	if (h)
		h->known = true;
}

/* ---------------------------------------------------------------------- links */

static void link_ready(struct server *s, struct source *source);
static void give_up_link(struct server *s, struct link *l);

/* Watches for writing as well while there is something to write, or to be connected. */
static void watch_link(struct server *s, struct link *l)
{
	bool writes = l->out_size || l->stage == CONNECTING;
	struct epoll_event e = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = l};

	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, l->source.fd, &e);
}

static struct link *add_link(struct server *s, int fd, enum secret_side side, enum stage stage)
{
	struct link *l = calloc(1, sizeof(*l));
	int yes = 1;

	if (!l) {
		close(fd);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	l->source = (struct source){link_ready, fd};
	l->side = l->talk.side = side;
	l->stage = stage;
	l->since = sr_sys_now_ms();
	if (server_watch(s, &l->source)) {
		close(fd);
		free(l);
		return NULL;
	}
	l->next = s->nodes->links;
	s->nodes->links = l;
	watch_link(s, l);
	return l;
}

static void free_link(struct server *s, struct link *l)
{
	struct link **at = &s->nodes->links;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	server_unwatch(s, &l->source);
	close(l->source.fd);
	secret_stream_free(l->stream);
	free(l->out);
	free(l);
}

static struct link *connect_to(struct server *s, const struct job *job,
			       const struct sockaddr_storage *a)
{
	int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct link *l;

	if (fd < 0)
		return NULL;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno != EINPROGRESS) {
		close(fd);
		return NULL;
	}
	l = add_link(s, fd, SECRET_ASKER, CONNECTING);
	if (!l)
		return NULL;
	l->job = job;
	l->talk.key = job->key;
	l->address = *a;
	return l;
}

static struct link *link_to(struct server *s, const struct job *job,
			    const struct sockaddr_storage *a)
{
	struct link *l;

	if (is_avoided(s->nodes, a))
		return NULL;
	for (l = s->nodes->links; l; l = l->next)
		if (l->side == SECRET_ASKER && l->job == job && is_same_address(&l->address, a))
			return l;
	return connect_to(s, job, a);
}

/* 0, or -errno: the link is of no use any more. */
static int flush(struct server *s, struct link *l)
{
	while (l->out_size) {
		ssize_t n = send(l->source.fd, l->out, l->out_size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0)
			break;
		l->out_size -= (size_t)n;
		memmove(l->out, l->out + n, l->out_size);
	}
	watch_link(s, l);
	return 0;
}

static int say(struct server *s, struct link *l, const void *bytes, size_t size)
{
	uint8_t *out;

	if (l->out_size + size > OUT_MAX)
		return -ENOBUFS; /* it does not read */
	out = realloc(l->out, l->out_size + size);
	if (!out)
		return -ENOMEM;
	memcpy(out + l->out_size, bytes, size);
	l->out = out;
	l->out_size += size;
	return flush(s, l);
}

static int say_sealed(struct server *s, struct link *l, const void *message, size_t size)
{
	uint8_t sealed[LARGEST];

	secret_seal(l->stream, message, size, sealed);
	return say(s, l, sealed, size + SECRET_SEAL_BYTES);
}

/* ------------------------------------------------------------------ questions */

static void answer_waiting(struct server *s, struct waiting *w, int error, const char *text,
			   struct sr_found *found)
{
	struct waiting **at = &s->nodes->waiting;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	directory_answer(s, w->peer, &w->request, error, text, found);
	free(w);
}

/* Nobody is left to ask. */
static void answer_without(struct server *s, struct waiting *w)
{
	char text[160];

	if (!w->silent) {
		answer_waiting(s, w, -ENOENT, "", NULL);
		return;
	}
	snprintf(text, sizeof(text), "the sreplay-logd of %s does not answer", w->who);
	answer_waiting(s, w, -ETIMEDOUT, text, NULL);
}

/* This link will not answer any more: its questions are put again, or have one less to wait for. */
static void drop_questions(struct server *s, struct link *l, bool again)
{
	struct waiting *w, *next;

	for (w = s->nodes->waiting; w; w = next) {
		next = w->next;
		for (int i = 0; i < w->candidates; i++) {
			struct candidate *c = &w->candidate[i];

			if (c->link != l)
				continue;
			c->link = NULL;
			c->sent = false;
			c->again = again;
			w->open -= !again;
		}
		if (!w->open)
			answer_without(s, w);
	}
}

static int put_question(struct server *s, struct link *l, struct waiting *w, struct candidate *c)
{
	struct question q = {.number = w->number, .asker = w->member};
	struct sr_find find;

	memcpy(&find, w->request.text, sizeof(find));
	q.qp = find.number;
	memcpy(q.gid, find.gid, sizeof(q.gid));
	c->sent = true;
	return say_sealed(s, l, &q, sizeof(q));
}

/* All that wait for this link to open. */
static int put_questions(struct server *s, struct link *l)
{
	for (struct waiting *w = s->nodes->waiting; w; w = w->next) {
		for (int i = 0; i < w->candidates; i++) {
			struct candidate *c = &w->candidate[i];
			int err = c->link == l && !c->sent ? put_question(s, l, w, c) : 0;

			if (err)
				return err;
		}
	}
	return 0;
}

static int take_reply(struct server *s, struct link *l, const struct reply *r)
{
	struct sr_found found = r->found;
	struct waiting *w;

	for (w = s->nodes->waiting; w && w->number != r->number; w = w->next)
		;
	if (!w)
		return 0; /* it comes too late */
	if (!r->error) {
		answer_waiting(s, w, 0, "", &found);
		return 0;
	}
	for (int i = 0; i < w->candidates; i++) {
		if (w->candidate[i].link == l) {
			w->candidate[i].link = NULL;
			w->open--;
		}
	}
	if (!w->open)
		answer_without(s, w);
	return 0;
}

static int take_question(struct server *s, struct link *l, const struct question *q)
{
	struct reply r = {.number = q->number};

	r.error = directory_find(s->directory, l->job, q->gid, q->qp, q->asker, &r.found);
	return say_sealed(s, l, &r, sizeof(r));
}

/* ----------------------------------------------------------------- handshake */

static void log_refusal(const struct link *l, const char *why)
{
	char name[INET6_ADDRSTRLEN];

	name_of(&l->address, name, sizeof(name));
	log_line("%s refused: %s", name, why);
}

static int say_hello(struct server *s, struct link *l)
{
	struct hello h;

	memcpy(h.magic, hello_magic, sizeof(h.magic));
	secret_nonce(l->talk.answerer);
	memcpy(h.nonce, l->talk.answerer, sizeof(h.nonce));
	return say(s, l, &h, sizeof(h));
}

static int take_hello(struct server *s, struct link *l, const struct hello *h)
{
	struct ask a;

	if (memcmp(h->magic, hello_magic, sizeof(h->magic)) != 0) {
		log_refusal(l, "no sreplay-logd, or of another version");
		return -EPROTO;
	}
	memcpy(l->talk.answerer, h->nonce, sizeof(h->nonce));
	secret_nonce(l->talk.asker);
	memcpy(a.job, l->job->id, sizeof(a.job));
	memcpy(a.nonce, l->talk.asker, sizeof(a.nonce));
	secret_prove(&l->talk, SECRET_ASKER, a.proof);
	l->stage = WANT_ACCEPT;
	return say(s, l, &a, sizeof(a));
}

static int take_ask(struct server *s, struct link *l, const struct ask *a)
{
	struct accept out;

	l->job = directory_job(s->directory, a->job);
	if (!l->job || !l->job->has_key) {
		log_refusal(l, "it asks for a job that has another key, or is not here");
		return -EACCES;
	}
	l->talk.key = l->job->key;
	memcpy(l->talk.asker, a->nonce, sizeof(a->nonce));
	if (!secret_is_proof(&l->talk, SECRET_ASKER, a->proof)) {
		log_refusal(l, "it does not have the job's key");
		return -EACCES;
	}
	secret_prove(&l->talk, SECRET_ANSWERER, out.proof);
	l->stream = secret_stream_create(&l->talk, out.header);
	if (!l->stream)
		return -ENOMEM;
	l->stage = WANT_HEADER;
	return say(s, l, &out, sizeof(out));
}

static int take_accept(struct server *s, struct link *l, const struct accept *a)
{
	uint8_t header[SECRET_HEADER_BYTES];
	int err;

	if (!secret_is_proof(&l->talk, SECRET_ANSWERER, a->proof)) {
		log_refusal(l, "it does not have the job's key");
		return -EACCES;
	}
	l->stream = secret_stream_create(&l->talk, header);
	if (!l->stream)
		return -ENOMEM;
	err = secret_stream_accept(l->stream, a->header);
	if (!err)
		err = say(s, l, header, sizeof(header));
	if (err)
		return err;
	l->stage = OPEN;
	make_known(s->nodes, &l->address);
	return put_questions(s, l);
}

static int take_header(struct link *l, const uint8_t *header)
{
	l->stage = OPEN;
	return secret_stream_accept(l->stream, header);
}

/* --------------------------------------------------------------------- reading */

static size_t wanted(const struct link *l)
{
	switch (l->stage) {
	case WANT_HELLO:
		return sizeof(struct hello);
	case WANT_ASK:
		return sizeof(struct ask);
	case WANT_ACCEPT:
		return sizeof(struct accept);
	case WANT_HEADER:
		return SECRET_HEADER_BYTES;
	default:
		return SECRET_SEAL_BYTES +
		       (l->side == SECRET_ASKER ? sizeof(struct reply) : sizeof(struct question));
	}
}

static int take_sealed(struct server *s, struct link *l)
{
	struct question q;
	struct reply r;
	int err;

	if (l->side == SECRET_ASKER) {
		err = secret_unseal(l->stream, l->in, &r, sizeof(r));
		return err ? err : take_reply(s, l, &r);
	}
	err = secret_unseal(l->stream, l->in, &q, sizeof(q));
	return err ? err : take_question(s, l, &q);
}

static int take_piece(struct server *s, struct link *l)
{
	switch (l->stage) {
	case WANT_HELLO:
		return take_hello(s, l, (const struct hello *)l->in);
	case WANT_ASK:
		return take_ask(s, l, (const struct ask *)l->in);
	case WANT_ACCEPT:
		return take_accept(s, l, (const struct accept *)l->in);
	case WANT_HEADER:
		return take_header(l, l->in);
	default:
		return take_sealed(s, l);
	}
}

static int read_link(struct server *s, struct link *l)
{
	for (;;) {
		size_t want = wanted(l);
		ssize_t n = recv(l->source.fd, l->in + l->in_size, want - l->in_size, MSG_DONTWAIT);
		int err = 0;

		if (n == 0)
			return -ECONNRESET;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		l->in_size += (size_t)n;
		if (l->in_size == want) {
			l->in_size = 0;
			err = take_piece(s, l);
		}
		if (err)
			return err;
	}
}

static int finish_connecting(struct link *l)
{
	socklen_t size = sizeof(int);
	int err = 0;

	if (getsockopt(l->source.fd, SOL_SOCKET, SO_ERROR, &err, &size))
		err = errno;
	if (!err)
		l->stage = WANT_HELLO;
	return -err;
}

static void link_ready(struct server *s, struct source *source)
{
	struct link *l = (struct link *)source;
	int err = l->stage == CONNECTING ? finish_connecting(l) : 0;

	if (!err)
		err = flush(s, l);
	if (!err)
		err = read_link(s, l);
	if (err)
		give_up_link(s, l);
}

/*
 * A host that refuses is one without a daemon of this job: no more than that.
 * But where one had answered before, its successor is waited for.
 */
static void give_up_link(struct server *s, struct link *l)
{
	bool known = l->side == SECRET_ASKER && is_known(s->nodes, &l->address);

	if (l->side == SECRET_ASKER && !known)
		avoid(s->nodes, &l->address);
	drop_questions(s, l, known);
	free_link(s, l);
}

/* ------------------------------------------------------------------ the timer */

static void tick_on(struct server *s, bool on)
{
	struct itimerspec every = {.it_interval = {.tv_nsec = TICK_MS * 1000000},
				   .it_value = {.tv_nsec = TICK_MS * 1000000}};

	if (on != s->nodes->ticking)
		timerfd_settime(s->nodes->timer.fd, 0, on ? &every : &(struct itimerspec){0}, NULL);
	s->nodes->ticking = on;
}

static bool end_handshakes(struct server *s, int64_t now)
{
	struct link *l, *next;
	bool left = false;

	for (l = s->nodes->links; l; l = next) {
		next = l->next;
		if (l->stage == OPEN)
			continue;
		left = true;
		if (now - l->since >= HANDSHAKE_MS)
			give_up_link(s, l);
	}
	return left;
}

/* The first that is still silent. */
static void blame(struct server *s, struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		const struct candidate *c = &w->candidate[i];

		if (!c->link && !c->again)
			continue;
		name_of(&c->address, w->who, sizeof(w->who));
		avoid(s->nodes, &c->address);
		w->silent = true;
		return;
	}
}

static void try_again(struct server *s, struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		struct candidate *c = &w->candidate[i];

		if (!c->again)
			continue;
		c->link = link_to(s, w->job, &c->address);
		c->again = !c->link;
	}
}

static void tick(struct server *s, struct source *source)
{
	int64_t now = sr_sys_now_ms();
	struct waiting *w, *next;
	uint64_t times;
	bool left;

	if (read(source->fd, &times, sizeof(times)) < 0)
		return;
	for (w = s->nodes->waiting; w; w = next) {
		next = w->next;
		if (w->deadline > now) {
			try_again(s, w);
			continue;
		}
		blame(s, w);
		answer_without(s, w);
	}
	left = end_handshakes(s, now);
	tick_on(s, left || s->nodes->waiting);
}

/* ------------------------------------------------------------------- the module */

static struct nodes *nodes(struct server *s)
{
	struct nodes *n = s->nodes;

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->listener.fd = -1;
	n->timer =
	    (struct source){tick, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
	if (n->timer.fd < 0 || server_watch(s, &n->timer)) {
		if (n->timer.fd >= 0)
			close(n->timer.fd);
		free(n);
		return NULL;
	}
	s->nodes = n;
	return n;
}

static int strangers(const struct nodes *n)
{
	int count = 0;

	for (const struct link *l = n->links; l; l = l->next)
		count += l->side == SECRET_ANSWERER && l->stage != OPEN;
	return count;
}

static void accept_link(struct server *s, struct source *listener)
{
	struct sockaddr_storage a = {0};
	socklen_t size = sizeof(a);
	int fd = accept4(listener->fd, (struct sockaddr *)&a, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct link *l;

	if (fd < 0)
		return;
	if (strangers(s->nodes) >= STRANGERS_MAX) {
		close(fd);
		return;
	}
	l = add_link(s, fd, SECRET_ANSWERER, WANT_ASK);
	if (!l)
		return;
	l->address = a;
	tick_on(s, true);
	if (say_hello(s, l))
		give_up_link(s, l);
}

static int open_listener(char *name, size_t size)
{
	struct sockaddr_storage a = listen_address;
	int fd, yes = 1, no = 0;

	if (!a.ss_family)
		a.ss_family = AF_INET6; /* any address, of both kinds */
	*port_of(&a) = common_port();
	name_of(&a, name, size);
	fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (!listen_address.ss_family)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, SOMAXCONN)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

void node_listen(struct server *s)
{
	struct nodes *n = nodes(s);
	char name[INET6_ADDRSTRLEN];
	int fd;

	if (!n || n->listener.fd >= 0)
		return;
	fd = open_listener(name, sizeof(name));
	if (fd < 0) {
		log_line("cannot listen on %s port %d for the job's other nodes: %s", name,
			 ntohs(common_port()), strerror(-fd));
		return;
	}
	n->listener = (struct source){accept_link, fd};
	server_watch(s, &n->listener);
}

void node_close(struct server *s)
{
	struct nodes *n = s->nodes;

	if (!n)
		return;
	while (n->waiting) {
		struct waiting *w = n->waiting;

		n->waiting = w->next;
		free(w);
	}
	while (n->links)
		free_link(s, n->links);
	while (n->hosts) {
		struct host *h = n->hosts;

		n->hosts = h->next;
		free(h);
	}
	if (n->listener.fd >= 0)
		close(n->listener.fd);
	close(n->timer.fd);
	free(n);
	s->nodes = NULL;
}

void node_ask(struct server *s, struct peer *p, const struct job *job, uint32_t member,
	      const struct sr_message *request)
{
	struct nodes *n = nodes(s);
	struct waiting *w = n ? calloc(1, sizeof(*w)) : NULL;
	struct link *l;
	struct sr_find find;

	if (!w) {
		directory_answer(s, p, request, -ENOMEM, "", NULL);
		return;
	}
	memcpy(&find, request->text, sizeof(find));
	*w = (struct waiting){.next = n->waiting,
			      .number = ++n->last_number,
			      .peer = p,
			      .job = job,
			      .member = member,
			      .request = *request,
			      .deadline = sr_sys_now_ms() + NODE_PATIENCE_MS};
	list_candidates(w, find.gid);
	n->waiting = w;
	for (int i = 0; i < w->candidates; i++) {
		w->candidate[i].link = link_to(s, job, &w->candidate[i].address);
		w->open += w->candidate[i].link != NULL;
	}
	/* Putting a question may lose its link, and answer it with that. */
	for (l = n->links; l; l = l->next) {
		if (l->stage == OPEN && l->side == SECRET_ASKER && put_questions(s, l)) {
			give_up_link(s, l);
			break;
		}
	}
	if (n->waiting == w && !w->open)
		answer_without(s, w);
	tick_on(s, true);
}

void node_forget_peer(struct server *s, const struct peer *p)
{
	struct waiting **at = s->nodes ? &s->nodes->waiting : NULL, *w;

	while (at && (w = *at)) {
		if (w->peer == p) {
			*at = w->next;
			free(w);
		} else {
			at = &w->next;
		}
	}
}
