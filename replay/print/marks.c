/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/marks.h"

#include <stdio.h>
#include <string.h>

static bool payload(const struct sr_entry *e, uint16_t kind, void *to, size_t size)
{
	if (e->kind != kind || e->size < size)
		return false;
	memcpy(to, e->payload, size);
	return true;
}

bool sr_entry_exit(const struct sr_entry *e, int32_t *status)
{
	return payload(e, SR_REC_EXIT, status, sizeof(*status));
}

bool sr_entry_repeat(const struct sr_entry *e, uint64_t *count)
{
	struct sr_repeat_payload p;

	if (!payload(e, SR_REC_REPEAT, &p, sizeof(p)))
		return false;
	*count = p.count;
	return true;
}

bool sr_entry_mark(const struct sr_entry *e, enum sr_mark *reason, char *sentence, size_t size)
{
	struct sr_mark_payload p;
	int text = (int)(e->size - sizeof(p));
	const char *words = (const char *)e->payload + sizeof(p);

	if (!payload(e, SR_REC_MARK, &p, sizeof(p)))
		return false;
	*reason = (enum sr_mark)p.reason;
	switch (*reason) {
	case SR_MARK_DIED:
		snprintf(sentence, size, "the process was killed, or gone without exit%s",
			 p.flags & SR_MARK_WRITING ? ", while it wrote" : "");
		break;
	case SR_MARK_DROPPED:
		snprintf(sentence, size, "%llu records were dropped (--lossy)",
			 (unsigned long long)p.argument);
		break;
	case SR_MARK_STOPPED:
		snprintf(sentence, size, "the recording was cut short: %.*s", text, words);
		break;
	case SR_MARK_ENDED:
		snprintf(sentence, size, "the thread ended%s",
			 p.flags & SR_MARK_WRITING ? ", while it wrote" : "");
		break;
	default:
		snprintf(sentence, size, "a mark of an unknown kind (%u): %.*s", p.reason, text,
			 words);
	}
	return true;
}

bool sr_entry_connection(const struct sr_entry *e, struct sr_connection_payload *p)
{
	return payload(e, SR_REC_CONNECTION, p, sizeof(*p));
}

const char *sr_carries_why(uint32_t carries)
{
	switch (carries) {
	case SR_CARRIES_CLOCKS:
	case SR_CARRIES_TO_ONESELF:
		return "";
	case SR_CARRIES_NO_READS:
		return "there is no memory left for what is read of the other end's";
	case SR_CARRIES_FOREIGN:
		return "no process of the job is known to have the other end";
	case SR_CARRIES_UNANSWERED:
		return "sreplay-logd could not say whose the other end is";
	case SR_CARRIES_UNNAMED:
		return "sreplay-logd could not be told of it";
	case SR_CARRIES_UNJOINED:
		return "this process could not join its job";
	case SR_CARRIES_NO_ROOM:
		return "the device has no larger queue for it";
	case SR_CARRIES_NO_CELL:
		return "the other end's process has no clock cell left";
	case SR_CARRIES_NO_SRQ:
		return "the other end's process has no shared receive queue";
	case SR_CARRIES_NO_MEMORY:
		return "there is no memory for its clocks, or none that the device registers";
	default:
		return "for a reason that this version does not know";
	}
}
