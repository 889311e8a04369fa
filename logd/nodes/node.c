/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/node.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/nodes/address.h"
#include "logd/nodes/hosts.h"
#include "logd/nodes/job.h"
#include "logd/nodes/link.h"
#include "logd/nodes/listener.h"

#define TICK_MS        100
#define HANDSHAKE_MS   5000
#define FIRST_WORD_MS  1500 /* for another node to answer our hello */
#define STRANGERS_MAX  64   /* connections that have not shown a key yet */
#define STRANGERS_EACH 8    /* of one address */
#define CANDIDATES_MAX 64

/* A host that may have the queue pair of a question. */
struct candidate {
	struct sockaddr_storage address;
	struct link *link; /* NULL: it has answered, or is to be tried again */
	bool sent, again;
	bool named; /* by the job: it has a daemon, or should have one */
};

/* A question that waits, with the links on which it is asked. */
struct waiting {
	struct waiting *next;
	uint64_t number;
	struct connection *connection;
	const struct job *job;
	struct node_wanted wanted;
	struct sr_message request;
	int64_t since; /* ms of the monotonic clock */
	struct candidate candidate[CANDIDATES_MAX];
	int candidates, open; /* open: those that may still answer */
	bool silent;          /* one of them did not answer: */
	char who[INET6_ADDRSTRLEN];
};

struct nodes {
	struct loop *loop;
	const struct node_directory *directory;
	void *owner;
	struct source timer;
	struct listener listener;
	struct links links;
	struct waiting *waiting;
	struct hosts hosts;
	uint64_t last_number;
	bool ticking;
};

/* The link of this job to that host, made if there is none; NULL: there is no hope. */
static struct link *link_to(struct nodes *n, const struct job *job,
			    const struct sockaddr_storage *a)
{
	struct link *l;

	if (hosts_is_avoided(&n->hosts, a))
		return NULL;
	for (l = n->links.first; l; l = l->next)
		if (l->side == SECRET_ASKER && l->job == job &&
		    node_address_is_same(&l->address, a))
			return l;
	return link_connect(&n->links, job, a);
}

/* ------------------------------------------------------------------ questions */

/*
 * The hosts to ask: that of the GID, if it is an address, and all that the job names, whose daemons
 * may be on another network than the devices.
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

static void answer_waiting(struct nodes *n, struct waiting *w, int error, const char *text,
			   struct sr_found *found)
{
	struct waiting **at = &n->waiting;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	n->directory->answer(n->owner, w->connection, &w->request, error, text, found);
	free(w);
}

/* No host is left that could answer. */
static void answer_without(struct nodes *n, struct waiting *w)
{
	char text[160];

	if (!w->silent) {
		answer_waiting(n, w, -ENOENT, "", NULL);
		return;
	}
	snprintf(text, sizeof(text), "the sreplay-logd of %s does not answer", w->who);
	answer_waiting(n, w, -ETIMEDOUT, text, NULL);
}

static void blame(struct waiting *w, const struct candidate *c)
{
	node_address_print(&c->address, w->who, sizeof(w->who));
	w->silent = true;
}

/* This link answers no more: its questions are asked again, or wait for one host less. */
static void drop_questions(struct nodes *n, struct link *l, bool again, bool absent)
{
	struct waiting *w, *next;

	for (w = n->waiting; w; w = next) {
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
			answer_without(n, w);
	}
}

static int ask_on(struct link *l, const struct waiting *w, struct candidate *c)
{
	struct question q = {.number = w->number, .qp = w->wanted.number, .asker = w->wanted.asker};

	memcpy(q.gid, w->wanted.gid, sizeof(q.gid));
	c->sent = true;
	return link_ask(l, &q);
}

/* Asks all questions that wait for this link to open. */
static int ask_all_on(struct nodes *n, struct link *l)
{
	for (struct waiting *w = n->waiting; w; w = w->next) {
		for (int i = 0; i < w->candidates; i++) {
			struct candidate *c = &w->candidate[i];
			int err = c->link == l && !c->sent ? ask_on(l, w, c) : 0;

			if (err)
				return err;
		}
	}
	return 0;
}

/* ----------------------------------------------------------- what links report */

static const struct job *job_of(void *owner, const uint8_t *id)
{
	const struct nodes *n = owner;

	return n->directory->job(n->owner, id);
}

static int link_opened(void *owner, struct link *l)
{
	struct nodes *n = owner;

	hosts_make_known(&n->hosts, &l->address);
	return ask_all_on(n, l);
}

static void drop_candidate(struct waiting *w, const struct link *l)
{
	for (int i = 0; i < w->candidates; i++) {
		if (w->candidate[i].link == l) {
			w->candidate[i].link = NULL;
			w->open--;
		}
	}
}

