/* SPDX-License-Identifier: BSD-2-Clause */
/* texts.c: names of numbers. */
#include <infiniband/verbs.h>

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static const char *const texts[] = {
	    [IBV_WC_SUCCESS] = "success",
	    [IBV_WC_LOC_LEN_ERR] = "local length error",
	    [IBV_WC_LOC_PROT_ERR] = "local protection error",
	    [IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
	    [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
	    [IBV_WC_REM_ACCESS_ERR] = "remote access error",
	    [IBV_WC_REM_OP_ERR] = "remote operation error",
	    [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
	    [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
	};

	if (status >= sizeof(texts) / sizeof(texts[0]) || !texts[status])
		return "unknown";
	return texts[status];
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return "unknown";
}

const char *ibv_node_type_str(enum ibv_node_type type)
{
	return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
	return state == IBV_PORT_ACTIVE ? "active" : "unknown";
}
