/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confine.h: the sandbox in which the programs of strangers' traces run.
 *
 * They may read what the user may read, and change nothing but themselves and the files of their own replay: no
 * network, no other process, no device, no mode or owner of a file.  It is made by Landlock and a
 * filter of system calls, so it needs neither root nor user name spaces, and a program cannot leave
 * it.  It does not keep a program from using processor time and memory, or from printing.
 *
 * In the command, and in the child that becomes the program.
 */
#ifndef REPLAY_HOST_START_CONFINE_H
#define REPLAY_HOST_START_CONFINE_H

#include <stdbool.h>

/* NULL: this kernel can; or why not. */
const char *sr_confine_obstacle(void);

/*
 * Confines this process and what it executes.  writable: a directory in which it may write, or -1.
 * False after a message.
 */
bool sr_confine_enter(int writable);

#endif
