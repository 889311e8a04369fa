/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/directory_client.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>

#include "logd/base/rawsys.h"
#include "logd/ring/request.h"

#define RETRY_MS 20

static void lock(struct sr_directory *d)
{
	uint32_t free = 0;

	while (!atomic_compare_exchange_strong(&d->lock, &free, 1)) {
		sr_sys_futex((uint32_t *)&d->lock, FUTEX_WAIT_PRIVATE, 1, NULL);
		free = 0;
	}
}

static void unlock(struct sr_directory *d)
{
	atomic_store(&d->lock, 0);
	sr_sys_futex((uint32_t *)&d->lock, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void hang_up(struct sr_directory *d)
{
	if (d->open)
		sr_sys_close(d->socket);
	d->open = false;
}

static bool is_between_daemons(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -ECONNRESET || err == -EPIPE ||
	       err == -EBADF || err == -ENOTCONN || err == -EAGAIN;
}

static int left_ms(int64_t deadline)
{
	int64_t left = deadline - sr_sys_now_ms();

	return left > 0 ? (int)left : 0;
}

static int ask_once(struct sr_directory *d, const struct sr_message *request, int fd,
		    struct sr_message *answer, int64_t deadline)
{
	int err;

	if (!d->open) {
		d->socket = sr_request_connect(d->path);
		if (d->socket < 0)
			return d->socket;
		d->open = true;
	}
	err = sr_request(d->socket, request, fd, answer, NULL, left_ms(deadline));
	if (err)
		hang_up(d);
	return err;
}

/* A daemon that was silent for all of that time gets less for each further question. */
static int stall_timeout_ms(const struct sr_directory *d, int usual)
{
	int whole = d->stall_timeout_ms ? d->stall_timeout_ms : usual;

	return d->silent && whole > SR_DIRECTORY_SILENT_MS ? SR_DIRECTORY_SILENT_MS : whole;
}

/* The connection's error; the daemon's own is in the answer. */
static int ask(struct sr_directory *d, const struct sr_message *request, int fd,
	       struct sr_message *answer)
{
	int64_t deadline = sr_sys_now_ms() + stall_timeout_ms(d, SR_DIRECTORY_MS), successor = 0;
	struct timespec pause = sr_sys_ms(RETRY_MS);
	int err;

	answer->text[0] = 0;
	while (is_between_daemons(err = ask_once(d, request, fd, answer, deadline))) {
		if (!successor)
			successor = sr_sys_now_ms() + SR_DIRECTORY_GONE_MS;
		if (!left_ms(successor) || !left_ms(deadline))
			break;
		sr_sys_nanosleep(&pause);
	}
	d->silent = err == -ETIMEDOUT;
	return err;
}

static int ask_to_join(struct sr_directory *d, struct sr_message *answer)
{
	int err = ask(d, &d->join, d->job_fd, answer);

	if (!err)
		err = answer->error;
	d->joined = !err;
	return err;
}

static int ask_as_joined(struct sr_directory *d, struct sr_message *request,
			 struct sr_message *answer)
{
	int err = 0;

	answer->text[0] = 0;
	if (!d->takes_part)
		return -ENOTCONN;
	memcpy(request->process, d->join.process, sizeof(request->process));
	lock(d);
	if (!d->joined)
		err = ask_to_join(d, answer);
	if (!err)
		err = ask(d, request, -1, answer);
	/* A daemon that has lost its journal does not know this process. */
	if (!err && answer->error == -ENOTCONN) {
		err = ask_to_join(d, answer);
		if (!err)
			err = ask(d, request, -1, answer);
	}
	unlock(d);
	return err ? err : answer->error;
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = strnlen(from, size ? size - 1 : 0);

	if (!size)
		return;
	memcpy(to, from, n);
	to[n] = 0;
}

static int make_join(struct sr_directory *d, const struct sr_job *job)
{
	struct sr_job_body body = {
	    .name_size = (uint32_t)strlen(job->name),
	    .key_path_size = job->key_path ? (uint32_t)strlen(job->key_path) : 0,
	    .hosts_size = job->hosts ? (uint32_t)strlen(job->hosts) : 0,
	};
	struct iovec texts[] = {
	    {&body, sizeof(body)},
	    {(void *)job->name, body.name_size},
	    {(void *)job->key_path, body.key_path_size},
	    {(void *)job->hosts, body.hosts_size},
	};
	long n;

	if (body.hosts_size >= SR_JOB_MAX)
		return -E2BIG;
	sr_message_init(&d->join, SR_MSG_JOIN);
	d->join.rank = job->rank;
	d->join.thread = job->is_child ? SR_OUTSIDER : job->member;
	d->join.flags = job->is_child ? SR_MESSAGE_CHILD : 0;
	d->join.value = job->region;
	n = sr_sys_getrandom(d->join.process, sizeof(d->join.process));
	if (n != sizeof(d->join.process))
		return n < 0 ? (int)n : -EIO;
	d->job_fd = sr_request_memfd(texts, 4, d->path);
	return d->job_fd < 0 ? d->job_fd : 0;
}

int sr_directory_join(struct sr_directory *d, const char *socket_path, const struct sr_job *job,
		      char *error, size_t error_size)
{
	struct sr_message answer = {0};
	int err;

	if (strlen(socket_path) >= sizeof(d->path))
		return -ENAMETOOLONG;
	strcpy(d->path, socket_path);
	err = make_join(d, job);
	if (err)
		return err;
	lock(d);
	err = ask_once(d, &d->join, d->job_fd, &answer,
		       sr_sys_now_ms() + stall_timeout_ms(d, SR_DIRECTORY_JOIN_MS));
	d->silent = err == -ETIMEDOUT;
	unlock(d);
	d->takes_part = err == -ETIMEDOUT || is_between_daemons(err);
	if (!err) {
		err = answer.error;
		d->takes_part = !err;
	}
	copy_text(error, error_size, err ? answer.text : "");
	d->joined = !err;
	if (d->joined)
		d->join.thread = answer.thread;
	if (!d->takes_part) {
		hang_up(d);
		sr_sys_close(d->job_fd);
	}
	return err;
}

uint32_t sr_directory_member(const struct sr_directory *d)
{
	return d->join.thread;
}

bool sr_directory_joins_later(const struct sr_directory *d)
{
	return d->takes_part && !d->joined;
}

void sr_directory_set_stall_timeout(struct sr_directory *d, int ms)
{
	d->stall_timeout_ms = ms;
}

static int report(struct sr_directory *d, enum sr_message_type type, const struct sr_queue_pair *qp)
{
	struct sr_message request, answer;

	_Static_assert(sizeof(*qp) <= sizeof(request.text), "a queue pair fits into a message");
	sr_message_init(&request, type);
	memcpy(request.text, qp, sizeof(*qp));
	return ask_as_joined(d, &request, &answer);
}

int sr_directory_add(struct sr_directory *d, const struct sr_queue_pair *qp)
{
	return report(d, SR_MSG_QP_ADD, qp);
}

int sr_directory_remove(struct sr_directory *d, const struct sr_queue_pair *qp)
{
	return report(d, SR_MSG_QP_REMOVE, qp);
}

int sr_directory_find(struct sr_directory *d, const struct sr_find *find, struct sr_found *found,
		      char *error, size_t error_size)
{
	struct sr_message request, answer;
	int err;

	sr_message_init(&request, SR_MSG_QP_FIND);
	memcpy(request.text, find, sizeof(*find));
	err = ask_as_joined(d, &request, &answer);
	if (!err)
		memcpy(found, answer.text, sizeof(*found));
	copy_text(error, error_size, err ? answer.text : "");
	return err;
}

void sr_directory_abandon(struct sr_directory *d)
{
	if (!d->takes_part)
		return;
	hang_up(d);
	sr_sys_close(d->job_fd);
	memset(d, 0, sizeof(*d));
}
