/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/directory.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/nodes/address.h"
#include "logd/nodes/job.h"
#include "logd/nodes/journal.h"
#include "logd/nodes/members.h"
#include "logd/nodes/node.h"
#include "logd/ring/request.h"
#include "logd/service/connection.h"
#include "logd/service/log.h"

/* Only in the journal: queue pair `thread` of the process has cell `value`. */
#define MSG_CELL    0x7000
/* Only in the journal: where this node's daemon listens. */
#define MSG_LISTEN  0x7001

#define MEMBERS_MAX 64

struct directory {
	struct loop *loop;
	struct jobs jobs;
	struct members members;
	struct journal *journal;
	struct nodes *nodes;              /* NULL: no job has other nodes yet */
	struct sockaddr_storage listened; /* by the journal; ss_family 0: it does not say */
};

/* What a request, or an entry of the journal, consists of. */
struct request {
	pid_t pid;
	const struct sr_message *message;
	const void *body;
	size_t size;
};

static void keep(struct directory *d, const struct request *r)
{
	journal_write(d->journal, r->pid, r->message, r->body, r->size);
}

/* ------------------------------------------------------------------- cells */

/* The peer of this queue pair is a member of the group, so it needs a cell. */
static void give_cell(struct directory *d, struct queue_pair *q)
{
	struct sr_message m;

	if (!queue_pair_take_cell(q))
		return;
	sr_message_init(&m, MSG_CELL);
	memcpy(m.process, q->process->id, sizeof(m.process));
	m.thread = q->is.number;
	m.value = q->cell;
	keep(d, &(struct request){.message = &m});
}

/* --------------------------------------------------------------- processes */

/* A job of which nobody is left may be recorded again. */
static void forget_numbers(const struct directory *d, struct job *job)
{
	const struct member_process *p = d->members.processes;

	while (p && p->job != job)
		p = p->next;
	if (!p)
		job->ranks = job->children = 0;
}

static void forget_process(struct directory *d, struct member_process *p)
{
	struct job *job = p->job;

	loop_unwatch(d->loop, &p->source);
	close(p->source.fd);
	member_remove(&d->members, p);
	forget_numbers(d, job);
}

/*
 * `sreplay record`, or whatever starts the successor of a killed daemon, need not know
 * where that one listened; but the other nodes look for the successor there.
 */
static void keep_address(struct directory *d)
{
	struct sr_message m;

	_Static_assert(sizeof(*node_listen_address()) <= sizeof(m.text), "an address fits");
	if (!node_listen_address()->ss_family)
		return;
	sr_message_init(&m, MSG_LISTEN);
	memcpy(m.text, node_listen_address(), sizeof(*node_listen_address()));
	keep(d, &(struct request){.message = &m});
}

static void process_has_ended(void *owner, struct source *source)
{
	struct directory *d = owner;

	forget_process(d, (struct member_process *)source);
	if (d->members.processes)
		return;
	journal_empty(d->journal);
	keep_address(d);
}

static int watch_process(struct directory *d, struct member_process *p, pid_t pid)
{
	int err;

	p->source.ready = process_has_ended;
	p->source.owner = d;
	p->source.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p->source.fd < 0)
		return -errno;
	err = loop_watch(d->loop, &p->source);
	if (err)
		close(p->source.fd);
	return err;
}

/* ------------------------------------------- requests, new or from the journal */

/*
 * The number of a process in its job.  Ranks have theirs from 0 on, so a child gets the highest one that no process has had.
 * What other nodes of a job have given is not known here: there children get none.
 */
static int number_of(struct job *job, const struct sr_message *m, uint32_t *number)
{
	const bool is_child = m->flags & SR_MESSAGE_CHILD;

	*number = m->thread;
	if (is_child && *number == SR_OUTSIDER) {
		if (job->has_key || job->ranks + job->children >= MEMBERS_MAX)
			return -ENOSPC;
		*number = MEMBERS_MAX - 1 - job->children;
	}
	if (*number == SR_OUTSIDER)
		return 0;
	if (*number >= MEMBERS_MAX)
		return -EINVAL;
	if (is_child && MEMBERS_MAX - *number > job->children)
		job->children = MEMBERS_MAX - *number;
	if (!is_child && *number + job->children >= MEMBERS_MAX)
		return -EADDRINUSE; /* perhaps a child has it */
	if (!is_child && *number >= job->ranks)
		job->ranks = *number + 1;
	return 0;
}

