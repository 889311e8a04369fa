/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/json.h"
#include "replay/print/print.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "replay/print/exec.h"
#include "replay/print/marks.h"
#include "replay/print/names.h"
#include "replay/print/exposed.h"
#include "shim/core/call.h"
#include "shim/core/order.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *name_in(const char *const *names, size_t n, uint32_t number)
{
	return number < n && names[number] ? names[number] : "";
}

static json_t *decode_signal(const struct sr_entry *e)
{
	static const char *const places[] = {
	    [SR_SIGNAL_BEFORE] = "before the next call",
	    [SR_SIGNAL_IN_CALL] = "in a call",
	    [SR_SIGNAL_AFTER] = "at the end of the call",
	    [SR_SIGNAL_BETWEEN] = "between calls",
	    [SR_SIGNAL_AT_HEAP] = "before a heap operation",
	};
	struct sr_signal_payload p;
	siginfo_t info;
	json_t *v;

	memcpy(&p, e->payload, sizeof(p));
	memcpy(&info, p.info, sizeof(info));
	v = json_pack("{s:s, s:i, s:s, s:i, s:i}", "record", sr_record_name(e->kind), "signo", (int)p.signo,
		      "place", name_in(places, COUNT(places), p.place), "level", (int)p.level,
		      "code", info.si_code);
	if (p.order)
		json_object_set_new(v, "order", json_integer((json_int_t)p.order));
	if (p.flags & SR_SIGNAL_SAME_PLACE)
		json_object_set_new(v, "same_place", json_true());
	return v;
}

static json_t *decode_run_token(const struct sr_entry *e)
{
	static const char *const whats[] = {
	    [SR_RUN_TOKEN_ACQUIRED] = "acquired",
	    [SR_RUN_TOKEN_REACQUIRED] = "reacquired",
	    [SR_RUN_TOKEN_PREEMPTED] = "preempted",
	    [SR_RUN_TOKEN_YIELDED] = "yielded",
	    [SR_RUN_TOKEN_REJOINED] = "rejoined",
	    [SR_RUN_TOKEN_PARTS] = "parts",
	    [SR_RUN_TOKEN_PARTED] = "parted",
	    [SR_RUN_TOKEN_AT_HEAP] = "at the heap",
	};
	struct sr_token_payload p;
	json_t *v;

	memcpy(&p, e->payload, sizeof(p));
	v = json_pack("{s:s, s:s, s:I}", "record", sr_record_name(e->kind), "what",
		      name_in(whats, COUNT(whats), p.what), "order", (json_int_t)p.event);
	if (p.what == SR_RUN_TOKEN_PREEMPTED)
		json_object_set_new(v, "from", json_integer(p.other));
	if (p.what == SR_RUN_TOKEN_YIELDED || p.what == SR_RUN_TOKEN_REJOINED)
		json_object_set_new(v, "access", json_integer(p.other));
	if (p.arrived)
		json_object_set_new(v, "arrived", json_integer((json_int_t)p.arrived));
	return v;
}

static json_t *registers_of(const struct sr_place_payload *p)
{
	json_t *v = json_array();
	char text[24];

	for (int i = 0; i < 16; i++) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)p->registers[i]);
		json_array_append_new(v, json_string(text));
	}
	return v;
}

static json_t *words_of(const struct sr_place_payload *p, const uint8_t *words, size_t size)
{
	json_t *v = json_array();
	struct sr_place_word w;
	char text[48];

	for (uint32_t i = 0; i < p->words && size >= sizeof(w); i++, size -= sizeof(w), words += sizeof(w)) {
		memcpy(&w, words, sizeof(w));
		snprintf(text, sizeof(text), "0x%llx: 0x%llx", (unsigned long long)w.addr, (unsigned long long)w.value);
		json_array_append_new(v, json_string(text));
	}
	return v;
}

static json_t *decode_place(const struct sr_entry *e)
{
	struct sr_place_payload p;
	char pc[24];
	json_t *v;

	memcpy(&p, e->payload, sizeof(p));
	snprintf(pc, sizeof(pc), "0x%llx", (unsigned long long)p.pc);
	v = json_pack("{s:s, s:s, s:b, s:I, s:o, s:o}", "record", sr_record_name(e->kind), "pc", pc, "spins",
		      p.flags & SR_PLACE_SPIN, "heap_position", (json_int_t)p.heap_position, "registers", registers_of(&p),
		      "words", words_of(&p, (const uint8_t *)e->payload + sizeof(p), e->size - sizeof(p)));
	if (p.flags & SR_PLACE_UNKNOWN)
		json_object_set_new(v, "unknown", json_true());
	if (p.flags & SR_PLACE_SIGNAL)
		json_object_set_new(v, "for_signal", json_true());
	if (!(p.flags & SR_PLACE_JUMP))
		json_object_set_new(v, "by_trap", json_true());
	return v;
}

