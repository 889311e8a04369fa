/* SPDX-License-Identifier: BSD-2-Clause */
/* own_allocator.c: replaces malloc() by one that takes locks and reads clocks, as jemalloc does.  A library. */
#include <pthread.h>
#include <stddef.h>
#include <time.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
void free(void *p);
void flush(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void begin(void)
{
	static unsigned int operations;
	struct timespec now;

	pthread_mutex_lock(&lock);
	if (++operations % 64 == 0)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

void *malloc(size_t n)
{
	void *p;

	begin();
	p = __libc_malloc(n);
	pthread_mutex_unlock(&lock);
	return p;
}

void *calloc(size_t n, size_t size)
{
	void *p;

	begin();
	p = __libc_calloc(n, size);
	pthread_mutex_unlock(&lock);
	return p;
}

void *realloc(void *p, size_t n)
{
	begin();
	p = __libc_realloc(p, n);
	pthread_mutex_unlock(&lock);
	return p;
}

void free(void *p)
{
	begin();
	__libc_free(p);
	pthread_mutex_unlock(&lock);
}

/* Past malloc(): what a thread does with its cache as it ends. */
void flush(void)
{
	struct timespec now;

	begin();
	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_unlock(&lock);
}
