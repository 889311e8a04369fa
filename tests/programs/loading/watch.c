/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch.c: a program that watches mappings come and go (watch_next.c), its own and those of the
 * verbs library.  On the stand-in, whose completion queues are mapped.
 */
#include <stdio.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>

int watched_maps(void);
int watched_unmaps(void);
int watch_is_found(void);

static void tell(const char *what)
{
	static int maps, unmaps;

	printf("%s: %d mapped, %d unmapped\n", what, watched_maps() - maps, watched_unmaps() - unmaps);
	maps = watched_maps();
	unmaps = watched_unmaps();
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_cq *cq;
	void *p;

	if (!context)
		return 1;
	setbuf(stdout, NULL);
	tell("until here");
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	tell("the program's own");
	munmap(p, 4096);
	tell("and back");
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	tell("a completion queue");
	if (!cq || ibv_destroy_cq(cq) || ibv_close_device(context))
		return 1;
	tell("and back");
	ibv_free_device_list(list);
	printf("found: %d\n", watch_is_found());
	return 3;
}
