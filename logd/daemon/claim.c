/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/claim.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct claim {
	pthread_t thread;
	pid_t pid;
	struct sr_message hello;
	int body_fd, event_fd;
	struct trace_place place;
	int error;
	char why[sizeof(((struct sr_message *)NULL)->text)];
	_Atomic unsigned int steps;
	_Atomic bool done;
};

static void *work(void *argument)
{
	struct claim *c = argument;
	uint64_t one = 1;
	int event_fd = c->event_fd;

	c->error = hello_claim(&c->place, c->pid, &c->hello, c->body_fd, &c->steps, c->why,
			       sizeof(c->why));
	atomic_store(&c->done, true);
	if (write(event_fd, &one, sizeof(one)) < 0)
		return NULL; /* the counter is full: the main thread wakes up anyway */
	return NULL;
}

int claim_start(struct claim **claim, pid_t pid, const struct sr_message *hello, int body_fd,
		int event_fd)
{
	struct claim *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->place.trace_fd = c->place.rank_fd = -1;
	c->pid = pid;
	c->hello = *hello;
	c->body_fd = body_fd;
	c->event_fd = event_fd;
	err = pthread_create(&c->thread, NULL, work, c);
	if (err)
		free(c);
	else
		*claim = c;
	return -err;
}

bool claim_is_done(const struct claim *c)
{
	return atomic_load(&c->done);
}

unsigned int claim_steps(const struct claim *c)
{
	return atomic_load(&c->steps);
}

int claim_finish(struct claim *c, struct trace_place *place, char *error, size_t error_size)
{
	int err = c->error;

	pthread_join(c->thread, NULL);
	*place = c->place;
	snprintf(error, error_size, "%s", c->why);
	close(c->body_fd);
	free(c);
	return err;
}

bool claim_drop(struct claim *c, const struct timespec *until)
{
	if (pthread_timedjoin_np(c->thread, NULL, until))
		return false;
	trace_place_free(&c->place);
	close(c->body_fd);
	free(c);
	return true;
}
