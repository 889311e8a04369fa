/* SPDX-License-Identifier: BSD-2-Clause */
/* words.c: what reports call races and accesses. */
#include <stdio.h>

#include <infiniband/verbs.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/races/races.h"

const char *sr_race_evidence_word(enum sr_race_evidence e)
{
	static const char *const words[] = {"possible", "predicted", "observed", "confirmed"};

	return words[e];
}

const char *sr_race_class_word(enum sr_race_class c)
{
	static const char *const words[] = {"data", "same-value", "in-flight", "lifetime", "fence", "sync", "message"};

	return words[c];
}

const char *sr_race_severity_word(enum sr_race_severity s)
{
	static const char *const words[] = {"note", "warning", "error"};

	return words[s];
}

static const char *opcode_word(uint8_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
		return "WRITE";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WRITE with immediate";
	case IBV_WR_RDMA_READ:
		return "READ";
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return "compare-and-swap";
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return "fetch-and-add";
	case SR_WR_ATOMIC_WRITE:
		return "atomic WRITE";
	default:
		return sr_op(opcode) & SR_OP_RECEIVED ? "SEND" : "request";
	}
}

const char *sr_race_access_words(const struct sr_access *a, char text[64])
{
	const char *before = a->kind == SR_ACCESS_GATHER    ? "gather of a "
			     : a->kind == SR_ACCESS_SCATTER ? "local side of a "
							    : "";

	if (a->kind == SR_ACCESS_LOAD)
		return "load";
	if (a->kind == SR_ACCESS_STORE)
		return "store";
	if (a->kind == SR_ACCESS_RECV)
		return "message into a posted receive";
	if (a->kind == SR_ACCESS_CHANGE)
		return "change that was not seen itself";
	if (a->kind == SR_ACCESS_RELEASE)
		return "deregistration";
	snprintf(text, 64, "%s%s", before, opcode_word(a->opcode));
	return text;
}
