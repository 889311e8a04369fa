/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/ipc.h"

#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "shim/core/engine.h"

/* Of those that a 32-bit libc calls, another bit tells the version of the structures. */
#define COMMAND 0xff
/* SEMMSL of the kernel (linux/sem.h). */
#define SEMAPHORES_MOST 32000

size_t sr_msgctl_answer_size(int command)
{
	switch (command & COMMAND) {
	case IPC_STAT:
	case MSG_STAT:
	case MSG_STAT_ANY:
		return sizeof(struct msqid_ds);
	case IPC_INFO:
	case MSG_INFO:
		return sizeof(struct msginfo);
	default:
		return 0;
	}
}

static size_t semaphores_of(int id)
{
	struct semid_ds ds;

	if (sr_engine && sr_engine->replays)
		return SEMAPHORES_MOST;
	return sr_syscall(SYS_semctl, id, 0, IPC_STAT, SR_ARG(&ds), 0, 0) ? 0 : ds.sem_nsems;
}

size_t sr_semctl_answer_size(int id, int command)
{
	switch (command & COMMAND) {
	case IPC_STAT:
	case SEM_STAT:
	case SEM_STAT_ANY:
		return sizeof(struct semid_ds);
	case IPC_INFO:
	case SEM_INFO:
		return sizeof(struct seminfo);
	case GETALL:
		return semaphores_of(id) * sizeof(unsigned short);
	default:
		return 0;
	}
}

size_t sr_shmctl_answer_size(int command)
{
	switch (command & COMMAND) {
	case IPC_STAT:
	case SHM_STAT:
	case SHM_STAT_ANY:
		return sizeof(struct shmid_ds);
	case IPC_INFO:
		return sizeof(struct shminfo);
	case SHM_INFO:
		return sizeof(struct shm_info);
	default:
		return 0;
	}
}
