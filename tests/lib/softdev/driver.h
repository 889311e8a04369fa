/* SPDX-License-Identifier: BSD-2-Clause */
/* driver.h: the process that executes what no process's own calls execute in time. */
#ifndef SOFTDEV_DRIVER_H
#define SOFTDEV_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

/* The value of SOFTDEV_LINK that makes the device one of InfiniBand. */
#define SD_INFINIBAND "infiniband"

/* Makes the fabric in this directory, and what its processes connect to.  0, or -errno. */
int sd_driver_begin(const char *directory);

/* Drives until `signals`, a signalfd, can be read. */
void sd_driver_run(int signals);

struct sd_driver_report {
	uint64_t executed, driven; /* requests: all, and by the driver */
	double cpu_seconds;
};

struct sd_driver_report sd_driver_report(void);

#endif
