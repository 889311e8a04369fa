/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/kinds.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/opcodes.h"
#include "logd/trace/read_trace.h"
#include "replay/analysis/log/schema.h"
#include "shim/core/call.h"
#include "shim/core/schema.h"

#define CALL(name) #name, SR_CALL_##name

static const struct {
	const char *name;
	enum sr_call_number number; /* in this version's own traces */
	enum sr_what what;
	int opcode;
} calls[] = {
    {CALL(post_send), SR_WHAT_POST_SEND, 0},
    {CALL(post_recv), SR_WHAT_POST_RECV, 0},
    {CALL(post_srq_recv), SR_WHAT_POST_SRQ_RECV, 0},
    {CALL(poll_cq), SR_WHAT_POLL, 0},
    {CALL(start_poll), SR_WHAT_POLL_EX, 0},
    {CALL(next_poll), SR_WHAT_POLL_EX, 0},
    {CALL(wr_start), SR_WHAT_BATCH_START, 0},
    {CALL(wr_complete), SR_WHAT_BATCH_COMPLETE, 0},
    {CALL(wr_abort), SR_WHAT_BATCH_ABORT, 0},
    {CALL(wr_send), SR_WHAT_BUILD_PLAIN, IBV_WR_SEND},
    {CALL(wr_send_imm), SR_WHAT_BUILD_PLAIN, IBV_WR_SEND_WITH_IMM},
    {CALL(wr_send_inv), SR_WHAT_BUILD_PLAIN, IBV_WR_SEND_WITH_INV},
    {CALL(wr_send_tso), SR_WHAT_BUILD_PLAIN, IBV_WR_TSO},
    {CALL(wr_local_inv), SR_WHAT_BUILD_PLAIN, IBV_WR_LOCAL_INV},
    {CALL(wr_bind_mw), SR_WHAT_BUILD_PLAIN, IBV_WR_BIND_MW},
    {CALL(wr_flush), SR_WHAT_BUILD_PLAIN, SR_WR_FLUSH},
    {CALL(wr_rdma_write), SR_WHAT_BUILD_REMOTE, IBV_WR_RDMA_WRITE},
    {CALL(wr_rdma_write_imm), SR_WHAT_BUILD_REMOTE, IBV_WR_RDMA_WRITE_WITH_IMM},
    {CALL(wr_rdma_read), SR_WHAT_BUILD_REMOTE, IBV_WR_RDMA_READ},
    {CALL(wr_atomic_cmp_swp), SR_WHAT_BUILD_REMOTE, IBV_WR_ATOMIC_CMP_AND_SWP},
    {CALL(wr_atomic_fetch_add), SR_WHAT_BUILD_REMOTE, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {CALL(wr_atomic_write), SR_WHAT_BUILD_REMOTE, SR_WR_ATOMIC_WRITE},
    {CALL(wr_set_sge), SR_WHAT_SET_SGE, 0},
    {CALL(wr_set_sge_list), SR_WHAT_SET_SGE_LIST, 0},
    {CALL(wr_set_inline_data), SR_WHAT_SET_INLINE, 0},
    {CALL(wr_set_inline_data_list), SR_WHAT_SET_INLINE_LIST, 0},
    {CALL(wr_set_ud_addr), SR_WHAT_SET_UD_ADDR, 0},
    {CALL(bind_mw), SR_WHAT_BIND_MW, IBV_WR_BIND_MW},
    {CALL(ibv_create_qp), SR_WHAT_CREATE_QP, 0},
    {CALL(create_qp_ex), SR_WHAT_CREATE_QP_EX, 0},
    {CALL(ibv_modify_qp), SR_WHAT_MODIFY_QP, 0},
    {CALL(ibv_destroy_qp), SR_WHAT_DESTROY_QP, 0},
    {CALL(ibv_query_qp_data_in_order), SR_WHAT_QUERY_IN_ORDER, 0},
    {CALL(ibv_reg_mr), SR_WHAT_REG_MR, 0},
    {CALL(ibv_reg_mr_iova), SR_WHAT_REG_MR_IOVA, 0},
    {CALL(ibv_reg_mr_iova2), SR_WHAT_REG_MR_IOVA, 0},
    {CALL(ibv_rereg_mr), SR_WHAT_REREG_MR, 0},
    {CALL(ibv_dereg_mr), SR_WHAT_DEREG_MR, 0},
    {CALL(ibv_query_gid), SR_WHAT_QUERY_GID, 0},
    {CALL(_ibv_query_gid_ex), SR_WHAT_QUERY_GID_EX, 0},
    {CALL(rdma_get_cm_event), SR_WHAT_CM_EVENT, 0},
    {CALL(rdma_create_qp), SR_WHAT_CM_CREATE_QP, 0},
    {CALL(rdma_create_qp_ex), SR_WHAT_CM_CREATE_QP_EX, 0},
    {CALL(rdma_create_ep), SR_WHAT_CM_CREATE_EP, 0},
    {CALL(rdma_connect), SR_WHAT_CM_CONNECT, 0},
    {CALL(rdma_accept), SR_WHAT_CM_CONNECT, 0},
    {CALL(rdma_get_request), SR_WHAT_CM_REQUEST, 0},
    {CALL(rdma_disconnect), SR_WHAT_CM_DISCONNECT, 0},
    {CALL(rdma_destroy_qp), SR_WHAT_CM_DESTROY, 0},
    {CALL(rdma_destroy_ep), SR_WHAT_CM_DESTROY, 0},
    {CALL(rdma_destroy_id), SR_WHAT_CM_DESTROY_ID, 0},
    {CALL(sreplay_on_annotation), SR_WHAT_ANNOTATION, 0},
    {CALL(sreplay_on_accesses), SR_WHAT_ACCESSES, 0},
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

_Static_assert(SR_CALL_COUNT <= SR_LOG_CALLS, "each has its place");

static const char *const structs[] = {
    "ibv_sge",
    "ibv_wc",
    "send_wr",
    "recv_wr",
    "ibv_mw_bind_info",
    "ibv_mw_bind",
    "segment",
    "ibv_qp_cap",
    "ibv_qp_init_attr",
    "ibv_qp_init_attr_ex",
    "completion",
    "ibv_ah_attr",
    "ibv_qp_attr",
    "device",
    "context",
    "opened",
    "cm_id",
    "cm_event_kind",
    "rdma_addrinfo",
    "rdma_conn_param",
};

#define STRUCTS (sizeof(structs) / sizeof(structs[0]))

static size_t find(const char *name)
{
	size_t i = 0;

	while (i < CALLS && strcmp(calls[i].name, name))
		i++;
	return i;
}

static bool is_alike(const json_t *a, const json_t *b, const char *what)
{
	return json_equal(json_object_get(a, what), json_object_get(b, what));
}

static const json_t *described(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *call = json_array_get(list, i);
		const char *its = json_string_value(json_object_get(call, "name"));

		if (its && !strcmp(its, name))
			return call;
	}
	return NULL;
}

/* The first thing with another layout, or NULL. */
static const char *different(const json_t *theirs, const json_t *ours, struct sr_log_kinds *k)
{
	const json_t *list = json_object_get(theirs, "calls");

	for (size_t i = 0; i < STRUCTS; i++)
		if (!is_alike(json_object_get(theirs, "structs"), json_object_get(ours, "structs"),
			      structs[i]))
			return structs[i];
	for (size_t n = 0; n < json_array_size(list) && n < SR_LOG_CALLS; n++) {
		const json_t *call = json_array_get(list, n), *our;
		const char *name = json_string_value(json_object_get(call, "name"));
		size_t i = name ? find(name) : CALLS;

		if (i == CALLS)
			continue;
		our = described(json_object_get(ours, "calls"), name);
		if (!is_alike(call, our, "in") || !is_alike(call, our, "out"))
			return calls[i].name;
		k->what[n] = (uint8_t)calls[i].what;
		k->opcode[n] = (uint8_t)calls[i].opcode;
	}
	return NULL;
}

static int load(struct sr_log_kinds *k, const char *text, size_t size, const struct sr_trace *t,
		int32_t rank, struct sr_error *err)
{
	json_t *theirs = json_loadb(text, size, 0, NULL);
	json_t *ours = json_loadb(sr_schema, sr_schema_size, 0, NULL);
	const char *other;
	int ret = 0;

	memset(k, 0, sizeof(*k));
	if (!json_is_array(json_object_get(theirs, "calls"))) {
		ret = sr_error_set(err, -EBADMSG, SR_SCHEMA_DAMAGED, sr_trace_dir(t), rank);
	} else {
		other = different(theirs, ours, k);
		if (other)
			ret = sr_error_set(err, -EPROTO,
					   "%s: rank %s was recorded by another version of sreplay "
					   "(its %s is another one): process it with that one",
					   sr_trace_dir(t), sr_trace_rank_name(t, rank), other);
	}
	json_decref(theirs);
	json_decref(ours);
	return ret;
}

/* Nearly all traces have this version's own schema, which need not be parsed. */
static void load_own(struct sr_log_kinds *k)
{
	memset(k, 0, sizeof(*k));
	for (size_t i = 0; i < CALLS; i++) {
		k->what[calls[i].number] = (uint8_t)calls[i].what;
		k->opcode[calls[i].number] = (uint8_t)calls[i].opcode;
	}
}

/* Another build's schema that was parsed last: a trace has the same one for each rank, and each pass over a rank asks for it. */
static struct {
	pthread_mutex_t lock;
	char *text; /* NULL: none was */
	size_t size;
	struct sr_log_kinds kinds;
} parsed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool recall(struct sr_log_kinds *k, const char *text, size_t size)
{
	bool is_same;

	pthread_mutex_lock(&parsed.lock);
	is_same = parsed.text && size == parsed.size && !memcmp(text, parsed.text, size);
	if (is_same)
		*k = parsed.kinds;
	pthread_mutex_unlock(&parsed.lock);
	return is_same;
}

static void remember(const struct sr_log_kinds *k, const char *text, size_t size)
{
	char *copy = malloc(size + 1);

	if (!copy)
		return;
	memcpy(copy, text, size);
	pthread_mutex_lock(&parsed.lock);
	free(parsed.text);
	parsed.text = copy;
	parsed.size = size;
	parsed.kinds = *k;
	pthread_mutex_unlock(&parsed.lock);
}

int sr_log_kinds_load(struct sr_log_kinds *k, const struct sr_trace *t, int32_t rank,
		      struct sr_error *err)
{
	size_t size = 0;
	const char *text = sr_trace_schema(t, rank, &size);
	int ret;

	if (text && size == sr_schema_size && !memcmp(text, sr_schema, size)) {
		load_own(k);
		return 0;
	}
	if (text && recall(k, text, size))
		return 0;
	ret = load(k, text ? text : "", size, t, rank, err);
	if (!ret)
		remember(k, text, size);
	return ret;
}
