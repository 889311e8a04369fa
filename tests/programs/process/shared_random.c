/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_random.c: two processes of some threads do random things to memory that they share.
 *
 *     shared_random NAME 0|1 THREADS STEPS SEED
 *
 * What each thread does depends on the seed only; what it finds there goes into a number, which it prints at its end.  After
 * some steps all threads of both processes wait for each other, in a loop without calls.
 */
#include <emmintrin.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define THREADS_MAX 16
#define WORDS       512
#define BYTES       8192u
#define TOGETHER    200 /* steps */

struct shared {
	_Atomic uint64_t word[WORDS];
	_Atomic uint64_t arrived; /* on a page with the first bytes */
	char bytes[BYTES];
};

struct thread {
	pthread_t id;
	uint64_t random, found;
};

static struct shared *shared;
static struct thread threads[THREADS_MAX];
static uint64_t threads_n, steps;

static uint64_t draw(struct thread *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

static void found(struct thread *t, uint64_t value)
{
	t->found = t->found * 31 + value;
}

static void do_word(struct thread *t, _Atomic uint64_t *w, uint64_t what, uint64_t value)
{
	uint64_t old = 0;
	__m128i v;

	switch (what) {
	case 0:
		*w = value;
		break;
	case 1:
		found(t, *w);
		break;
	case 2:
		found(t, atomic_fetch_add(w, 3));
		break;
	case 3:
		found(t, atomic_exchange(w, value));
		break;
	case 4:
		old = *w;
		found(t, atomic_compare_exchange_strong(w, &old, value));
		found(t, old);
		break;
	case 5:
		v = _mm_loadu_si128((void *)w);
		found(t, (uint64_t)v[0] + 7 * (uint64_t)v[1]);
		break;
	case 6:
		_mm_storeu_si128((void *)w, _mm_set_epi64x((long long)value, (long long)~value));
		break;
	default:
		*(volatile uint32_t *)w += 5;
		found(t, *(volatile uint8_t *)w);
	}
}

/* The bytes lie anywhere, over two pages as well. */
static void do_bytes(struct thread *t, uint64_t what, uint64_t value)
{
	size_t n = 8 + (value >> 40) % 90;
	char *at = shared->bytes + value % (BYTES / 2), bytes[100];

	switch (what) {
	case 0:
		memset(bytes, (int)value, sizeof(bytes));
		memcpy(at, bytes, n);
		break;
	case 1:
		memcpy(bytes, at, n);
		for (size_t i = 0; i < n; i++)
			found(t, (uint64_t)bytes[i]);
		break;
	case 2:
		for (size_t i = 0; i < n; i++)
			((volatile char *)at)[i] = (char)(value + i);
		break;
	default:
		memset(at, (int)value, (value >> 40) % 3000);
	}
}

/* The recorder does not decode these: a copy that goes backwards, and scattered words. */
static void copy_backwards(uint64_t value)
{
	const _Atomic uint64_t *from = &shared->word[value % (WORDS - 8) + 8];
	char *to = shared->bytes + value % (BYTES - 80) + 72;
	uint64_t n = 1 + (value >> 40) % 8;

	__asm__ volatile("std\n rep movsq\n cld" : "+S"(from), "+D"(to), "+c"(n) : : "memory");
}

__attribute__((target("avx512f"))) static void scatter(uint64_t value)
{
	uint64_t at[8];

	for (int i = 0; i < 8; i++)
		at[i] = (value >> 6 * i) % WORDS;
	__asm__ volatile("vpbroadcastq %1, %%zmm1\n vmovdqu64 %2, %%zmm2\n kxnorw %%k1, %%k1, %%k1\n"
			 " vpscatterqq %%zmm1, (%0,%%zmm2,8)%{%%k1%}"
			 : : "r"(shared->word), "r"(value), "m"(at) : "xmm1", "xmm2", "k1", "memory");
}

static void do_undecoded(uint64_t value)
{
	if (value >> 63 && __builtin_cpu_supports("avx512f"))
		scatter(value);
	else
		copy_backwards(value);
}

static void wait_for_all(struct thread *t, uint64_t round)
{
	atomic_fetch_add(&shared->arrived, 1);
	while (shared->arrived < round * 2 * threads_n)
		if (t->random & 1)
			_mm_pause();
}

static void *run(void *of)
{
	struct thread *t = of;

	for (uint64_t i = 1; i <= steps; i++) {
		uint64_t r = draw(t);

		/* While one executes, other threads use its pages unseen. */
		if (threads_n == 1 && r >> 60 == 0)
			do_undecoded(draw(t));
		else if (r % 12 < 8)
			do_word(t, &shared->word[r / 16 % 64 * (r & 1024 ? 1 : 7)], r % 12, draw(t));
		else
			do_bytes(t, r % 12 - 8, draw(t));
		if (i % TOGETHER == 0)
			wait_for_all(t, i / TOGETHER);
	}
	return NULL;
}

static struct shared *map(const char *name)
{
	int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	void *p = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(struct shared)))
		p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return check(p == MAP_FAILED ? NULL : p, name);
}

int main(int argc, char **argv)
{
	uint64_t seed, me;

	if (argc != 6 || atoi(argv[3]) < 1 || atoi(argv[3]) > THREADS_MAX)
		return 2;
	shared = map(argv[1]);
	me = strtoull(argv[2], NULL, 0);
	threads_n = strtoull(argv[3], NULL, 0);
	steps = strtoull(argv[4], NULL, 0);
	seed = strtoull(argv[5], NULL, 0);
	for (uint64_t i = 0; i < threads_n; i++)
		threads[i].random = 88172645463325252u + 977 * (me * THREADS_MAX + i) + seed * 1000003;
	for (uint64_t i = 1; i < threads_n; i++)
		pthread_create(&threads[i].id, NULL, run, &threads[i]);
	run(&threads[0]);
	for (uint64_t i = 1; i < threads_n; i++)
		pthread_join(threads[i].id, NULL);
	for (uint64_t i = 0; i < threads_n; i++)
		printf("%d.%d %016llx\n", (int)me, (int)i, (unsigned long long)threads[i].found);
	return 0;
}