/* number: the process's in its job. */
static int join(struct directory *d, const struct request *r, uint32_t *number, char *error, size_t error_size)
{
	const struct sr_message *m = r->message;
	struct member_process *p = member_find(&d->members, m->process);
	struct job *job;
	int err;

	if (p) { /* the journal knew it already */
		*number = p->member;
		return 0;
	}
	err = job_join(&d->jobs, r->body, r->size, &job, error, error_size);
	if (!err)
		err = number_of(job, m, number);
	if (err)
		return err;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	err = watch_process(d, p, r->pid);
	if (err) {
		free(p);
		return err;
	}
	p->job = job;
	memcpy(p->id, m->process, sizeof(p->id));
	p->rank = m->rank;
	p->member = *number;
	p->region = m->value;
	member_add(&d->members, p);
	return 0;
}

static int add_queue_pair(struct directory *d, const struct sr_message *m)
{
	struct member_process *p = member_find(&d->members, m->process);
	struct sr_queue_pair is;

	if (!p)
		return -ENOTCONN;
	memcpy(&is, m->text, sizeof(is));
	return queue_pair_add(&d->members, p, &is);
}

static int remove_queue_pair(struct directory *d, const struct sr_message *m)
{
	const struct member_process *p = member_find(&d->members, m->process);
	struct sr_queue_pair is;
	struct queue_pair *q;

	memcpy(&is, m->text, sizeof(is));
	q = p ? queue_pair_of_process(&d->members, p, is.number, is.gids ? is.gid[0] : NULL) : NULL;
	if (!q)
		return -ENOENT;
	queue_pair_remove(&d->members, q);
	return 0;
}

/* ---------------------------------------------------------------- the journal */

static void restore_join(struct directory *d, const struct request *r)
{
	char error[256];
	uint32_t number;

	join(d, r, &number, error, sizeof(error));
}

static void restore_queue_pair(struct directory *d, const struct request *r)
{
	add_queue_pair(d, r->message);
}

static void restore_removal(struct directory *d, const struct request *r)
{
	remove_queue_pair(d, r->message);
}

static void restore_cell(struct directory *d, const struct request *r)
{
	const struct sr_message *m = r->message;
	const struct member_process *p = member_find(&d->members, m->process);
	struct queue_pair *q = p ? queue_pair_of_process(&d->members, p, m->thread, NULL) : NULL;

	if (q)
		queue_pair_restore_cell(q, m->value);
}

static void restore_address(struct directory *d, const struct request *r)
{
	memcpy(&d->listened, r->message->text, sizeof(d->listened));
}

static const struct {
	uint16_t type;
	void (*restore)(struct directory *d, const struct request *r);
} entries[] = {
    {SR_MSG_JOIN, restore_join},         {SR_MSG_QP_ADD, restore_queue_pair},
    {SR_MSG_QP_REMOVE, restore_removal}, {MSG_CELL, restore_cell},
    {MSG_LISTEN, restore_address},
};

static void restore(void *directory, pid_t pid, const struct sr_message *m, const void *body,
		    size_t size)
{
	const struct request r = {.pid = pid, .message = m, .body = body, .size = size};

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (entries[i].type == m->type)
			entries[i].restore(directory, &r);
}

/* ------------------------------------------------------------------ other nodes */

static const struct job *job_of(void *owner, const uint8_t *id)
{
	const struct directory *d = owner;

	return job_find(&d->jobs, id);
}

/* Finds a queue pair of this node for a process of any node. */
static int find_here(void *owner, const struct job *job, const struct node_wanted *wanted,
		     struct sr_found *found)
{
	struct directory *d = owner;
	struct queue_pair *q = queue_pair_of_job(&d->members, job, wanted->gid, wanted->number);

	if (!q)
		return -ENOENT;
	if (wanted->asker != SR_OUTSIDER)
		give_cell(d, q);
	queue_pair_describe(q, found);
	return 0;
}

static void answer_found(struct directory *d, struct connection *c,
			 const struct sr_message *request, struct sr_found *found)
{
	const struct member_process *asker = member_find(&d->members, request->process);
	struct queue_pair *own = NULL;
	struct sr_message reply;
	struct sr_find find;

	memcpy(&find, request->text, sizeof(find));
	if (asker)
		own = queue_pair_of_process(&d->members, asker, find.own_number, find.own_gid);
	if (own && found->member != SR_OUTSIDER) {
		give_cell(d, own);
		found->own_cell = own->cell;
	}
	sr_message_init(&reply, SR_MSG_QP_FIND);
	memcpy(reply.text, found, sizeof(*found));
	connection_answer(c, request, &reply, -1);
}

/* The other nodes have found it, or nobody has it. */
static void answer(void *owner, struct connection *c, const struct sr_message *request, int error,
		   const char *text, struct sr_found *found)
{
	if (error)
		connection_answer_error(c, request, error, text);
	else
		answer_found(owner, c, request, found);
}

