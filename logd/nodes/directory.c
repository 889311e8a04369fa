/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/nodes/journal.h"
#include "logd/base/log.h"
#include "logd/nodes/node.h"
#include "logd/nodes/address.h"
#include "logd/daemon/peer.h"
#include "logd/writer/process.h"
#include "logd/daemon/server.h"
#include "logd/ring/request.h"

#define BUCKETS    4096

/* Journal only: queue pair `thread` of the process has cell `value`. */
#define MSG_CELL   0x7000
/* Journal only: where this node's daemon listens. */
#define MSG_LISTEN 0x7001

struct row {
	struct row *next;        /* of its bucket */
	struct row *next_of_one; /* of its process */
	struct member_process *process;
	struct sr_queue_pair qp;
	uint32_t cell; /* SR_NO_CELL: not needed yet */
};

/* A process that takes part in a job. */
struct member_process {
	struct source source; /* its pidfd */
	struct member_process *next;
	struct job *job;
	uint8_t id[SR_PROCESS_ID_BYTES];
	int32_t rank;
	uint32_t member;
	uint64_t region;
	struct row *rows;
	/* Cells of its region: a bit for each that has been given away. */
	uint64_t *taken;
	uint32_t taken_words, cells;
};

struct directory {
	struct job *jobs;
	struct member_process *processes;
	struct row *buckets[BUCKETS];
	struct journal *journal;
	struct sockaddr_storage listened; /* by the journal; ss_family 0: it does not say */
};

/* ------------------------------------------------------------------- cells */

static uint32_t free_cell(const struct member_process *p)
{
	uint32_t i;

	for (i = 0; i < p->taken_words; i++)
		if (~p->taken[i])
			return i * 64 + (uint32_t)__builtin_ctzll(~p->taken[i]);
	return i * 64;
}

static int take_cell(struct member_process *p, uint32_t cell)
{
	while (cell / 64 >= p->taken_words) {
		uint32_t words = p->taken_words ? 2 * p->taken_words : 4;
		uint64_t *taken = realloc(p->taken, words * sizeof(*taken));

		if (!taken)
			return -ENOMEM;
		memset(taken + p->taken_words, 0, (words - p->taken_words) * sizeof(*taken));
		p->taken = taken;
		p->taken_words = words;
	}
	p->taken[cell / 64] |= 1ull << cell % 64;
	if (cell >= p->cells)
		p->cells = cell + 1;
	return 0;
}

static void give_back_cell(struct member_process *p, uint32_t cell)
{
	if (cell != SR_NO_CELL)
		p->taken[cell / 64] &= ~(1ull << cell % 64);
}

/* The peer of this queue pair is a member: it needs a cell. */
static void see_to_cell(struct directory *d, struct row *row)
{
	struct sr_message m;
	uint32_t cell;

	if (row->cell != SR_NO_CELL)
		return;
	cell = free_cell(row->process);
	if (take_cell(row->process, cell))
		return;
	row->cell = cell;
	sr_message_init(&m, MSG_CELL);
	memcpy(m.process, row->process->id, sizeof(m.process));
	m.thread = row->qp.number;
	m.value = cell;
	journal_write(d->journal, 0, &m, NULL, 0);
}

/* --------------------------------------------------------------------- rows */

static struct row **bucket(struct directory *d, uint32_t number)
{
	return &d->buckets[number * 2654435761u >> 20 & (BUCKETS - 1)];
}

static bool has_gid(const struct sr_queue_pair *qp, const uint8_t *gid)
{
	for (uint32_t i = 0; i < qp->gids; i++)
		if (!memcmp(qp->gid[i], gid, SR_GID_BYTES))
			return true;
	return false;
}

static struct row *find_row(struct directory *d, const struct job *job, const uint8_t *gid,
			    uint32_t number)
{
	struct row *r;

	for (r = *bucket(d, number); r; r = r->next)
		if (r->qp.number == number && r->process->job == job && has_gid(&r->qp, gid))
			break;
	return r;
}

/* Numbers are a device's: one process may have the same on two. */
static struct row *find_own_row(struct directory *d, const struct member_process *p,
				uint32_t number, const uint8_t *gid)
{
	struct row *r;

	for (r = *bucket(d, number); r; r = r->next)
		if (r->qp.number == number && r->process == p && (!gid || has_gid(&r->qp, gid)))
			break;
	return r;
}