static json_t *decode_exec(const struct sr_entry *e)
{
	return sr_exec_decode(e->payload, e->size);
}

static json_t *decode_fork(const struct sr_entry *e)
{
	struct sr_fork_payload p;

	memcpy(&p, e->payload, sizeof(p));
	return json_pack("{s:s, s:I}", "record", sr_record_name(e->kind), "child", (json_int_t)p.child);
}

static json_t *decode_check(const struct sr_entry *e)
{
	struct sr_check_payload p;
	char sent[12], received[12];

	memcpy(&p, e->payload, sizeof(p));
	snprintf(sent, sizeof(sent), "0x%x", p.sent);
	snprintf(received, sizeof(received), "0x%x", p.received);
	return json_pack("{s:s, s:s, s:s}", "record", sr_record_name(e->kind), "sent", sent, "received", received);
}

static json_t *decode_behind(const struct sr_entry *e)
{
	uint64_t event;

	memcpy(&event, e->payload, sizeof(event));
	return json_pack("{s:s, s:I}", "record", sr_record_name(e->kind), "order", (json_int_t)event);
}

static json_t *decode_passed(const struct sr_entry *e)
{
	uint32_t points;

	memcpy(&points, e->payload, sizeof(points));
	return json_pack("{s:s, s:I}", "record", sr_record_name(e->kind), "points", (json_int_t)points);
}

static json_t *decode_connection(const struct sr_entry *e)
{
	struct sr_connection_payload p = {0};
	const char *why;
	json_t *v;

	sr_entry_connection(e, &p);
	why = sr_carries_why(p.carries);
	v = json_pack("{s:s, s:I, s:I, s:i, s:b}", "record", sr_record_name(e->kind), "number",
		      (json_int_t)p.number, "peer", (json_int_t)p.peer, "peer_rank",
		      (int)p.peer_rank, "clocks", p.carries < SR_CARRIES_NONE);
	if (why[0])
		json_object_set_new(v, "why", json_string(why));
	if (p.error)
		json_object_set_new(v, "errno", json_integer(p.error));
	return v;
}

static json_t *decode_repeat(const struct sr_entry *e)
{
	uint64_t count = 0;

	sr_entry_repeat(e, &count);
	return json_pack("{s:s, s:I}", "record", sr_record_name(e->kind), "count", (json_int_t)count);
}

static json_t *decode_exit(const struct sr_entry *e)
{
	int32_t status = 0;

	memcpy(&status, e->payload, sizeof(status));
	return json_pack("{s:s, s:i}", "record", sr_record_name(e->kind),
			 "status", (int)status);
}

static json_t *decode_mark(const struct sr_entry *e)
{
	char sentence[512] = "";
	enum sr_mark reason = 0;

	sr_entry_mark(e, &reason, sentence, sizeof(sentence));
	return json_pack("{s:s, s:i, s:s}", "record", sr_record_name(e->kind), "reason", (int)reason, "text",
			 sentence);
}

static json_t *decode_heap(const struct sr_entry *e)
{
	struct sr_heap_payload p;

	memcpy(&p, e->payload, sizeof(p));
	return json_pack("{s:s, s:I, s:I, s:I}", "record", sr_record_name(e->kind), "run", (json_int_t)p.run,
			 "previous", (json_int_t)p.previous, "position", (json_int_t)p.position);
}

static json_t *decode_picked(const struct sr_entry *e)
{
	struct sr_picked_payload p;

	memcpy(&p, e->payload, sizeof(p));
	return json_pack("{s:s, s:o, s:o, s:b, s:I, s:I}", "record", sr_record_name(e->kind), "cq", sr_json_address(p.cq), "qp_num",
			 sr_json_address(p.qp_num), "receives", (int)p.receives, "told", (json_int_t)p.traced, "not_told",
			 (json_int_t)p.untraced);
}

static json_t *decode_changed(const struct sr_entry *e)
{
	struct sr_changed_payload p;

	memcpy(&p, e->payload, sizeof(p));
	return json_pack("{s:s, s:I, s:I, s:I, s:o}", "record", sr_record_name(e->kind), "thread", (json_int_t)p.thread, "sn", (json_int_t)p.sn,
			 "number", (json_int_t)p.number, "checksum", sr_json_address(p.checksum));
}

