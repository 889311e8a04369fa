/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/job.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "logd/ring/protocol.h"

struct job_texts {
	const char *name;
	uint32_t name_size;
	char key_path[PATH_MAX];
	char hosts[SR_JOB_MAX];
};

static int read_texts(struct job_texts *t, const void *body, size_t size)
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

/* Fills in key and id. */
static int identify(struct job *job, const struct job_texts *t, char *error, size_t error_size)
{
	int err;

	if (!t->key_path[0]) {
		secret_name_id(t->name, t->name_size, job->id);
		return 0;
	}
	err = secret_read_key(t->key_path, job->key, error, error_size);
	if (err)
		return err;
	job->has_key = true;
	secret_job_id(job->key, job->id);
	return 0;
}

static struct job *add(struct jobs *jobs, const struct job *new, const char *hosts)
{
	struct job *job = malloc(sizeof(*job));
	char *copy = strdup(hosts);

	if (!job || !copy) {
		free(job);
		free(copy);
		return NULL;
	}
	*job = *new;
	job->hosts = copy;
	job->next = jobs->first;
	jobs->first = job;
	return job;
}

int job_join(struct jobs *jobs, const void *body, size_t size, struct job **job, char *error,
	     size_t error_size)
{
	static struct job_texts t; /* large, and of the main thread only */
	struct job new = {0};
	int err = read_texts(&t, body, size);

	if (!err)
		err = identify(&new, &t, error, error_size);
	if (err)
		return err;
	*job = job_find(jobs, new.id);
	if (!*job)
		*job = add(jobs, &new, t.hosts);
	explicit_bzero(new.key, sizeof(new.key));
	return *job ? 0 : -ENOMEM;
}

struct job *job_find(const struct jobs *jobs, const uint8_t *id)
{
	struct job *j;

	for (j = jobs->first; j && memcmp(j->id, id, sizeof(j->id)) != 0; j = j->next)
		;
	return j;
}

bool jobs_have_key(const struct jobs *jobs)
{
	const struct job *j;

	for (j = jobs->first; j && !j->has_key; j = j->next)
		;
	return j;
}

void jobs_free(struct jobs *jobs)
{
	while (jobs->first) {
		struct job *job = jobs->first;

		jobs->first = job->next;
		explicit_bzero(job->key, sizeof(job->key));
		free(job->hosts);
		free(job);
	}
}
