/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * early_allocator.c: replaces malloc() by one that reads a clock and random numbers when it is first used, as jemalloc and
 * mimalloc do, finds pthread_create by RTLD_NEXT for a thread of its own (jemalloc), and has libc's other names, too
 * (mimalloc).
 */
#include "early_allocator.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define ROOM  (16u << 20)
#define ALIGN 64

struct early_allocator early_allocator;

void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
void *memalign(size_t align, size_t n);
void free(void *p);
void *__libc_malloc(size_t n);
void __libc_free(void *p);

static _Alignas(ALIGN) char room[ROOM];
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void begin(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	early_allocator.began = now.tv_sec * 1000000000ll + now.tv_nsec;
	if (getrandom(&early_allocator.seed, sizeof(early_allocator.seed), 0) < 0)
		early_allocator.seed = 1;
}

/* The block's size stands in front of it. */
void *malloc(size_t n)
{
	size_t at;

	pthread_mutex_lock(&lock);
	if (!used)
		begin();
	at = used + ALIGN;
	used = (at + n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	pthread_mutex_unlock(&lock);
	if (used > ROOM)
		return NULL;
	*(size_t *)(room + at - sizeof(n)) = n;
	return room + at;
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size);
}

void *realloc(void *p, size_t n)
{
	void *q = malloc(n);
	size_t old = p ? ((size_t *)p)[-1] : 0;

	return q && p ? memcpy(q, p, old < n ? old : n) : q;
}

void *memalign(size_t align, size_t n)
{
	return align <= ALIGN ? malloc(n) : NULL;
}

void free(void *p)
{
}

void *__libc_malloc(size_t n)
{
	return malloc(n);
}

void __libc_free(void *p)
{
}

static void *in_background(void *now)
{
	clock_gettime(CLOCK_MONOTONIC, now);
	return NULL;
}

int early_allocator_thread(struct timespec *now)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
	    (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
	pthread_t t;

	return create && !create(&t, NULL, in_background, now) ? pthread_join(t, NULL) : -1;
}
