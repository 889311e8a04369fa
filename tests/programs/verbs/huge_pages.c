/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * huge_pages.c: registers memory for which it asked in huge pages, as UCX does for its buffers: anonymous, and System V's.
 *
 *	huge_pages
 *
 * Exit status: 3; 1: the kernel has no huge pages.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

#define HUGE (2ul << 20)

static void *need(void *memory)
{
	if (memory == MAP_FAILED)
		exit(1);
	return memory;
}

static void *of_segment(void)
{
	int id = shmget(IPC_PRIVATE, HUGE, IPC_CREAT | SHM_HUGETLB | 0600);
	void *memory = shmat(id, NULL, 0);

	shmctl(id, IPC_RMID, NULL);
	return need(memory);
}

int main(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
	void *memory[] = {need(mmap(NULL, HUGE, PROT_READ | PROT_WRITE, flags, -1, 0)), of_segment()};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	for (size_t i = 0; pd && i < sizeof(memory) / sizeof(memory[0]); i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, memory[i], HUGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		memset(memory[i], 'a', HUGE);
		printf("%d: %c at %p\n", mr != NULL, ((char *)memory[i])[HUGE - 1], memory[i]);
	}
	return 3;
}
