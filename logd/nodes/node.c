/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "logd/nodes/directory.h"
#include "logd/daemon/listen.h"
#include "logd/base/log.h"
#include "logd/nodes/address.h"
#include "logd/nodes/link.h"
#include "logd/base/rawsys.h"
#include "logd/daemon/server.h"

#define TICK_MS        100
#define HANDSHAKE_MS   5000
#define AVOID_MS       10000 /* a host that could not be reached */
#define STRANGERS_MAX  64    /* connections whose proof has not come */
#define CANDIDATES_MAX 64

/* A question that waits, with the links that it was put to. */
struct waiting {
	struct waiting *next;
	uint64_t number;
	struct peer *peer;
	const struct job *job;
	uint32_t member;
	struct sr_message request;
	int64_t since;
	struct candidate {
		struct sockaddr_storage address;
		struct link *link; /* NULL: has answered, or is to be tried again */
		bool sent, again;
		bool named; /* by the job: there is a daemon, or should be */
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
	int64_t listen_until; /* the port is a dying predecessor's, maybe: tried until then */
	bool ticking;
};

/* ---------------------------------------------------------------------- hosts */

/* NULL without memory. */
static struct host *host_of(struct nodes *n, const struct sockaddr_storage *a)
{
	struct host *h;

	for (h = n->hosts; h && !node_address_is_same(&h->address, a); h = h->next)
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

static struct link *link_to(struct server *s, const struct job *job,
			    const struct sockaddr_storage *a)
{
	struct link *l;

	if (is_avoided(s->nodes, a))
		return NULL;
	for (l = s->nodes->links; l; l = l->next)
		if (l->side == SECRET_ASKER && l->job == job &&
		    node_address_is_same(&l->address, a))
			return l;
	return link_connect(s, &s->nodes->links, job, a);
}

/* ------------------------------------------------------------------ questions */

/*
 * Where to ask: the host of the GID if that is an address, and all that the job
 * names, whose daemons may be on a network of their own.
 */
static void list_candidates(struct waiting *w, const uint8_t *gid)
{
	char hosts[SR_JOB_MAX], *rest = hosts, *host;

	if (node_address_of_gid(gid, &w->candidate[0].address))
		w->candidates = 1;
	snprintf(hosts, sizeof(hosts), "%s", w->job->hosts);
	while (w->candidates < CANDIDATES_MAX && (host = strsep(&rest, ",\n "))) {
		struct sockaddr_storage *a = &w->candidate[w->candidates].address;

		if (!*host || !node_address_parse(host, a))
			continue;
		if (!*node_address_port(a))
			*node_address_port(a) = node_common_port();
		w->candidate[w->candidates++].named = true;
	}
}

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

static void blame(struct waiting *w, const struct candidate *c)
{
	node_address_print(&c->address, w->who, sizeof(w->who));
	w->silent = true;
}

/* This link will not answer any more: its questions are put again, or have one less to wait for. */
static void drop_questions(struct server *s, struct link *l, bool again, bool absent)
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
			if (!again && (c->named || !absent))
				blame(w, c);
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
	return link_ask(s, l, &q);
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

int node_link_open(struct server *s, struct link *l)
{
	make_known(s->nodes, &l->address);
	return put_questions(s, l);
}

int node_take_reply(struct server *s, struct link *l, const struct reply *r)
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

int node_take_question(struct server *s, struct link *l, const struct question *q)
{
	struct reply r = {.number = q->number};

	r.error = directory_find(s->directory, l->job, q->gid, q->qp, q->asker, &r.found);
	return link_answer(s, l, &r);
}

/*
 * A host that refuses is one without a daemon of this job: no more than that,
 * unless the job names it.  But where one had answered before, its successor is
 * waited for.
 */
void node_link_lost(struct server *s, struct link *l, int err)
{
	bool known = l->side == SECRET_ASKER && is_known(s->nodes, &l->address);
	bool absent = l->stage != CONNECTING || err == -ECONNREFUSED;

	if (l->side == SECRET_ASKER && !known)
		avoid(s->nodes, &l->address);
	drop_questions(s, l, known, absent);
	link_free(s, l);
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

/* ----------------------------------------------------------------- listening */

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

	if (fd < 0)
		return;
	if (strangers(s->nodes) >= STRANGERS_MAX) {
		close(fd);
		return;
	}
	if (link_accept(s, &s->nodes->links, fd, &a))
		tick_on(s, true);
}

static int open_listener(char *name, size_t size)
{
	struct sockaddr_storage a = *node_listen_address();
	int fd, yes = 1, no = 0;

	if (!a.ss_family)
		a.ss_family = AF_INET6; /* any address, of both kinds */
	*node_address_port(&a) = node_common_port();
	node_address_print(&a, name, size);
	fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (!node_listen_address()->ss_family)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, SOMAXCONN)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static bool is_to_listen(const struct nodes *n)
{
	return n->listen_until != 0;
}

static void try_to_listen(struct server *s)
{
	struct nodes *n = s->nodes;
	char name[INET6_ADDRSTRLEN];
	int fd = open_listener(name, sizeof(name));

	if (fd == -EADDRINUSE && sr_sys_now_ms() < n->listen_until)
		return;
	n->listen_until = 0;
	if (fd < 0) {
		log_line("cannot listen on %s port %d for the job's other nodes: %s", name,
			 ntohs(node_common_port()), strerror(-fd));
		return;
	}
	n->listener = (struct source){accept_link, fd};
	server_watch(s, &n->listener);
}

/* ---------------------------------------------------------------- time passes */

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
			node_link_lost(s, l, -ETIMEDOUT);
	}
	return left;
}

