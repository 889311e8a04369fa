/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ipc.h: how many bytes the control calls of System V's queues, semaphores and shared memory write, by their command
 * (msgctl(2), semctl(2), shmctl(2)); 0: none.  Any thread.
 */
#ifndef SHIM_PROCESS_IPC_H
#define SHIM_PROCESS_IPC_H

#include <stddef.h>

size_t sr_msgctl_answer_size(int command);
/* id: of the set, which a recording asks for its size; a replay has no set, and gets the most that one may have. */
size_t sr_semctl_answer_size(int id, int command);
size_t sr_shmctl_answer_size(int command);

#endif
