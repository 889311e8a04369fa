/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring_abi.h: what the shim knows of the kernel's interface io_uring, with names of its own.
 *
 * The shim is built with the headers of the system where it is to run, which may be older than the
 * programs that it records there, or have no <linux/io_uring.h>: this takes nothing from them.
 * unit/uring-abi compares it with the header where that has it all.
 */
#ifndef SHIM_ASYNC_URING_ABI_H
#define SHIM_ASYNC_URING_ABI_H

#include <stdint.h>

/* Operations of requests. */
#define SR_URING_OP_NOP                    0x0
#define SR_URING_OP_READV                  0x1
#define SR_URING_OP_WRITEV                 0x2
#define SR_URING_OP_FSYNC                  0x3
#define SR_URING_OP_READ_FIXED             0x4
#define SR_URING_OP_WRITE_FIXED            0x5
#define SR_URING_OP_POLL_ADD               0x6
#define SR_URING_OP_POLL_REMOVE            0x7
#define SR_URING_OP_SYNC_FILE_RANGE        0x8
#define SR_URING_OP_SENDMSG                0x9
#define SR_URING_OP_RECVMSG                0xa
#define SR_URING_OP_TIMEOUT                0xb
#define SR_URING_OP_TIMEOUT_REMOVE         0xc
#define SR_URING_OP_ACCEPT                 0xd
#define SR_URING_OP_ASYNC_CANCEL           0xe
#define SR_URING_OP_LINK_TIMEOUT           0xf
#define SR_URING_OP_CONNECT                0x10
#define SR_URING_OP_FALLOCATE              0x11
#define SR_URING_OP_OPENAT                 0x12
#define SR_URING_OP_CLOSE                  0x13
#define SR_URING_OP_FILES_UPDATE           0x14
#define SR_URING_OP_STATX                  0x15
#define SR_URING_OP_READ                   0x16
#define SR_URING_OP_WRITE                  0x17
#define SR_URING_OP_FADVISE                0x18
#define SR_URING_OP_MADVISE                0x19
#define SR_URING_OP_SEND                   0x1a
#define SR_URING_OP_RECV                   0x1b
#define SR_URING_OP_OPENAT2                0x1c
#define SR_URING_OP_EPOLL_CTL              0x1d
#define SR_URING_OP_SPLICE                 0x1e
#define SR_URING_OP_PROVIDE_BUFFERS        0x1f
#define SR_URING_OP_REMOVE_BUFFERS         0x20
#define SR_URING_OP_TEE                    0x21
#define SR_URING_OP_SHUTDOWN               0x22
#define SR_URING_OP_RENAMEAT               0x23
#define SR_URING_OP_UNLINKAT               0x24
#define SR_URING_OP_MKDIRAT                0x25
#define SR_URING_OP_SYMLINKAT              0x26
#define SR_URING_OP_LINKAT                 0x27
#define SR_URING_OP_MSG_RING               0x28
#define SR_URING_OP_SOCKET                 0x2d
#define SR_URING_OP_SEND_ZC                0x2f
#define SR_URING_OP_SENDMSG_ZC             0x30

/* Flags of requests. */
#define SR_URING_SQE_FIXED_FILE            0x1
#define SR_URING_SQE_IO_DRAIN              0x2
#define SR_URING_SQE_IO_LINK               0x4
#define SR_URING_SQE_IO_HARDLINK           0x8
#define SR_URING_SQE_BUFFER_SELECT         0x20
#define SR_URING_SQE_CQE_SKIP_SUCCESS      0x40

/* More flags, of messages, of cancelling, of fixed files. */
#define SR_URING_ASYNC_CANCEL_ALL          0x1
#define SR_URING_RECVSEND_POLL_FIRST       0x1
#define SR_URING_RSRC_REGISTER_SPARSE      0x1
#define SR_URING_SPLICE_FD_IN_FIXED        0x80000000u
#define SR_URING_RECV_MULTISHOT            0x2
#define SR_URING_RECVSEND_FIXED_BUF        0x4
#define SR_URING_SEND_ZC_REPORT_USAGE      0x8
#define SR_URING_FILE_INDEX_ALLOC          0xffffffffu

/* Completions. */
#define SR_URING_CQE_F_BUFFER              0x1
#define SR_URING_CQE_F_MORE                0x2
#define SR_URING_CQE_BUFFER_SHIFT          16

/* io_uring_enter. */
#define SR_URING_ENTER_GETEVENTS           0x1
#define SR_URING_ENTER_SQ_WAKEUP           0x2
#define SR_URING_ENTER_SQ_WAIT             0x4
#define SR_URING_ENTER_EXT_ARG             0x8

/* The flags in the ring that the kernel writes. */
#define SR_URING_SQ_NEED_WAKEUP            0x1
#define SR_URING_SQ_TASKRUN                0x4

/* io_uring_setup. */
#define SR_URING_SETUP_IOPOLL              0x1
#define SR_URING_SETUP_SQPOLL              0x2
#define SR_URING_SETUP_SQ_AFF              0x4
#define SR_URING_SETUP_CQSIZE              0x8
#define SR_URING_SETUP_CLAMP               0x10
#define SR_URING_SETUP_ATTACH_WQ           0x20
#define SR_URING_SETUP_R_DISABLED          0x40
#define SR_URING_SETUP_SUBMIT_ALL          0x80
#define SR_URING_SETUP_COOP_TASKRUN        0x100
#define SR_URING_SETUP_TASKRUN_FLAG        0x200
#define SR_URING_SETUP_SINGLE_ISSUER       0x1000
#define SR_URING_SETUP_DEFER_TASKRUN       0x2000

