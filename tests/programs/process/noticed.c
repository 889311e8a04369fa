/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * noticed.c: what a recorded program can notice (docs/user/limits.md), as lines "NAME NUMBER".
 *
 *   noticed memory | stacks | verbs | rings
 */
#include <linux/io_uring.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define LARGE	    (8 << 20)
#define STACK_BYTES (256 << 10)

/* Bytes below main's frame that are not zero; called first of all, and calls nothing. */
static inline __attribute__((always_inline)) long dirty_below(void)
{
	const volatile unsigned char *frame = __builtin_frame_address(0);
	long dirty = 0;

	for (long i = 4096; i > 512; i--)
		dirty += frame[-i] != 0;
	return dirty;
}

static void *allocate(void *size)
{
	return malloc((size_t)size);
}

static int memory(long dirty)
{
	/* volatile: else the compiler leaves out what is not used. */
	char *volatile large = malloc(LARGE);
	void *other, *own = malloc(100);
	struct mallinfo2 info = mallinfo2();
	pthread_t thread;
	intptr_t apart;

	pthread_create(&thread, NULL, allocate, (void *)100);
	pthread_join(thread, &other);
	apart = (intptr_t)other - (intptr_t)own;
	printf("dirty %ld\nmappings %zu\none_arena %d\n", dirty, info.hblks,
	       apart < 8 * LARGE && apart > -8 * LARGE);
	free(large);
	free(other);
	free(own);
	return 0;
}

struct stack {
	void *low;
	size_t size, guard;
};

static void *describe(void *argument)
{
	struct stack *s = argument;
	pthread_attr_t a;

	pthread_getattr_np(pthread_self(), &a);
	pthread_attr_getstack(&a, &s->low, &s->size);
	pthread_attr_getguardsize(&a, &s->guard);
	pthread_attr_destroy(&a);
	return NULL;
}

static int stacks(long dirty)
{
	struct stack s[2];
	pthread_attr_t a;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	for (int i = 0; i < 2; i++) {
		pthread_t thread;

		pthread_create(&thread, &a, describe, &s[i]);
		pthread_join(thread, NULL);
	}
	printf("more %zd\nguard %zu\nused_again %d\n", (ssize_t)s[0].size - STACK_BYTES, s[0].guard,
	       s[0].low == s[1].low);
	return 0;
}

static int verbs(long dirty)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 10, NULL, NULL, 0) : NULL;

	if (!cq)
		return 1;
	printf("cqe %d\n", cq->cqe);
	ibv_destroy_cq(cq);
	ibv_close_device(context);
	ibv_free_device_list(devices);
	return 0;
}

/* Those of io_uring lie where the kernel wants, and nowhere else. */
static int rings(long dirty)
{
	struct io_uring_params params = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);
	void *ring;

	(void)dirty;
	/* Many sandboxes have none. */
	printf("none %d\n", fd < 0);
	if (fd < 0)
		return 0;
	ring = mmap(NULL, params.sq_off.array + params.sq_entries * sizeof(uint32_t), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
	printf("mapped %d\n", ring != MAP_FAILED);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	long dirty = dirty_below();
	static const struct {
		const char *name;
		int (*run)(long dirty);
	} parts[] = {{"memory", memory}, {"stacks", stacks}, {"verbs", verbs}, {"rings", rings}};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (argc == 2 && !strcmp(argv[1], parts[i].name))
			return parts[i].run(dirty);
	return 2;
}
