/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opened_file.h: what the record of a call that opens a file says about it, besides the descriptor.
 * The recorder fills it in (shim/files/inputs.h), a replay finds the content by it
 * (shim/files/private.h).
 */
#ifndef SHIM_CORE_OPENED_FILE_H
#define SHIM_CORE_OPENED_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* What kind of file the program has opened. Part of the trace format. */
enum sr_fd_class {
	SR_FD_PLAIN,   /* a directory, /dev/null, ...: not captured */
	SR_FD_OUTSIDE, /* a device, a FIFO, /proc, /sys, ...: captured */
	SR_FD_FILE,    /* a regular file: not captured */
	/*
	 * What standard output or error leads to, opened for writing (/dev/stdout): not captured.
	 * The size is the number of that descriptor.
	 */
	SR_FD_OUTPUT,
	SR_FD_MEMORY, /* the process's own memory: captured; a replay writes to it again */
};

struct sr_opened_file {
	uint32_t class; /* enum sr_fd_class */
	/* The note of its content in the trace's list of files; 0: there is none. */
	uint32_t note;
	uint64_t key;  /* the same for the same file, whatever its names */
	uint64_t size; /* after it was opened */
	bool own;      /* the program had it open for writing before, or has truncated it */
	bool shared;   /* other ranks of the job may write it as well: what is read there is recorded (sr_fd_capture_file) */
	/* Its full path, without links; of regular files and directories.  "": too long. */
	char path[320];
};

#endif