static void remove_row(struct directory *d, struct row *row)
{
	struct row **at;

	for (at = bucket(d, row->qp.number); *at != row; at = &(*at)->next)
		;
	*at = row->next;
	for (at = &row->process->rows; *at != row; at = &(*at)->next_of_one)
		;
	*at = row->next_of_one;
	give_back_cell(row->process, row->cell);
	free(row);
}

/* ---------------------------------------------------------------- processes */

static struct member_process *find_process(const struct directory *d, const uint8_t *id)
{
	struct member_process *p;

	for (p = d->processes; p && memcmp(p->id, id, sizeof(p->id)) != 0; p = p->next)
		;
	return p;
}

static void forget_process(struct server *s, struct directory *d, struct member_process *p)
{
	struct member_process **at = &d->processes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	while (p->rows)
		remove_row(d, p->rows);
	server_unwatch(s, &p->source);
	close(p->source.fd);
	free(p->taken);
	free(p);
}

/*
 * Whoever starts the successor of a killed daemon (`sreplay record` does) need not
 * know how that one was started, but the other nodes look for it where it was.
 */
static void note_address(struct directory *d)
{
	struct sr_message m;

	_Static_assert(sizeof(*node_listen_address()) <= sizeof(m.text), "an address fits");
	if (!node_listen_address()->ss_family)
		return;
	sr_message_init(&m, MSG_LISTEN);
	memcpy(m.text, node_listen_address(), sizeof(*node_listen_address()));
	journal_write(d->journal, 0, &m, NULL, 0);
}

static void process_has_ended(struct server *s, struct source *source)
{
	struct directory *d = s->directory;

	forget_process(s, d, (struct member_process *)source);
	if (d->processes)
		return;
	journal_empty(d->journal);
	note_address(d);
}

/* ---------------------------------------------------------------------- jobs */

static struct job *find_job(const struct directory *d, const uint8_t *id)
{
	struct job *j;

	for (j = d->jobs; j && memcmp(j->id, id, sizeof(j->id)) != 0; j = j->next)
		;
	return j;
}

const struct job *directory_job(const struct directory *d, const uint8_t *id)
{
	return find_job(d, id);
}

struct job_texts {
	const char *name;
	uint32_t name_size;
	char key_path[PATH_MAX];
	char hosts[SR_JOB_MAX];
};

static int read_job(struct job_texts *t, const void *body, size_t size)
{
	struct sr_job_body head;
	const char *text = (const char *)body + sizeof(head);

	if (size < sizeof(head))
		return -EPROTO;
	memcpy(&head, body, sizeof(head));
	if ((uint64_t)head.name_size + head.key_path_size + head.hosts_size !=
		size - sizeof(head) ||
	    head.key_path_size >= sizeof(t->key_path) || head.hosts_size >= sizeof(t->hosts))
		return -EPROTO;
	t->name = text;
	t->name_size = head.name_size;
	memcpy(t->key_path, text + head.name_size, head.key_path_size);
	t->key_path[head.key_path_size] = 0;
	memcpy(t->hosts, text + head.name_size + head.key_path_size, head.hosts_size);
	t->hosts[head.hosts_size] = 0;
	return 0;
}

/* The job of these texts, made if this is its first process. */
static struct job *join_job(struct directory *d, const void *body, size_t size, int *err,
			    char *error, size_t error_size)
{
	static struct job_texts t; /* main thread only */
	struct job new = {0}, *job;

	*err = read_job(&t, body, size);
	if (*err)
		return NULL;
	if (t.key_path[0]) {
		*err = secret_read_key(t.key_path, new.key, error, error_size);
		if (*err)
			return NULL;
		new.has_key = true;
		secret_job_id(new.key, new.id);
	} else {
		secret_name_id(t.name, t.name_size, new.id);
	}
	job = find_job(d, new.id);
	if (job)
		return job;
	job = malloc(sizeof(*job));
	new.hosts = strdup(t.hosts);
	*err = -ENOMEM;
	if (!job || !new.hosts) {
		free(job);
		free(new.hosts);
		return NULL;
	}
	*job = new;
	job->next = d->jobs;
	d->jobs = job;
	return job;
}

/* ------------------------------------------- requests, new or from the journal */

