/* SPDX-License-Identifier: BSD-2-Clause */
/* proc.h: what the kernel says of another process in /proc.  Any thread. */
#ifndef LOGD_SERVICE_PROC_H
#define LOGD_SERVICE_PROC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The name of a file in /proc/PID. */
void proc_name(char *name, size_t size, pid_t pid, const char *file);

/* The content of such a file, malloc'ed and 0-terminated; NULL with errno set. */
char *proc_read(pid_t pid, const char *file, size_t *size);

/*
 * When the process began, in clock ticks since boot: two processes with the same
 * pid differ in it.  0: there is no such process.
 */
uint64_t process_start_ticks(pid_t pid);

/* Makes a path that is relative to the process's directory absolute.  0 or -errno. */
int process_path(pid_t pid, const char *path, char *absolute, size_t size);

#endif
