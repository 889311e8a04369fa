/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/kin.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/schema.h"

static const char *process_text(const struct sr_trace *t, size_t rank, const char *key)
{
	const char *text = json_string_value(json_object_get(sr_trace_process(t, sr_trace_rank_number(t, rank)), key));

	return text ? text : "";
}

static uint64_t process_number(const struct sr_trace *t, size_t rank, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(sr_trace_process(t, sr_trace_rank_number(t, rank)), key));
}

/* A parent that has executed another program since is not it: the trace has its last image. */
static uint32_t find_parent(const struct sr_trace *t, size_t child)
{
	const char *parent = process_text(t, child, "parent");

	for (size_t i = 0; *parent && i < sr_trace_ranks(t); i++)
		if (!strcmp(process_text(t, i, "process"), parent))
			return (uint32_t)i;
	return SR_NO_PARENT;
}

/* ------------------------------------------------------------------- waits */

static int64_t number(const json_t *call, const char *group, const char *name, int64_t otherwise)
{
	const json_t *v = json_object_get(json_object_get(call, group), name);

	return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

/* Of a child that has only stopped or goes on, a wait tells, too, if it is asked to. */
static int64_t ended_by_status(const json_t *call)
{
	const int64_t status = number(call, "out", "status", -1);
	const bool asks = number(call, "in", "options", 0) & (WUNTRACED | WCONTINUED);
	const bool has_ended = status < 0 ? !asks : WIFEXITED((int)status) || WIFSIGNALED((int)status);

	return has_ended ? json_integer_value(json_object_get(call, "result")) : 0;
}

static int64_t ended_by_info(const json_t *call)
{
	const json_t *bytes = json_object_get(json_object_get(call, "out"), "info");
	siginfo_t info = {0};
	size_t n = 0;
	char *p = bytes ? sr_trace_bytes(bytes, &n) : NULL;

	if (p)
		memcpy(&info, p, n < sizeof(info) ? n : sizeof(info));
	free(p);
	return info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED ? info.si_pid : 0;
}

static bool is_wait(const char *name)
{
	static const char *const names[] = {"wait", "waitpid", "wait3", "wait4", "waitid"};

	for (size_t i = 0; name && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Which process has ended, by this call; 0: none. */
static int64_t ended_by(const struct sr_schema *schema, const struct sr_entry *e)
{
	const char *name = e->kind >= SR_REC_CALL ? sr_schema_name(schema, e->kind) : NULL;
	json_t *call = is_wait(name) ? sr_schema_decode(schema, e->kind, e->payload, e->size) : NULL;
	int64_t pid = 0;

	if (call && !strcmp(name, "waitid"))
		pid = ended_by_info(call);
	else if (call)
		pid = ended_by_status(call);
	json_decref(call);
	return pid > 0 ? pid : 0;
}

/* Numbers of processes come again: the first wait behind the fork, in its thread, is the child's. */
static void take_end(struct sr_race_kin *k, const struct sr_trace *t, uint32_t parent, uint32_t thread, uint64_t sn, int64_t pid)
{
	for (size_t i = 0; i < k->n; i++) {
		struct sr_race_child *c = &k->children[i];

		if (c->parent == parent && c->thread == thread && c->fork < sn && !c->wait && process_number(t, c->rank, "pid") == (uint64_t)pid) {
			c->wait = sn;
			return;
		}
	}
}

static int find_waits(struct sr_race_kin *k, struct sr_trace *t, uint32_t parent, uint32_t thread, struct sr_error *err)
{
	const int32_t rank = sr_trace_rank_number(t, parent);
	struct sr_schema *schema = sr_schema_of(t, rank, err);
	struct sr_stream *s;
	struct sr_entry e;
	int ret = schema ? sr_stream_open(&s, t, rank, thread, err) : -EBADMSG;

	if (!ret) {
		while (sr_stream_next(s, &e) > 0) {
			const int64_t pid = ended_by(schema, &e);

			if (pid)
				take_end(k, t, parent, thread, e.sn, pid);
		}
		sr_stream_close(s);
	}
	sr_schema_free(schema);
	return ret;
}

/* Was the thread that forked it looked at for another one? */
static bool is_asked(const struct sr_race_kin *k, size_t child)
{
	for (size_t i = 0; i < child; i++)
		if (k->children[i].parent == k->children[child].parent && k->children[i].thread == k->children[child].thread)
			return true;
	return false;
}

int sr_race_kin_load(struct sr_race_kin *k, struct sr_trace *t, struct sr_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		struct sr_race_child *c;

		if (sr_trace_rank_number(t, i) < SR_FIRST_ADOPTED)
			continue;
		c = sr_grow((void **)&k->children, k->n, &k->room, sizeof(*c));
		if (!c)
			return sr_error_set(err, -ENOMEM, "no memory left");
		*c = (struct sr_race_child){.rank = (uint32_t)i, .parent = find_parent(t, i), .thread = (uint32_t)process_number(t, i, "forked_by"),
					    .fork = process_number(t, i, "sns_before"), .forked = SR_NO_MOMENT, .waited = SR_NO_MOMENT};
		k->n++;
	}
	for (size_t i = 0; i < k->n && !ret; i++)
		if (k->children[i].parent != SR_NO_PARENT && !is_asked(k, i))
			ret = find_waits(k, t, k->children[i].parent, k->children[i].thread, err);
	return ret;
}

void sr_race_kin_restart(struct sr_race_kin *k)
{
	for (size_t i = 0; i < k->n; i++)
		k->children[i].forked = k->children[i].waited = SR_NO_MOMENT;
}

void sr_race_kin_free(struct sr_race_kin *k)
{
	free(k->children);
}

const struct sr_race_child *sr_race_kin_of(const struct sr_race_kin *k, uint32_t rank)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->children[i].rank == rank)
			return &k->children[i];
	return NULL;
}

/* ----------------------------------------------------------------- moments */

bool sr_race_kin_has(const struct sr_race_kin *k, uint32_t rank, uint32_t thread, uint64_t sn)
{
	for (size_t i = 0; i < k->n; i++) {
		const struct sr_race_child *c = &k->children[i];

		if (c->parent == rank && c->thread == thread && (c->fork == sn || c->wait == sn))
			return true;
	}
	return false;
}

void sr_race_kin_pass(struct sr_race_kin *k, uint32_t rank, uint32_t thread, uint64_t sn, uint32_t moment)
{
	for (size_t i = 0; i < k->n; i++) {
		struct sr_race_child *c = &k->children[i];

		if (c->parent != rank || c->thread != thread)
			continue;
		if (c->fork == sn)
			c->forked = moment;
		if (c->wait == sn)
			c->waited = moment;
	}
}