static int take_reply(void *owner, struct link *l, const struct reply *r)
{
	struct nodes *n = owner;
	struct sr_found found = r->found;
	struct waiting *w;

	for (w = n->waiting; w && w->number != r->number; w = w->next)
		;
	if (!w)
		return 0; /* another host has answered, or the process is gone */
	if (!r->error) {
		answer_waiting(n, w, 0, "", &found);
		return 0;
	}
	drop_candidate(w, l);
	if (!w->open)
		answer_without(n, w);
	return 0;
}

static int take_question(void *owner, struct link *l, const struct question *q)
{
	struct nodes *n = owner;
	struct node_wanted wanted = {.number = q->qp, .asker = q->asker};
	struct reply r = {.number = q->number};

	memcpy(wanted.gid, q->gid, sizeof(wanted.gid));
	r.error = n->directory->find(n->owner, l->job, &wanted, &r.found);
	return link_answer(l, &r);
}

/*
 * A host that refuses the connection has no daemon of this job, which is no news
 * unless the job names it.  But a host whose daemon has answered before gets a
 * successor of that one soon: its questions are asked again.
 */
static void link_lost(void *owner, struct link *l, int err)
{
	struct nodes *n = owner;
	bool known = l->side == SECRET_ASKER && hosts_is_known(&n->hosts, &l->address);
	bool absent = l->stage != CONNECTING || err == -ECONNREFUSED;

	if (l->side == SECRET_ASKER && !known)
		hosts_avoid(&n->hosts, &l->address);
	drop_questions(n, l, known, absent);
	link_free(l);
}

static const struct link_events link_events = {
    .job = job_of,
    .opened = link_opened,
    .question = take_question,
    .reply = take_reply,
    .lost = link_lost,
};

/* ------------------------------------------------------------------ the timer */

static void tick_on(struct nodes *n, bool on)
{
	struct itimerspec every = {.it_interval = {.tv_nsec = TICK_MS * 1000000},
				   .it_value = {.tv_nsec = TICK_MS * 1000000}};

	if (on != n->ticking)
		timerfd_settime(n->timer.fd, 0, on ? &every : &(struct itimerspec){0}, NULL);
	n->ticking = on;
}

/* ------------------------------------------------------------- other nodes connect */

static bool is_stranger(const struct link *l)
{
	return l->side == SECRET_ANSWERER && l->stage != OPEN;
}

/* Whatever the port; of IPv6 the network decides, of which a host may have all addresses. */
static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	struct sockaddr_storage x = *a, y = *b;

	if (a->ss_family == AF_INET6 && b->ss_family == AF_INET6 &&
	    !IN6_IS_ADDR_V4MAPPED(&a6->sin6_addr))
		return !memcmp(&a6->sin6_addr, &b6->sin6_addr, 8);
	*node_address_port(&x) = *node_address_port(&y) = 0;
	return node_address_is_same(&x, &y);
}

/* Those of one address, or all (NULL). */
static int count_strangers(const struct nodes *n, const struct sockaddr_storage *a)
{
	int count = 0;

	for (const struct link *l = n->links.first; l; l = l->next)
		count += is_stranger(l) && (!a || is_same_host(&l->address, a));
	return count;
}

/*
 * The oldest stranger of this address, or of the one that has most of them (NULL).  A node that has
 * the key needs two messages to be no stranger any more; who is silent for longer goes first.
 */
static struct link *find_to_drop(const struct nodes *n, const struct sockaddr_storage *a)
{
	struct link *found = NULL;
	int most = 0;

	for (struct link *l = n->links.first; l; l = l->next) {
		int same;

		if (!is_stranger(l) || (a && !is_same_host(&l->address, a)))
			continue;
		same = a ? 1 : count_strangers(n, &l->address);
		if (found && (same < most || (same == most && l->since > found->since)))
			continue;
		found = l;
		most = same;
	}
	return found;
}

/* Those who only connect must not lock out those who have the key. */
static void make_room(struct nodes *n, const struct sockaddr_storage *from)
{
	struct link *drop = NULL;

	if (count_strangers(n, from) >= STRANGERS_EACH)
		drop = find_to_drop(n, from);
	else if (count_strangers(n, NULL) >= STRANGERS_MAX)
		drop = find_to_drop(n, NULL);
	if (drop)
		link_free(drop);
}

static void accept_node(void *owner, int fd, const struct sockaddr_storage *from)
{
	struct nodes *n = owner;

	make_room(n, from);
	if (link_accept(&n->links, fd, from))
		tick_on(n, true);
}

/* The listener is to be tried again. */
static void listener_rests(void *owner)
{
	tick_on(owner, true);
}

/* ---------------------------------------------------------------- time passes */

static bool end_handshakes(struct nodes *n, int64_t now)
{
	struct link *l, *next;
	bool left = false;

	for (l = n->links.first; l; l = next) {
		next = l->next;
		if (l->stage == OPEN)
			continue;
		left = true;
		if (now - l->since >= (l->stage == WANT_ASK ? FIRST_WORD_MS : HANDSHAKE_MS))
			link_lost(n, l, -ETIMEDOUT);
	}
	return left;
}