static int join(struct server *s, struct directory *d, pid_t pid, const struct sr_message *m,
		const void *body, size_t size, char *error, size_t error_size)
{
	struct member_process *p = find_process(d, m->process);
	struct job *job;
	int err;

	if (p)
		return 0; /* it asks a new daemon that knows already */
	job = join_job(d, body, size, &err, error, error_size);
	if (!job)
		return err;
	if (m->thread >= 64 && m->thread != SR_OUTSIDER)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->source.ready = process_has_ended;
	p->source.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p->source.fd < 0 || server_watch(s, &p->source)) {
		err = -errno;
		if (p->source.fd >= 0)
			close(p->source.fd);
		free(p);
		return err;
	}
	p->job = job;
	memcpy(p->id, m->process, sizeof(p->id));
	p->rank = m->rank;
	p->member = m->thread;
	p->region = m->value;
	p->next = d->processes;
	d->processes = p;
	return 0;
}

static int add_queue_pair(struct directory *d, const struct sr_message *m)
{
	struct member_process *p = find_process(d, m->process);
	struct row *row, *old;

	if (!p)
		return -ENOTCONN;
	row = calloc(1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	memcpy(&row->qp, m->text, sizeof(row->qp));
	if (row->qp.gids > SR_GIDS) {
		free(row);
		return -EINVAL;
	}
	/* Its number was another's that ended without a word. */
	old = row->qp.gids ? find_row(d, p->job, row->qp.gid[0], row->qp.number) : NULL;
	if (old)
		remove_row(d, old);
	row->process = p;
	row->cell = SR_NO_CELL;
	row->next = *bucket(d, row->qp.number);
	*bucket(d, row->qp.number) = row;
	row->next_of_one = p->rows;
	p->rows = row;
	return 0;
}

static int remove_queue_pair(struct directory *d, const struct sr_message *m)
{
	struct member_process *p = find_process(d, m->process);
	struct sr_queue_pair qp;
	struct row *row;

	memcpy(&qp, m->text, sizeof(qp));
	row = p ? find_own_row(d, p, qp.number, qp.gids ? qp.gid[0] : NULL) : NULL;
	if (!row)
		return -ENOENT;
	remove_row(d, row);
	return 0;
}

static void restore_cell(struct directory *d, const struct sr_message *m)
{
	struct member_process *p = find_process(d, m->process);
	struct row *row = p ? find_own_row(d, p, m->thread, NULL) : NULL;

	if (row && m->value < UINT16_MAX && !take_cell(p, (uint32_t)m->value))
		row->cell = (uint32_t)m->value;
}

static void restore(struct server *s, void *directory, pid_t pid, const struct sr_message *m,
		    const void *body, size_t size)
{
	struct directory *d = directory;
	char error[256];

	switch (m->type) {
	case SR_MSG_JOIN:
		join(s, d, pid, m, body, size, error, sizeof(error));
		break;
	case SR_MSG_QP_ADD:
		add_queue_pair(d, m);
		break;
	case SR_MSG_QP_REMOVE:
		remove_queue_pair(d, m);
		break;
	case MSG_CELL:
		restore_cell(d, m);
		break;
	case MSG_LISTEN:
		memcpy(&d->listened, m->text, sizeof(d->listened));
		break;
	}
}

static bool has_key(const struct directory *d)
{
	const struct job *j;

	for (j = d->jobs; j && !j->has_key; j = j->next)
		;
	return j;
}

/* From a daemon that was killed while processes were in the directory. */
static void go_on(struct server *s, struct directory *d)
{
	journal_read(d->journal, s, restore, d);
	if (d->processes && d->listened.ss_family)
		node_inherit_address(&d->listened);
	if (d->processes && has_key(d))
		node_listen(s);
}

struct directory *directory_open(struct server *s, const char *socket_path)
{
	struct directory *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	s->directory = d;
	d->journal = journal_open(socket_path);
	if (d->journal)
		go_on(s, d);
	note_address(d);
	return d;
}

void directory_close(struct server *s, struct directory *d)
{
	bool in_use = directory_in_use(d);

	if (!d)
		return;
	while (d->processes)
		forget_process(s, d, d->processes);
	while (d->jobs) {
		struct job *job = d->jobs;

		d->jobs = job->next;
		explicit_bzero(job->key, sizeof(job->key));
		free(job->hosts);
		free(job);
	}
	journal_close(d->journal, in_use);
	free(d);
	s->directory = NULL;
}

bool directory_in_use(const struct directory *d)
{
	return d && d->processes;
}

/* ------------------------------------------------------------------- answers */

/*
 * A target of XRC has no protection domain: each request names a shared receive queue, whose
 * domain counts.  One of the same process, in the same domain of XRC; NULL: there is none.
 */
static const struct row *shared_queue_of(const struct row *target)
{
	const struct row *r;

	if (!target->qp.domain)
		return NULL;
	for (r = target->process->rows; r; r = r->next_of_one)
		if (r->qp.number & SR_SHARED_QUEUE && r->qp.domain == target->qp.domain)
			break;
	return r;
}

static void describe(const struct row *row, struct sr_found *found)
{
	const struct member_process *p = row->process;
	const struct row *shared = shared_queue_of(row);

	*found = (struct sr_found){
	    .rank = p->rank,
	    .member = p->member,
	    .region = p->region,
	    .rkey = shared ? shared->qp.rkey : row->qp.rkey,
	    .shared_queue = shared ? shared->qp.number & ~SR_SHARED_QUEUE : 0,
	    .reads = row->qp.reads,
	    .cell = row->cell,
	    .cells = p->cells,
	    .own_cell = SR_NO_CELL,
	};
}

int directory_find(struct directory *d, const struct job *job, const uint8_t *gid, uint32_t number,
		   uint32_t asker, struct sr_found *found)
{
	struct row *row = find_row(d, job, gid, number);

	if (!row)
		return -ENOENT;
	if (asker != SR_OUTSIDER)
		see_to_cell(d, row);
	describe(row, found);
	return 0;
}

void directory_answer(struct server *s, struct peer *p, const struct sr_message *request, int error,
		      const char *text, struct sr_found *found)
{
	struct sr_message reply;
	struct member_process *asker = find_process(s->directory, request->process);
	struct sr_find find;
	struct row *own;

	if (error) {
		peer_answer_error(p, request, error, text);
		return;
	}
	memcpy(&find, request->text, sizeof(find));
	own = asker ? find_own_row(s->directory, asker, find.own_number, find.own_gid) : NULL;
	if (own && found->member != SR_OUTSIDER) {
		see_to_cell(s->directory, own);
		found->own_cell = own->cell;
	}
	sr_message_init(&reply, SR_MSG_QP_FIND);
	memcpy(reply.text, found, sizeof(*found));
	peer_answer(p, request, &reply, -1);
}

static void serve_find(struct server *s, struct peer *p, const struct sr_message *m)
{
	struct member_process *asker = find_process(s->directory, m->process);
	struct sr_found found;
	struct sr_find find;

	memcpy(&find, m->text, sizeof(find));
	if (!asker)
		peer_answer_error(p, m, -ENOTCONN, "");
	else if (!directory_find(s->directory, asker->job, find.gid, find.number, asker->member,
				 &found))
		directory_answer(s, p, m, 0, "", &found);
	else if (asker->job->has_key)
		node_ask(s, p, asker->job, asker->member, m);
	else
		peer_answer_error(p, m, -ENOENT, "");
}

static void serve_join(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct directory *d = s->directory;
	char error[sizeof(m->text)] = "";
	static uint8_t body[sizeof(struct sr_job_body) + SR_JOB_MAX + PATH_MAX];
	ssize_t size = fd < 0 ? -1 : pread(fd, body, sizeof(body), 0);
	int err = -EPROTO;

	if (size >= 0)
		err = join(s, d, p->pid, m, body, (size_t)size, error, sizeof(error));
	if (err)
		log_line("process %d cannot take part in its job: %s", (int)p->pid,
			 error[0] ? error : strerror(-err));
	else
		journal_write(d->journal, p->pid, m, body, (size_t)size);
	if (!err && has_key(d))
		node_listen(s);
	peer_answer_error(p, m, err, error);
}

bool directory_serve(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	int err;

	switch (m->type) {
	case SR_MSG_JOIN:
		serve_join(s, p, m, fd);
		return true;
	case SR_MSG_QP_ADD:
	case SR_MSG_QP_REMOVE:
		err = m->type == SR_MSG_QP_ADD ? add_queue_pair(s->directory, m)
					       : remove_queue_pair(s->directory, m);
		/* Before the answer: what was answered is not forgotten. */
		if (!err)
			journal_write(s->directory->journal, p->pid, m, NULL, 0);
		peer_answer_error(p, m, err, "");
		return true;
	case SR_MSG_QP_FIND:
		serve_find(s, p, m);
		return true;
	default:
		return false;
	}
}
