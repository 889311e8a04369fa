/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/nodes/address.h"
#include "logd/nodes/job.h"
#include "logd/service/log.h"

#define OUT_MAX (64 << 10)

static const uint8_t hello_magic[8] = {'s', 'r', 'e', 'p', 'l', 'a', 'y', 2};

/* The pieces of the handshake; link.h has the sealed ones. */
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

static void link_ready(void *owner, struct source *source);

static struct link *add_link(struct links *list, int fd, enum secret_side side, enum stage stage)
{
	struct link *l = calloc(1, sizeof(*l));
	int yes = 1;

	if (!l) {
		close(fd);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	l->source = (struct source){.ready = link_ready, .owner = list->owner, .fd = fd};
	l->side = l->handshake.side = side;
	l->stage = stage;
	l->since = sr_sys_now_ms();
	if (loop_watch(list->loop, &l->source)) {
		close(fd);
		free(l);
		return NULL;
	}
	l->list = list;
	l->next = list->first;
	list->first = l;
	loop_watch_writes(list->loop, &l->source, stage == CONNECTING);
	return l;
}

void link_free(struct link *l)
{
	struct link **at = &l->list->first;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	loop_unwatch(l->list->loop, &l->source);
	close(l->source.fd);
	secret_stream_free(l->stream);
	free(l->out);
	free(l);
}

struct link *link_connect(struct links *list, const struct job *job,
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
	l = add_link(list, fd, SECRET_ASKER, CONNECTING);
	if (!l)
		return NULL;
	l->job = job;
	l->handshake.key = job->key;
	l->address = *a;
	return l;
}

/* ------------------------------------------------------------------- writing */

/* 0, or -errno: the link is of no use any more. */
static int flush(struct link *l)
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
	loop_watch_writes(l->list->loop, &l->source, l->out_size);
	return 0;
}

static int say(struct link *l, const void *bytes, size_t size)
{
	uint8_t *out;

	if (l->out_size + size > OUT_MAX)
		return -ENOBUFS; /* the other side does not read */
	out = realloc(l->out, l->out_size + size);
	if (!out)
		return -ENOMEM;
	memcpy(out + l->out_size, bytes, size);
	l->out = out;
	l->out_size += size;
	return flush(l);
}

static int say_sealed(struct link *l, const void *message, size_t size)
{
	uint8_t sealed[LINK_PIECE_MAX];

	secret_seal(l->stream, message, size, sealed);
	return say(l, sealed, size + SECRET_SEAL_BYTES);
}

/* ----------------------------------------------------------------- handshake */

static void log_refusal(const struct link *l, const char *why)
{
	char name[INET6_ADDRSTRLEN];

	node_address_print(&l->address, name, sizeof(name));
	log_line("%s refused: %s", name, why);
}

static int say_hello(struct link *l)
{
	struct hello h;

	memcpy(h.magic, hello_magic, sizeof(h.magic));
	secret_nonce(l->handshake.answerer);
	memcpy(h.nonce, l->handshake.answerer, sizeof(h.nonce));
	return say(l, &h, sizeof(h));
}

static int take_hello(struct link *l)
{
	const struct hello *h = (const struct hello *)l->in;
	struct ask a;

	if (memcmp(h->magic, hello_magic, sizeof(h->magic)) != 0) {
		log_refusal(l, "no sreplay-logd, or of another version");
		return -EPROTO;
	}
	memcpy(l->handshake.answerer, h->nonce, sizeof(h->nonce));
	secret_nonce(l->handshake.asker);
	memcpy(a.job, l->job->id, sizeof(a.job));
	memcpy(a.nonce, l->handshake.asker, sizeof(a.nonce));
	secret_prove(&l->handshake, SECRET_ASKER, a.proof);
	l->stage = WANT_ACCEPT;
	return say(l, &a, sizeof(a));
}