/* Of those that are still silent, the first one is named to the process. */
static void blame_silent(struct nodes *n, struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		const struct candidate *c = &w->candidate[i];

		if (!c->link && !c->again)
			continue;
		blame(w, c);
		hosts_avoid(&n->hosts, &c->address);
		return;
	}
}

static void try_again(struct nodes *n, struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		struct candidate *c = &w->candidate[i];

		if (!c->again)
			continue;
		c->link = link_to(n, w->job, &c->address);
		c->again = !c->link;
	}
}

/* Does it wait for a host that has shown the key, and so answers as soon as it can? */
static bool waits_for_known(struct nodes *n, const struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		const struct candidate *c = &w->candidate[i];

		if ((c->link || c->again) && hosts_is_known(&n->hosts, &c->address))
			return true;
	}
	return false;
}

static int64_t deadline_of(struct nodes *n, const struct waiting *w)
{
	return w->since +
	       (waits_for_known(n, w) ? NODE_KNOWN_STALL_TIMEOUT_MS : NODE_STALL_TIMEOUT_MS);
}

static void end_questions(struct nodes *n, int64_t now)
{
	struct waiting *w, *next;

	for (w = n->waiting; w; w = next) {
		next = w->next;
		if (deadline_of(n, w) > now) {
			try_again(n, w);
			continue;
		}
		blame_silent(n, w);
		answer_without(n, w);
	}
}

static void tick(void *owner, struct source *source)
{
	struct nodes *n = owner;
	int64_t now = sr_sys_now_ms();
	uint64_t times;
	bool left;

	if (read(source->fd, &times, sizeof(times)) < 0)
		return;
	end_questions(n, now);
	left = end_handshakes(n, now);
	if (listener_is_trying(&n->listener))
		listener_try(&n->listener);
	tick_on(n, left || n->waiting || listener_is_trying(&n->listener));
}

/* ------------------------------------------------------------------- the module */

struct nodes *nodes_open(struct loop *loop, const struct node_directory *directory, void *owner)
{
	struct nodes *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->loop = loop;
	n->directory = directory;
	n->owner = owner;
	n->links = (struct links){.loop = loop, .events = &link_events, .owner = n};
	listener_init(&n->listener, loop, accept_node, listener_rests, n);
	n->timer = (struct source){
	    .ready = tick,
	    .owner = n,
	    .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
	};
	if (n->timer.fd < 0 || loop_watch(loop, &n->timer)) {
		if (n->timer.fd >= 0)
			close(n->timer.fd);
		free(n);
		return NULL;
	}
	return n;
}

void nodes_close(struct nodes *n)
{
	while (n->waiting) {
		struct waiting *w = n->waiting;

		n->waiting = w->next;
		free(w);
	}
	while (n->links.first)
		link_free(n->links.first);
	hosts_free(&n->hosts);
	listener_close(&n->listener);
	close(n->timer.fd);
	free(n);
}

void nodes_listen(struct nodes *n)
{
	listener_begin(&n->listener);
	if (listener_is_trying(&n->listener))
		tick_on(n, true);
}

static void begin_links(struct nodes *n, struct waiting *w)
{
	for (int i = 0; i < w->candidates; i++) {
		struct candidate *c = &w->candidate[i];

		c->link = link_to(n, w->job, &c->address);
		w->open += c->link != NULL;
		if (!c->link && c->named)
			blame(w, c);
	}
}

/* Asks on the links that are open already. */
static void ask_at_once(struct nodes *n)
{
	struct link *l = n->links.first;

	while (l) {
		if (l->stage != OPEN || l->side != SECRET_ASKER || !ask_all_on(n, l)) {
			l = l->next;
			continue;
		}
		link_lost(n, l, -ECONNRESET);
		l = n->links.first;
	}
}

void nodes_ask(struct nodes *n, struct connection *c, const struct job *job,
	       const struct node_wanted *wanted, const struct sr_message *request)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w) {
		n->directory->answer(n->owner, c, request, -ENOMEM, "", NULL);
		return;
	}
	*w = (struct waiting){.next = n->waiting,
			      .number = ++n->last_number,
			      .connection = c,
			      .job = job,
			      .wanted = *wanted,
			      .request = *request,
			      .since = sr_sys_now_ms()};
	list_candidates(w, wanted->gid);
	n->waiting = w;
	begin_links(n, w);
	ask_at_once(n);
	/* A link that was lost may have answered it, so w may be gone. */
	if (n->waiting == w && !w->open)
		answer_without(n, w);
	tick_on(n, true);
}

void nodes_forget(struct nodes *n, const struct connection *c)
{
	for (struct waiting **at = &n->waiting, *w; (w = *at);) {
		if (w->connection == c) {
			*at = w->next;
			free(w);
		} else {
			at = &w->next;
		}
	}
}
