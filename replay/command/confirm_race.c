/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/confirm_race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "logd/base/opcodes.h"
#include "replay/command/command.h"

json_t *sr_races_load(const char *dir)
{
	char *path = NULL;
	json_error_t err;
	json_t *all;

	if (asprintf(&path, "%s/races.json", dir) < 0)
		return sr_fail("no memory left"), NULL;
	all = json_load_file(path, 0, &err);
	if (!all && access(path, F_OK))
		sr_fail("%s has no races.json: first sreplay races %s", dir, dir);
	else if (!all || !json_is_array(json_object_get(all, "races")))
		sr_fail("%s cannot be read: sreplay races %s writes it again", path, dir);
	free(path);
	return all;
}

bool sr_races_save(const json_t *all, const char *dir)
{
	char *path = NULL, *draft = NULL;
	bool fine = asprintf(&path, "%s/races.json", dir) > 0 &&
		    asprintf(&draft, "%s/races.json.draft", dir) > 0;

	fine = fine && !json_dump_file(all, draft, JSON_INDENT(2) | JSON_ENSURE_ASCII) &&
	       !rename(draft, path);
	if (!fine)
		sr_fail("cannot write %s/races.json", dir);
	free(path);
	free(draft);
	return fine;
}

/* Neither can be held in its order, nor stopped at: the children of a rank are no ranks of their own. */
static bool is_of_child(const json_t *race, const char *dir)
{
	json_t *access;
	size_t i;

	json_array_foreach(json_object_get(race, "accesses"), i, access)
	{
		const bool is_sent = json_is_string(json_object_get(access, "sender_child"));
		const char *child = json_string_value(json_object_get(access, is_sent ? "sender_child" : "child"));
		const long long rank = json_integer_value(json_object_get(access, is_sent ? "sender" : "rank"));

		if (child)
			return sr_fail("an access of race %lld is of process %lld/%s, which rank %lld has forked: go there by sreplay replay --gdb %lld/%s %s",
					json_integer_value(json_object_get(race, "id")), rank, child, rank, rank, child, dir);
	}
	return false;
}

json_t *sr_races_number(json_t *all, const char *dir, long number)
{
	json_t *race;
	size_t i;

	json_array_foreach(json_object_get(all, "races"), i,
			   race) if (json_integer_value(json_object_get(race, "id")) ==
				     number) return is_of_child(race, dir) ? NULL : race;
	sr_fail("%s has no race %ld: sreplay races --notes %s lists them", dir, number, dir);
	return NULL;
}

/* ------------------------------------------------------------------ one side */

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static uint64_t address_of(const json_t *o, const char *key)
{
	return strtoull(text_of(o, key), NULL, 16);
}

static bool is_kind(const json_t *access, const char *word)
{
	return !strcmp(text_of(access, "kind"), word);
}

static bool take_call(const json_t *call, char name[SR_CONFIRM_NAME], uint64_t *site,
		      uint64_t *code, uint64_t *occurrence)
{
	if (!json_is_object(call))
		return false;
	snprintf(name, SR_CONFIRM_NAME, "%s", text_of(call, "name"));
	*site = address_of(call, "site");
	*code = address_of(call, "code");
	if (occurrence)
		*occurrence = (uint64_t)json_integer_value(json_object_get(call, "occurrence"));
	return true;
}

static bool is_request(const json_t *access)
{
	return is_kind(access, "write") || is_kind(access, "read") || is_kind(access, "atomic") ||
	       is_kind(access, "gather") || is_kind(access, "scatter");
}

static const char *describe(const json_t *access, struct sr_confirm_side *s)
{
	const json_t *call = json_object_get(access, "call");

	s->rank = (int32_t)json_integer_value(json_object_get(access, "rank"));
	s->opcode = (uint32_t)json_integer_value(json_object_get(access, "opcode"));
	s->begin = address_of(access, "address");
	s->end = s->begin + (uint64_t)json_integer_value(json_object_get(access, "length"));
	s->stack = address_of(access, "stack");
	s->is_write = is_kind(access, "write") || is_kind(access, "atomic") ||
		      is_kind(access, "scatter") || is_kind(access, "store");
	s->is_local = is_kind(access, "gather") || is_kind(access, "scatter");
	s->recorded_thread = (uint32_t)json_integer_value(json_object_get(access, "thread"));
	if ((is_kind(access, "load") || is_kind(access, "store")) && !json_is_true(json_object_get(access, "nearby"))) {
		s->instruction = address_of(access, "instruction");
		s->instruction_code = address_of(access, "code");
	}
	s->fetches = sr_op((uint8_t)s->opcode) & SR_OP_SCATTERS && is_request(access);
	if (is_request(access)) {
		s->kind = SR_CONFIRM_REQUEST;
	} else if (is_kind(access, "store")) {
		s->kind = SR_CONFIRM_STORE;
		if (!take_call(call, s->next, &s->next_site, &s->next_code, NULL))
			return "the store is the last thing that its rank does";
		call = json_object_get(access, "after");
	} else if (is_kind(access, "load") && s->instruction) {
		s->kind = SR_CONFIRM_LOAD;
		s->site = s->instruction;
		s->code = s->instruction_code;
		/* Without a fault it is that of the call; or else of another load by the same instruction. */
		if (!json_integer_value(json_object_get(access, "fault")) || json_is_true(json_object_get(access, "stack_of_another")))
			s->stack = 0;
		return NULL;
	} else if (is_kind(access, "load")) {
		s->kind = SR_CONFIRM_CALL;
	} else if (is_kind(access, "receive")) {
		if (!json_is_integer(json_object_get(access, "sender")))
			return "the sender of the message is not known";
		s->kind = SR_CONFIRM_REQUEST;
		s->is_message = s->is_write = true;
		s->rank = (int32_t)json_integer_value(json_object_get(access, "sender"));
	} else {
		return *text_of(access, "kind")
			   ? "such an access cannot be held"
			   : "races.json is of an older version: sreplay races writes it again";
	}
	return take_call(call, s->call, &s->site, &s->code, &s->occurrence)
		   ? NULL
		   : "the trace does not say where one of the accesses was made";
}

const char *sr_confirm_describe(const json_t *race, struct sr_confirm *c)
{
	const json_t *accesses = json_object_get(race, "accesses");
	const char *why;

	memset(c, 0, sizeof(*c));
	c->magic = SR_CONFIRM_MAGIC;
	if (!strcmp(text_of(race, "class"), "fence"))
		return "two requests of one queue pair cannot be held apart";
	why = describe(json_array_get(accesses, 0), &c->side[0]);
	return why ? why : describe(json_array_get(accesses, 1), &c->side[1]);
}

/* A library's functions have no lines: the first caller that has one. */
static const char *line_of(const json_t *access)
{
	json_t *frame;
	size_t i;

	if (strchr(text_of(access, "place"), ':'))
		return "";
	json_array_foreach(json_object_get(access, "frames"), i, frame)
		if (strchr(json_string_value(frame), ':'))
			return json_string_value(frame);
	return "";
}

char *sr_race_access_text(const json_t *race, int which)
{
	const json_t *a = json_array_get(json_object_get(race, "accesses"), (size_t)which);
	const char *place = text_of(a, "place"), *line = line_of(a);
	char *text = NULL;

	if (asprintf(&text, "%s by rank %lld%s%s%s%s", text_of(a, "what"), json_integer_value(json_object_get(a, "rank")),
		     *place ? ", " : "", place, *line ? ", called by " : "", line) < 0)
		return NULL;
	return text;
}
