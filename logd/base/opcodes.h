/* SPDX-License-Identifier: BSD-2-Clause */
/* opcodes.h: what a send request does, by its opcode.  No other file decides this. */
#ifndef LOGD_BASE_OPCODES_H
#define LOGD_BASE_OPCODES_H

#include <stdint.h>

#include <infiniband/verbs.h>

enum {
	SR_OP_GATHERS = 1 << 0,   /* sends the memory of its list */
	SR_OP_SCATTERS = 1 << 1,  /* writes to the memory of its list */
	SR_OP_REMOTE = 1 << 2,    /* names memory of the peer: an address and an rkey */
	SR_OP_CHANGES = 1 << 3,   /* ... and changes it */
	SR_OP_ATOMIC = 1 << 4,    /* ... having read it; its operands are in wr.atomic */
	SR_OP_RECEIVED = 1 << 5,  /* consumes a receive request of the peer */
	SR_OP_IMMEDIATE = 1 << 6, /* has immediate data, or in their place a key to invalidate */
};

/*
 * enum ibv_wr_opcode and ibv_wc_opcode of newer headers.  FLUSH (rdma-core 46): what was written to the peer's memory has
 * reached a domain of it.  ATOMIC_WRITE (rdma-core 44 or before): eight bytes, in one piece.
 */
enum {
	SR_WR_FLUSH = 14,
	SR_WR_ATOMIC_WRITE = 15,
	SR_WC_FLUSH = 8,
	SR_WC_ATOMIC_WRITE = 9,
};

/* A set of SR_OP_*; 0: the opcode is not known. */
static inline unsigned sr_op(uint32_t opcode)
{
	enum {
		WRITE = SR_OP_GATHERS | SR_OP_REMOTE | SR_OP_CHANGES,
		SEND = SR_OP_GATHERS | SR_OP_RECEIVED,
		ATOMIC = SR_OP_SCATTERS | SR_OP_REMOTE | SR_OP_CHANGES | SR_OP_ATOMIC,
	};
	static const uint8_t does[] = {
	    [IBV_WR_RDMA_WRITE] = WRITE,
	    [IBV_WR_RDMA_WRITE_WITH_IMM] = WRITE | SR_OP_RECEIVED | SR_OP_IMMEDIATE,
	    [IBV_WR_SEND] = SEND,
	    [IBV_WR_SEND_WITH_IMM] = SEND | SR_OP_IMMEDIATE,
	    [IBV_WR_SEND_WITH_INV] = SEND | SR_OP_IMMEDIATE,
	    [IBV_WR_RDMA_READ] = SR_OP_SCATTERS | SR_OP_REMOTE,
	    [IBV_WR_ATOMIC_CMP_AND_SWP] = ATOMIC,
	    [IBV_WR_ATOMIC_FETCH_AND_ADD] = ATOMIC,
	    [IBV_WR_LOCAL_INV] = SR_OP_IMMEDIATE,
	    [IBV_WR_TSO] = SR_OP_GATHERS, /* Ethernet frames, perhaps received by nobody */
	    [SR_WR_ATOMIC_WRITE] = WRITE,
	};

	return opcode < sizeof(does) ? does[opcode] : 0;
}

/* The opcode of the completion of a request that succeeds. */
static inline enum ibv_wc_opcode sr_op_completes_as(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_TSO:
		return IBV_WC_TSO;
	case SR_WR_ATOMIC_WRITE:
		return (enum ibv_wc_opcode)SR_WC_ATOMIC_WRITE;
	case SR_WR_FLUSH:
		return (enum ibv_wc_opcode)SR_WC_FLUSH;
	default:
		return IBV_WC_SEND;
	}
}

/* What a request counts as where requests are counted. */
enum sr_op_kind {
	SR_OP_KIND_SEND,
	SR_OP_KIND_WRITE,
	SR_OP_KIND_READ,
	SR_OP_KIND_ATOMIC,
	SR_OP_KINDS,
};

/* enum sr_op_kind; -1: it communicates nothing. */
static inline int sr_op_kind(uint32_t opcode)
{
	const unsigned does = sr_op(opcode);

	if (does & SR_OP_ATOMIC)
		return SR_OP_KIND_ATOMIC;
	if (does & SR_OP_CHANGES)
		return SR_OP_KIND_WRITE;
	if (does & SR_OP_SCATTERS)
		return SR_OP_KIND_READ;
	return does & SR_OP_GATHERS ? SR_OP_KIND_SEND : -1;
}

#endif
