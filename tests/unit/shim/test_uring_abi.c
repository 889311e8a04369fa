/* SPDX-License-Identifier: BSD-2-Clause */
/* shim/async/uring_abi.h is what the kernel's header says. */
#include <linux/io_uring.h>
#include <stddef.h>
#include <stdio.h>

#include "shim/async/uring_abi.h"

#define SAME(ours, kernels) _Static_assert((ours) == (kernels), #kernels)
#define SAME_SIZE(name, kernels)                                                                   \
	_Static_assert(sizeof(struct name) == sizeof(struct kernels), #kernels)
#define SAME_PLACE(name, kernels, field)                                                           \
	_Static_assert(offsetof(struct name, field) == offsetof(struct kernels, field) &&          \
			   sizeof(((struct name *)0)->field) ==                                    \
			       sizeof(((struct kernels *)0)->field),                               \
		       #kernels "." #field)

SAME(SR_URING_OP_NOP, IORING_OP_NOP);
SAME(SR_URING_OP_READV, IORING_OP_READV);
SAME(SR_URING_OP_WRITEV, IORING_OP_WRITEV);
SAME(SR_URING_OP_FSYNC, IORING_OP_FSYNC);
SAME(SR_URING_OP_READ_FIXED, IORING_OP_READ_FIXED);
SAME(SR_URING_OP_WRITE_FIXED, IORING_OP_WRITE_FIXED);
SAME(SR_URING_OP_POLL_ADD, IORING_OP_POLL_ADD);
SAME(SR_URING_OP_POLL_REMOVE, IORING_OP_POLL_REMOVE);
SAME(SR_URING_OP_SYNC_FILE_RANGE, IORING_OP_SYNC_FILE_RANGE);
SAME(SR_URING_OP_SENDMSG, IORING_OP_SENDMSG);
SAME(SR_URING_OP_RECVMSG, IORING_OP_RECVMSG);
SAME(SR_URING_OP_TIMEOUT, IORING_OP_TIMEOUT);
SAME(SR_URING_OP_TIMEOUT_REMOVE, IORING_OP_TIMEOUT_REMOVE);
SAME(SR_URING_OP_ACCEPT, IORING_OP_ACCEPT);
SAME(SR_URING_OP_ASYNC_CANCEL, IORING_OP_ASYNC_CANCEL);
SAME(SR_URING_OP_LINK_TIMEOUT, IORING_OP_LINK_TIMEOUT);
SAME(SR_URING_OP_CONNECT, IORING_OP_CONNECT);
SAME(SR_URING_OP_FALLOCATE, IORING_OP_FALLOCATE);
SAME(SR_URING_OP_OPENAT, IORING_OP_OPENAT);
SAME(SR_URING_OP_CLOSE, IORING_OP_CLOSE);
SAME(SR_URING_OP_FILES_UPDATE, IORING_OP_FILES_UPDATE);
SAME(SR_URING_OP_STATX, IORING_OP_STATX);
SAME(SR_URING_OP_READ, IORING_OP_READ);
SAME(SR_URING_OP_WRITE, IORING_OP_WRITE);
SAME(SR_URING_OP_FADVISE, IORING_OP_FADVISE);
SAME(SR_URING_OP_MADVISE, IORING_OP_MADVISE);
SAME(SR_URING_OP_SEND, IORING_OP_SEND);
SAME(SR_URING_OP_RECV, IORING_OP_RECV);
SAME(SR_URING_OP_OPENAT2, IORING_OP_OPENAT2);
SAME(SR_URING_OP_EPOLL_CTL, IORING_OP_EPOLL_CTL);
SAME(SR_URING_OP_SPLICE, IORING_OP_SPLICE);
SAME(SR_URING_OP_PROVIDE_BUFFERS, IORING_OP_PROVIDE_BUFFERS);
SAME(SR_URING_OP_REMOVE_BUFFERS, IORING_OP_REMOVE_BUFFERS);
SAME(SR_URING_OP_TEE, IORING_OP_TEE);
SAME(SR_URING_OP_SHUTDOWN, IORING_OP_SHUTDOWN);
SAME(SR_URING_OP_RENAMEAT, IORING_OP_RENAMEAT);
SAME(SR_URING_OP_UNLINKAT, IORING_OP_UNLINKAT);
SAME(SR_URING_OP_MKDIRAT, IORING_OP_MKDIRAT);
SAME(SR_URING_OP_SYMLINKAT, IORING_OP_SYMLINKAT);
SAME(SR_URING_OP_LINKAT, IORING_OP_LINKAT);
SAME(SR_URING_OP_MSG_RING, IORING_OP_MSG_RING);
SAME(SR_URING_OP_SOCKET, IORING_OP_SOCKET);
SAME(SR_URING_OP_SEND_ZC, IORING_OP_SEND_ZC);
SAME(SR_URING_OP_SENDMSG_ZC, IORING_OP_SENDMSG_ZC);
SAME(SR_URING_SQE_FIXED_FILE, IOSQE_FIXED_FILE);
SAME(SR_URING_SQE_IO_DRAIN, IOSQE_IO_DRAIN);
SAME(SR_URING_SQE_IO_LINK, IOSQE_IO_LINK);
SAME(SR_URING_SQE_IO_HARDLINK, IOSQE_IO_HARDLINK);
SAME(SR_URING_SQE_BUFFER_SELECT, IOSQE_BUFFER_SELECT);
SAME(SR_URING_SQE_CQE_SKIP_SUCCESS, IOSQE_CQE_SKIP_SUCCESS);
SAME(SR_URING_ASYNC_CANCEL_ALL, IORING_ASYNC_CANCEL_ALL);
SAME(SR_URING_RECVSEND_POLL_FIRST, IORING_RECVSEND_POLL_FIRST);
SAME(SR_URING_RSRC_REGISTER_SPARSE, IORING_RSRC_REGISTER_SPARSE);
SAME(SR_URING_SPLICE_FD_IN_FIXED, SPLICE_F_FD_IN_FIXED);
SAME(SR_URING_RECV_MULTISHOT, IORING_RECV_MULTISHOT);
SAME(SR_URING_RECVSEND_FIXED_BUF, IORING_RECVSEND_FIXED_BUF);
SAME(SR_URING_SEND_ZC_REPORT_USAGE, IORING_SEND_ZC_REPORT_USAGE);
SAME(SR_URING_FILE_INDEX_ALLOC, IORING_FILE_INDEX_ALLOC);
SAME(SR_URING_CQE_F_BUFFER, IORING_CQE_F_BUFFER);
SAME(SR_URING_CQE_F_MORE, IORING_CQE_F_MORE);
SAME(SR_URING_CQE_BUFFER_SHIFT, IORING_CQE_BUFFER_SHIFT);
SAME(SR_URING_ENTER_GETEVENTS, IORING_ENTER_GETEVENTS);
SAME(SR_URING_ENTER_SQ_WAKEUP, IORING_ENTER_SQ_WAKEUP);
SAME(SR_URING_ENTER_SQ_WAIT, IORING_ENTER_SQ_WAIT);
SAME(SR_URING_ENTER_EXT_ARG, IORING_ENTER_EXT_ARG);
SAME(SR_URING_SQ_NEED_WAKEUP, IORING_SQ_NEED_WAKEUP);
SAME(SR_URING_SQ_TASKRUN, IORING_SQ_TASKRUN);
SAME(SR_URING_SETUP_IOPOLL, IORING_SETUP_IOPOLL);
SAME(SR_URING_SETUP_SQPOLL, IORING_SETUP_SQPOLL);
SAME(SR_URING_SETUP_SQ_AFF, IORING_SETUP_SQ_AFF);
SAME(SR_URING_SETUP_CQSIZE, IORING_SETUP_CQSIZE);
SAME(SR_URING_SETUP_CLAMP, IORING_SETUP_CLAMP);
SAME(SR_URING_SETUP_ATTACH_WQ, IORING_SETUP_ATTACH_WQ);
SAME(SR_URING_SETUP_R_DISABLED, IORING_SETUP_R_DISABLED);
SAME(SR_URING_SETUP_SUBMIT_ALL, IORING_SETUP_SUBMIT_ALL);
SAME(SR_URING_SETUP_COOP_TASKRUN, IORING_SETUP_COOP_TASKRUN);
SAME(SR_URING_SETUP_TASKRUN_FLAG, IORING_SETUP_TASKRUN_FLAG);
SAME(SR_URING_SETUP_SINGLE_ISSUER, IORING_SETUP_SINGLE_ISSUER);
SAME(SR_URING_SETUP_DEFER_TASKRUN, IORING_SETUP_DEFER_TASKRUN);
SAME(SR_URING_FEAT_SINGLE_MMAP, IORING_FEAT_SINGLE_MMAP);
SAME(SR_URING_FEAT_NODROP, IORING_FEAT_NODROP);
SAME(SR_URING_FEAT_SUBMIT_STABLE, IORING_FEAT_SUBMIT_STABLE);
SAME(SR_URING_FEAT_RW_CUR_POS, IORING_FEAT_RW_CUR_POS);
SAME(SR_URING_FEAT_CUR_PERSONALITY, IORING_FEAT_CUR_PERSONALITY);
SAME(SR_URING_FEAT_FAST_POLL, IORING_FEAT_FAST_POLL);
SAME(SR_URING_FEAT_POLL_32BITS, IORING_FEAT_POLL_32BITS);
SAME(SR_URING_FEAT_SQPOLL_NONFIXED, IORING_FEAT_SQPOLL_NONFIXED);
SAME(SR_URING_FEAT_EXT_ARG, IORING_FEAT_EXT_ARG);
SAME(SR_URING_FEAT_NATIVE_WORKERS, IORING_FEAT_NATIVE_WORKERS);
SAME(SR_URING_FEAT_RSRC_TAGS, IORING_FEAT_RSRC_TAGS);
SAME(SR_URING_FEAT_CQE_SKIP, IORING_FEAT_CQE_SKIP);
SAME(SR_URING_FEAT_LINKED_FILE, IORING_FEAT_LINKED_FILE);
SAME(SR_URING_OFF_SQ_RING, IORING_OFF_SQ_RING);
SAME(SR_URING_OFF_CQ_RING, IORING_OFF_CQ_RING);
SAME(SR_URING_OFF_SQES, IORING_OFF_SQES);
SAME(SR_URING_REGISTER_BUFFERS, IORING_REGISTER_BUFFERS);
SAME(SR_URING_UNREGISTER_BUFFERS, IORING_UNREGISTER_BUFFERS);
SAME(SR_URING_OP_SUPPORTED, IO_URING_OP_SUPPORTED);
SAME(SR_URING_REGISTER_FILES, IORING_REGISTER_FILES);
SAME(SR_URING_UNREGISTER_FILES, IORING_UNREGISTER_FILES);
SAME(SR_URING_REGISTER_EVENTFD, IORING_REGISTER_EVENTFD);
SAME(SR_URING_UNREGISTER_EVENTFD, IORING_UNREGISTER_EVENTFD);
SAME(SR_URING_REGISTER_FILES_UPDATE, IORING_REGISTER_FILES_UPDATE);
SAME(SR_URING_REGISTER_EVENTFD_ASYNC, IORING_REGISTER_EVENTFD_ASYNC);
SAME(SR_URING_REGISTER_PROBE, IORING_REGISTER_PROBE);
SAME(SR_URING_REGISTER_ENABLE_RINGS, IORING_REGISTER_ENABLE_RINGS);
SAME(SR_URING_REGISTER_FILES2, IORING_REGISTER_FILES2);
SAME(SR_URING_REGISTER_FILES_UPDATE2, IORING_REGISTER_FILES_UPDATE2);
SAME(SR_URING_REGISTER_BUFFERS2, IORING_REGISTER_BUFFERS2);
SAME(SR_URING_REGISTER_BUFFERS_UPDATE, IORING_REGISTER_BUFFERS_UPDATE);
SAME(SR_URING_REGISTER_IOWQ_AFF, IORING_REGISTER_IOWQ_AFF);
SAME(SR_URING_UNREGISTER_IOWQ_AFF, IORING_UNREGISTER_IOWQ_AFF);
SAME(SR_URING_REGISTER_IOWQ_MAX_WORKERS, IORING_REGISTER_IOWQ_MAX_WORKERS);
SAME(SR_URING_REGISTER_PBUF_RING, IORING_REGISTER_PBUF_RING);
SAME(SR_URING_UNREGISTER_PBUF_RING, IORING_UNREGISTER_PBUF_RING);
SAME(SR_URING_REGISTER_SYNC_CANCEL, IORING_REGISTER_SYNC_CANCEL);
SAME(SR_URING_REGISTER_FILE_ALLOC_RANGE, IORING_REGISTER_FILE_ALLOC_RANGE);
SAME(SR_URING_REGISTER_FILES_SKIP, IORING_REGISTER_FILES_SKIP);

SAME_SIZE(sr_uring_sqe, io_uring_sqe);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, opcode);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, flags);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, ioprio);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, fd);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, off);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, addr2);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, addr);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, splice_off_in);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, len);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, rw_flags);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, splice_flags);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, user_data);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, buf_index);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, buf_group);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, personality);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, splice_fd_in);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, file_index);
SAME_PLACE(sr_uring_sqe, io_uring_sqe, addr3);
SAME_SIZE(sr_uring_cqe, io_uring_cqe);
SAME_PLACE(sr_uring_cqe, io_uring_cqe, user_data);
SAME_PLACE(sr_uring_cqe, io_uring_cqe, res);
SAME_PLACE(sr_uring_cqe, io_uring_cqe, flags);
SAME_SIZE(sr_uring_sq_offsets, io_sqring_offsets);
SAME_PLACE(sr_uring_sq_offsets, io_sqring_offsets, head);
SAME_PLACE(sr_uring_sq_offsets, io_sqring_offsets, ring_mask);
SAME_PLACE(sr_uring_sq_offsets, io_sqring_offsets, ring_entries);
SAME_PLACE(sr_uring_sq_offsets, io_sqring_offsets, flags);
SAME_PLACE(sr_uring_sq_offsets, io_sqring_offsets, dropped);
SAME_PLACE(sr_uring_sq_offsets, io_sqring_offsets, array);
SAME_SIZE(sr_uring_cq_offsets, io_cqring_offsets);
SAME_PLACE(sr_uring_cq_offsets, io_cqring_offsets, head);
SAME_PLACE(sr_uring_cq_offsets, io_cqring_offsets, ring_mask);
SAME_PLACE(sr_uring_cq_offsets, io_cqring_offsets, ring_entries);
SAME_PLACE(sr_uring_cq_offsets, io_cqring_offsets, overflow);
SAME_PLACE(sr_uring_cq_offsets, io_cqring_offsets, cqes);
SAME_PLACE(sr_uring_cq_offsets, io_cqring_offsets, flags);
SAME_SIZE(sr_uring_params, io_uring_params);
SAME_PLACE(sr_uring_params, io_uring_params, sq_entries);
SAME_PLACE(sr_uring_params, io_uring_params, cq_entries);
SAME_PLACE(sr_uring_params, io_uring_params, flags);
SAME_PLACE(sr_uring_params, io_uring_params, sq_thread_cpu);
SAME_PLACE(sr_uring_params, io_uring_params, sq_thread_idle);
SAME_PLACE(sr_uring_params, io_uring_params, features);
SAME_PLACE(sr_uring_params, io_uring_params, wq_fd);
SAME_PLACE(sr_uring_params, io_uring_params, sq_off);
SAME_PLACE(sr_uring_params, io_uring_params, cq_off);
SAME_SIZE(sr_uring_getevents_arg, io_uring_getevents_arg);
SAME_PLACE(sr_uring_getevents_arg, io_uring_getevents_arg, sigmask);
SAME_PLACE(sr_uring_getevents_arg, io_uring_getevents_arg, sigmask_sz);
SAME_PLACE(sr_uring_getevents_arg, io_uring_getevents_arg, ts);
SAME_SIZE(sr_uring_rsrc_register, io_uring_rsrc_register);
SAME_PLACE(sr_uring_rsrc_register, io_uring_rsrc_register, nr);
SAME_PLACE(sr_uring_rsrc_register, io_uring_rsrc_register, flags);
SAME_PLACE(sr_uring_rsrc_register, io_uring_rsrc_register, data);
SAME_PLACE(sr_uring_rsrc_register, io_uring_rsrc_register, tags);
SAME_SIZE(sr_uring_rsrc_update, io_uring_rsrc_update);
SAME_PLACE(sr_uring_rsrc_update, io_uring_rsrc_update, offset);
SAME_PLACE(sr_uring_rsrc_update, io_uring_rsrc_update, data);
SAME_SIZE(sr_uring_probe_op, io_uring_probe_op);
SAME_PLACE(sr_uring_probe_op, io_uring_probe_op, op);
SAME_PLACE(sr_uring_probe_op, io_uring_probe_op, flags);
SAME_SIZE(sr_uring_probe, io_uring_probe);
SAME_PLACE(sr_uring_probe, io_uring_probe, last_op);
SAME_PLACE(sr_uring_probe, io_uring_probe, ops_len);
SAME_SIZE(sr_uring_buf, io_uring_buf);
SAME_PLACE(sr_uring_buf, io_uring_buf, addr);
SAME_PLACE(sr_uring_buf, io_uring_buf, len);
SAME_PLACE(sr_uring_buf, io_uring_buf, bid);
SAME_SIZE(sr_uring_buf_reg, io_uring_buf_reg);
SAME_PLACE(sr_uring_buf_reg, io_uring_buf_reg, ring_addr);
SAME_PLACE(sr_uring_buf_reg, io_uring_buf_reg, ring_entries);
SAME_PLACE(sr_uring_buf_reg, io_uring_buf_reg, bgid);
SAME_SIZE(sr_uring_sync_cancel_reg, io_uring_sync_cancel_reg);
SAME_PLACE(sr_uring_sync_cancel_reg, io_uring_sync_cancel_reg, addr);
SAME_PLACE(sr_uring_sync_cancel_reg, io_uring_sync_cancel_reg, fd);
SAME_PLACE(sr_uring_sync_cancel_reg, io_uring_sync_cancel_reg, flags);
SAME_PLACE(sr_uring_sync_cancel_reg, io_uring_sync_cancel_reg, timeout);
_Static_assert(offsetof(struct sr_uring_buf, tail) == offsetof(struct io_uring_buf_ring, tail),
	       "tail");

int main(void)
{
	printf("1..1\nok 1 - io_uring's interface is the kernel's\n"); /* the compiler has compared
									  it */
	return 0;
}
