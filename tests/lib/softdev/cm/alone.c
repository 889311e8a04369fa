/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * alone.c: what librdmacm needs besides the connection manager, for the test of that alone: the
 * function that opens its device, and the functions that libibverbs has for librdmacm only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "internal.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int open(const char *path, int flags, ...)
{
	int fd = softdev_cm_open(path, flags);
	unsigned int mode;
	va_list list;

	if (fd != -2)
		return fd;
	va_start(list, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, unsigned int) : 0;
	va_end(list);
	fd = (int)cm_sys(SYS_openat, AT_FDCWD, path, flags, mode);
	if (fd < 0)
		errno = -fd;
	return fd < 0 ? -1 : fd;
}

EXPORT int open64(const char *path, int flags, ...) __attribute__((alias("open")));

/* Declared by headers that libibverbs does not install. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

EXPORT const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

EXPORT int ibv_read_sysfs_file(const char *directory, const char *file, char *text, size_t size)
{
	if (strcmp(file, "class/misc/rdma_cm/abi_version") || size < 2)
		return -1;
	memcpy(text, "4", 2);
	return 1;
}

EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from)
{
	*to = (struct ibv_ah_attr){.is_global = from->is_global, .port_num = from->port_num};
	memcpy(&to->grh.dgid, from->grh.dgid, sizeof(to->grh.dgid));
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
}

EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from)
{
	to->path_mtu = (enum ibv_mtu)from->path_mtu;
	to->qkey = from->qkey;
	to->rq_psn = from->rq_psn;
	to->sq_psn = from->sq_psn;
	to->dest_qp_num = from->dest_qp_num;
	to->qp_access_flags = from->qp_access_flags;
	ibv_copy_ah_attr_from_kern(&to->ah_attr, &from->ah_attr);
	to->max_rd_atomic = from->max_rd_atomic;
	to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	to->min_rnr_timer = from->min_rnr_timer;
	to->port_num = from->port_num;
	to->timeout = from->timeout;
	to->retry_cnt = from->retry_cnt;
	to->rnr_retry = from->rnr_retry;
}

/* For kernels without AF_IB only. */
EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(&to->dgid, from->dgid, sizeof(to->dgid));
	memcpy(&to->sgid, from->sgid, sizeof(to->sgid));
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}