/* The first that is still silent. */
static void blame_silent(struct server *s, struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		const struct candidate *c = &w->candidate[i];

		if (!c->link && !c->again)
			continue;
		blame(w, c);
		avoid(s->nodes, &c->address);
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

/* Does it wait for one who has shown the key, and so will answer if he can? */
static bool is_put_to_known(const struct server *s, const struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		const struct candidate *c = &w->candidate[i];

		if ((c->link || c->again) && is_known(s->nodes, &c->address))
			return true;
	}
	return false;
}

static int64_t deadline_of(const struct server *s, const struct waiting *w)
{
	return w->since + (is_put_to_known(s, w) ? NODE_KNOWN_STALL_TIMEOUT_MS : NODE_STALL_TIMEOUT_MS);
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
		if (deadline_of(s, w) > now) {
			try_again(s, w);
			continue;
		}
		blame_silent(s, w);
		answer_without(s, w);
	}
	left = end_handshakes(s, now);
	if (is_to_listen(s->nodes))
		try_to_listen(s);
	tick_on(s, left || s->nodes->waiting || is_to_listen(s->nodes));
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

void node_listen(struct server *s)
{
	struct nodes *n = nodes(s);

	if (!n || n->listener.fd >= 0 || is_to_listen(n))
		return;
	n->listen_until = sr_sys_now_ms() + LISTEN_STALL_TIMEOUT_MS;
	try_to_listen(s);
	tick_on(s, true);
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
		link_free(s, n->links);
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
			      .since = sr_sys_now_ms()};
	list_candidates(w, find.gid);
	n->waiting = w;
	for (int i = 0; i < w->candidates; i++) {
		struct candidate *c = &w->candidate[i];

		c->link = link_to(s, job, &c->address);
		w->open += c->link != NULL;
		if (!c->link && c->named)
			blame(w, c);
	}
	/* Putting a question may lose its link, and answer it with that. */
	for (l = n->links; l; l = l->next) {
		if (l->stage == OPEN && l->side == SECRET_ASKER && put_questions(s, l)) {
			node_link_lost(s, l, -ECONNRESET);
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
