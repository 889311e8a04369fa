/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm.h: the kernel's character device /dev/infiniband/rdma_cm, made in the process itself, so
 * that an unmodified librdmacm runs on the software device.
 *
 * This part of libsoftdev_files.so defines write(), close() and fstat() itself. The functions
 * that open files are defined in ../files, which calls softdev_cm_open(). Any thread may call it.
 */
#ifndef SOFTDEV_CM_H
#define SOFTDEV_CM_H

/* What open() returns: a descriptor, or -1 with errno set; -2 if the path is not this device's. */
int softdev_cm_open(const char *path, int flags);

#endif