/* Records that are no calls: {"record": name, ...}. */
static json_t *decode_other(const struct sr_entry *e)
{
	static const struct {
		uint16_t kind;
		size_t bytes; /* at least */
		json_t *(*decode)(const struct sr_entry *e);
	} kinds[] = {
	    {SR_REC_REPEAT, sizeof(struct sr_repeat_payload), decode_repeat},
	    {SR_REC_EXIT, sizeof(int32_t), decode_exit},
	    {SR_REC_EXIT_BEGINS, sizeof(int32_t), decode_exit},
	    {SR_REC_MARK, sizeof(struct sr_mark_payload), decode_mark},
	    {SR_REC_HEAP, sizeof(struct sr_heap_payload), decode_heap},
	    {SR_REC_EXPOSED, 0, sr_exposed_print},
	    {SR_REC_REGION, 0, sr_exposed_print},
	    {SR_REC_EXPOSED_COUNTS, 0, sr_exposed_print},
	    {SR_REC_CONNECTION, sizeof(struct sr_connection_payload), decode_connection},
	    {SR_REC_EXEC, 0, decode_exec},
	    {SR_REC_CHECK, sizeof(struct sr_check_payload), decode_check},
	    {SR_REC_BEHIND, sizeof(uint64_t), decode_behind},
	    {SR_REC_PASSED, sizeof(uint32_t), decode_passed},
	    {SR_REC_PICKED, sizeof(struct sr_picked_payload), decode_picked},
	    {SR_REC_CHANGED, sizeof(struct sr_changed_payload), decode_changed},
	    {SR_REC_FORK, sizeof(struct sr_fork_payload), decode_fork},
	    {SR_REC_PLACE, sizeof(struct sr_place_payload), decode_place},
	    {SR_REC_RUN_TOKEN, sizeof(struct sr_token_payload), decode_run_token},
	    {SR_REC_SIGNAL, sizeof(struct sr_signal_payload), decode_signal},
	};

	for (size_t i = 0; i < COUNT(kinds); i++)
		if (e->kind == kinds[i].kind && e->size >= kinds[i].bytes)
			return kinds[i].decode(e);
	return json_pack("{s:s, s:i}", "record", "unknown", "kind", (int)e->kind);
}

static json_t *decode_call(const struct sr_print *p, const struct sr_entry *e)
{
	json_t *v = sr_schema_decode(p->schema, e->kind, e->payload, e->size);
	struct sr_call_head head;
	const char *at;

	if (!v)
		return NULL;
	memcpy(&head, e->payload, sizeof(head));
	at = sr_symbols_site(p->symbols, head.site);
	json_object_set_new(v, "call", json_string(sr_schema_name(p->schema, e->kind)));
	if (at[0])
		json_object_set_new(v, "at", json_string(at));
	return v;
}

/* The text of a record takes ten times its room. */
#define SHOWN_MAX (64 << 20)

json_t *sr_print_decode(const struct sr_print *p, const struct sr_entry *e)
{
	if (e->size > SHOWN_MAX)
		return json_pack("{s:s, s:i, s:I}", "record", "too large to be shown", "kind",
				 (int)e->kind, "bytes", (json_int_t)e->size);
	return e->kind >= SR_REC_CALL ? decode_call(p, e) : decode_other(e);
}

void sr_print_site(FILE *out, const struct sr_print *p, uint64_t site)
{
	const char *at = sr_symbols_site(p->symbols, site);

	fprintf(out, "@0x%llx%s%s", (unsigned long long)site, at[0] ? " " : "", at);
}

static void print_call(FILE *out, json_t *v)
{
	json_t *error = json_object_get(v, "errno"), *result = json_object_get(v, "result");
	json_t *number;
	size_t i;

	fprintf(out, "%s(", json_string_value(json_object_get(v, "call")));
	sr_schema_print(out, json_object_get(v, "in"));
	fputc(')', out);
	if (!json_is_null(result)) {
		fputs(" = ", out);
		sr_schema_print(out, result);
	}
	if (json_integer_value(result) < 0)
		fprintf(out, " errno=%lld", (long long)json_integer_value(error));
	if (json_integer_value(error) == SR_ERROR_CANCELLED)
		fputs(" cancelled", out);
	if (json_object_size(json_object_get(v, "out"))) {
		fputs("  ", out);
		sr_schema_print(out, json_object_get(v, "out"));
	}
	json_array_foreach(json_object_get(v, "order"), i, number)
	    fprintf(out, "%s%lld", i ? "-" : "  #", (long long)json_integer_value(number));
}

void sr_print_line(FILE *out, const struct sr_print *p, const struct sr_entry *e, json_t *v)
{
	struct sr_call_head head;

	fprintf(out, "%8llu  ", (unsigned long long)e->sn);
	if (!json_object_get(v, "call")) {
		sr_schema_print(out, v);
	} else {
		memcpy(&head, e->payload, sizeof(head));
		print_call(out, v);
		fputs("  ", out);
		sr_print_site(out, p, head.site);
	}
	fputc('\n', out);
}