static int take_ask(struct link *l)
{
	const struct ask *a = (const struct ask *)l->in;
	struct accept out;

	l->job = l->list->events->job(l->list->owner, a->job);
	if (!l->job || !l->job->has_key) {
		log_refusal(l, "it asks for a job that has another key, or is not here");
		return -EACCES;
	}
	l->handshake.key = l->job->key;
	memcpy(l->handshake.asker, a->nonce, sizeof(a->nonce));
	if (!secret_is_proof(&l->handshake, SECRET_ASKER, a->proof)) {
		log_refusal(l, "it does not have the job's key");
		return -EACCES;
	}
	secret_prove(&l->handshake, SECRET_ANSWERER, out.proof);
	l->stream = secret_stream_create(&l->handshake, out.header);
	if (!l->stream)
		return -ENOMEM;
	l->stage = WANT_HEADER;
	return say(l, &out, sizeof(out));
}

static int take_accept(struct link *l)
{
	const struct accept *a = (const struct accept *)l->in;
	uint8_t header[SECRET_HEADER_BYTES];
	int err;

	if (!secret_is_proof(&l->handshake, SECRET_ANSWERER, a->proof)) {
		log_refusal(l, "it does not have the job's key");
		return -EACCES;
	}
	l->stream = secret_stream_create(&l->handshake, header);
	if (!l->stream)
		return -ENOMEM;
	err = secret_stream_accept(l->stream, a->header);
	if (!err)
		err = say(l, header, sizeof(header));
	if (err)
		return err;
	l->stage = OPEN;
	return l->list->events->opened(l->list->owner, l);
}

static int take_header(struct link *l)
{
	l->stage = OPEN;
	return secret_stream_accept(l->stream, l->in);
}

static int take_question(struct link *l)
{
	struct question q;
	int err = secret_unseal(l->stream, l->in, &q, sizeof(q));

	return err ? err : l->list->events->question(l->list->owner, l, &q);
}

static int take_reply(struct link *l)
{
	struct reply r;
	int err = secret_unseal(l->stream, l->in, &r, sizeof(r));

	return err ? err : l->list->events->reply(l->list->owner, l, &r);
}

/* -------------------------------------------------------------------- reading */

struct piece {
	size_t size;
	int (*take)(struct link *l);
};

static const struct piece *next_piece(const struct link *l)
{
	static const struct piece handshake[] = {
	    [WANT_HELLO] = {sizeof(struct hello), take_hello},
	    [WANT_ASK] = {sizeof(struct ask), take_ask},
	    [WANT_ACCEPT] = {sizeof(struct accept), take_accept},
	    [WANT_HEADER] = {SECRET_HEADER_BYTES, take_header},
	};
	static const struct piece sealed[] = {
	    [SECRET_ASKER] = {SECRET_SEAL_BYTES + sizeof(struct reply), take_reply},
	    [SECRET_ANSWERER] = {SECRET_SEAL_BYTES + sizeof(struct question), take_question},
	};

	return l->stage == OPEN ? &sealed[l->side] : &handshake[l->stage];
}

static int read_link(struct link *l)
{
	for (;;) {
		const struct piece *piece = next_piece(l);
		ssize_t n =
		    recv(l->source.fd, l->in + l->in_size, piece->size - l->in_size, MSG_DONTWAIT);
		int err = 0;

		if (n == 0)
			return -ECONNRESET;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		l->in_size += (size_t)n;
		if (l->in_size == piece->size) {
			l->in_size = 0;
			err = piece->take(l);
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

static void lost(struct link *l, int err)
{
	l->list->events->lost(l->list->owner, l, err);
}

static void link_ready(void *owner, struct source *source)
{
	struct link *l = (struct link *)source;
	int err = l->stage == CONNECTING ? finish_connecting(l) : 0;

	if (!err)
		err = flush(l);
	if (!err)
		err = read_link(l);
	if (err)
		lost(l, err);
}

/* --------------------------------------------------------- what the owner calls */

struct link *link_accept(struct links *list, int fd, const struct sockaddr_storage *from)
{
	struct link *l = add_link(list, fd, SECRET_ANSWERER, WANT_ASK);

	if (!l)
		return NULL;
	l->address = *from;
	if (!say_hello(l))
		return l;
	lost(l, -ECONNRESET);
	return NULL;
}

int link_ask(struct link *l, const struct question *q)
{
	return say_sealed(l, q, sizeof(*q));
}

int link_answer(struct link *l, const struct reply *r)
{
	return say_sealed(l, r, sizeof(*r));
}