/* What the kernel says that it can do. */
#define SR_URING_FEAT_SINGLE_MMAP          0x1
#define SR_URING_FEAT_NODROP               0x2
#define SR_URING_FEAT_SUBMIT_STABLE        0x4
#define SR_URING_FEAT_RW_CUR_POS           0x8
#define SR_URING_FEAT_CUR_PERSONALITY      0x10
#define SR_URING_FEAT_FAST_POLL            0x20
#define SR_URING_FEAT_POLL_32BITS          0x40
#define SR_URING_FEAT_SQPOLL_NONFIXED      0x80
#define SR_URING_FEAT_EXT_ARG              0x100
#define SR_URING_FEAT_NATIVE_WORKERS       0x200
#define SR_URING_FEAT_RSRC_TAGS            0x400
#define SR_URING_FEAT_CQE_SKIP             0x800
#define SR_URING_FEAT_LINKED_FILE          0x1000

/* Places to map. */
#define SR_URING_OFF_SQ_RING               0x0
#define SR_URING_OFF_CQ_RING               0x8000000ull
#define SR_URING_OFF_SQES                  0x10000000ull

/* io_uring_register. */
#define SR_URING_REGISTER_BUFFERS          0x0
#define SR_URING_UNREGISTER_BUFFERS        0x1
#define SR_URING_OP_SUPPORTED              0x1
#define SR_URING_REGISTER_FILES            0x2
#define SR_URING_UNREGISTER_FILES          0x3
#define SR_URING_REGISTER_EVENTFD          0x4
#define SR_URING_UNREGISTER_EVENTFD        0x5
#define SR_URING_REGISTER_FILES_UPDATE     0x6
#define SR_URING_REGISTER_EVENTFD_ASYNC    0x7
#define SR_URING_REGISTER_PROBE            0x8
#define SR_URING_REGISTER_ENABLE_RINGS     0xc
#define SR_URING_REGISTER_FILES2           0xd
#define SR_URING_REGISTER_FILES_UPDATE2    0xe
#define SR_URING_REGISTER_BUFFERS2         0xf
#define SR_URING_REGISTER_BUFFERS_UPDATE   0x10
#define SR_URING_REGISTER_IOWQ_AFF         0x11
#define SR_URING_UNREGISTER_IOWQ_AFF       0x12
#define SR_URING_REGISTER_IOWQ_MAX_WORKERS 0x13
#define SR_URING_REGISTER_PBUF_RING        0x16
#define SR_URING_UNREGISTER_PBUF_RING      0x17
#define SR_URING_REGISTER_SYNC_CANCEL      0x18
#define SR_URING_REGISTER_FILE_ALLOC_RANGE 0x19
#define SR_URING_REGISTER_FILES_SKIP       (-2)

/* A request: the fields by the names of their uses. */
struct sr_uring_sqe {
	uint8_t opcode;
	uint8_t flags;
	uint16_t ioprio;
	int32_t fd;
	union {
		uint64_t off;
		uint64_t addr2;
	};
	union {
		uint64_t addr;
		uint64_t splice_off_in;
	};
	uint32_t len;
	union {
		uint32_t rw_flags;
		uint32_t splice_flags;
	};
	uint64_t user_data;
	union {
		uint16_t buf_index;
		uint16_t buf_group;
	};
	uint16_t personality;
	union {
		int32_t splice_fd_in;
		uint32_t file_index;
	};
	uint64_t addr3;
	uint64_t unused;
};

struct sr_uring_cqe {
	uint64_t user_data;
	int32_t res;
	uint32_t flags;
};

/* Where the parts of the mapped rings are. */
struct sr_uring_sq_offsets {
	uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, resv1;
	uint64_t resv2;
};

struct sr_uring_cq_offsets {
	uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, resv1;
	uint64_t resv2;
};

struct sr_uring_params {
	uint32_t sq_entries, cq_entries;
	uint32_t flags;
	uint32_t sq_thread_cpu, sq_thread_idle;
	uint32_t features;
	uint32_t wq_fd;
	uint32_t resv[3];
	struct sr_uring_sq_offsets sq_off;
	struct sr_uring_cq_offsets cq_off;
};

struct sr_uring_getevents_arg {
	uint64_t sigmask;
	uint32_t sigmask_sz;
	uint32_t pad;
	uint64_t ts;
};

struct sr_uring_rsrc_register {
	uint32_t nr;
	uint32_t flags;
	uint64_t resv2;
	uint64_t data, tags;
};

struct sr_uring_rsrc_update {
	uint32_t offset;
	uint32_t resv;
	uint64_t data;
};

struct sr_uring_probe_op {
	uint8_t op;
	uint8_t resv;
	uint16_t flags;
	uint32_t resv2;
};

struct sr_uring_probe {
	uint8_t last_op;
	uint8_t ops_len;
	uint16_t resv;
	uint32_t resv2[3];
	struct sr_uring_probe_op ops[];
};

/* An entry of a ring of buffers, of which the kernel chooses.  The first one's `tail` is the
 * ring's. */
struct sr_uring_buf {
	uint64_t addr;
	uint32_t len;
	uint16_t bid;
	uint16_t tail;
};

struct sr_uring_buf_reg {
	uint64_t ring_addr;
	uint32_t ring_entries;
	uint16_t bgid;
	uint16_t flags;
	uint64_t resv[3];
};

struct sr_uring_sync_cancel_reg {
	uint64_t addr;
	int32_t fd;
	uint32_t flags;
	struct {
		int64_t tv_sec;
		int64_t tv_nsec;
	} timeout;
	uint64_t pad[4];
};

#endif