static const struct node_directory for_nodes = {
    .job = job_of,
    .find = find_here,
    .answer = answer,
};

/* Made for the first job that may have other nodes.  NULL: no memory. */
static struct nodes *nodes_of(struct directory *d)
{
	if (!d->nodes)
		d->nodes = nodes_open(d->loop, &for_nodes, d);
	return d->nodes;
}

static void listen_for_nodes(struct directory *d)
{
	struct nodes *n = jobs_have_key(&d->jobs) ? nodes_of(d) : NULL;

	if (n)
		nodes_listen(n);
}

/* ------------------------------------------------------------- serving requests */

static void serve_find(struct directory *d, struct connection *c, const struct sr_message *m,
		       int fd)
{
	const struct member_process *asker = member_find(&d->members, m->process);
	struct node_wanted wanted;
	struct sr_found found;
	struct sr_find find;

	if (!asker) {
		connection_answer_error(c, m, -ENOTCONN, "");
		return;
	}
	memcpy(&find, m->text, sizeof(find));
	wanted = (struct node_wanted){.number = find.number, .asker = asker->member};
	memcpy(wanted.gid, find.gid, sizeof(wanted.gid));
	if (!find_here(d, asker->job, &wanted, &found))
		answer_found(d, c, m, &found);
	else if (!asker->job->has_key)
		connection_answer_error(c, m, -ENOENT, "");
	else if (!nodes_of(d))
		connection_answer_error(c, m, -ENOMEM, "");
	else
		nodes_ask(d->nodes, c, asker->job, &wanted, m);
}

static void serve_join(struct directory *d, struct connection *c, const struct sr_message *m,
		       int fd)
{
	static uint8_t body[sizeof(struct sr_job_body) + SR_JOB_MAX + PATH_MAX];
	char error[sizeof(m->text)] = "";
	ssize_t size = fd < 0 ? -1 : pread(fd, body, sizeof(body), 0);
	struct sr_message joined = *m, answer;
	struct request r = {.pid = c->pid, .message = &joined, .body = body, .size = (size_t)size};
	int err = size < 0 ? -EPROTO : join(d, &r, &joined.thread, error, sizeof(error));

	if (err) {
		/* Of many children most get no number. */
		if (err != -ENOSPC)
			log_line("process %d cannot take part in its job: %s", (int)c->pid,
				 error[0] ? error : strerror(-err));
		connection_answer_error(c, m, err, error);
		return;
	}
	keep(d, &r);
	listen_for_nodes(d);
	sr_message_init(&answer, m->type);
	answer.thread = joined.thread;
	connection_answer(c, m, &answer, -1);
}

static void serve_change(struct directory *d, struct connection *c, const struct sr_message *m,
			 int fd)
{
	int err = m->type == SR_MSG_QP_ADD ? add_queue_pair(d, m) : remove_queue_pair(d, m);

	/* Before the answer: a change that was answered survives the daemon. */
	if (!err)
		keep(d, &(struct request){.pid = c->pid, .message = m});
	connection_answer_error(c, m, err, "");
}

static const struct {
	uint16_t type;
	void (*serve)(struct directory *d, struct connection *c, const struct sr_message *m,
		      int fd);
} requests[] = {
    {SR_MSG_JOIN, serve_join},
    {SR_MSG_QP_ADD, serve_change},
    {SR_MSG_QP_REMOVE, serve_change},
    {SR_MSG_QP_FIND, serve_find},
};

bool directory_serve(struct directory *d, struct connection *c, const struct sr_message *m, int fd)
{
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		if (requests[i].type == m->type) {
			requests[i].serve(d, c, m, fd);
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------ opening, closing */

/* Goes on from a daemon that was killed while processes were in the directory. */
static void read_journal(struct directory *d)
{
	journal_read(d->journal, restore, d);
	if (!d->members.processes)
		return;
	if (d->listened.ss_family)
		node_inherit_address(&d->listened);
	listen_for_nodes(d);
}

struct directory *directory_open(struct loop *loop, const char *socket_path)
{
	struct directory *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->loop = loop;
	d->journal = journal_open(socket_path);
	if (d->journal)
		read_journal(d);
	keep_address(d);
	return d;
}

void directory_close(struct directory *d)
{
	bool in_use = directory_in_use(d);

	if (!d)
		return;
	if (d->nodes)
		nodes_close(d->nodes);
	while (d->members.processes)
		forget_process(d, d->members.processes);
	jobs_free(&d->jobs);
	journal_close(d->journal, in_use);
	free(d);
}

void directory_forget(struct directory *d, const struct connection *c)
{
	if (d->nodes)
		nodes_forget(d->nodes, c);
}

bool directory_in_use(const struct directory *d)
{
	return d && d->members.processes;
}
