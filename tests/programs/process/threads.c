/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads.c: threads that contend on everything there is to contend on, and print
 * who got what when.  Bare, each run prints something else; a recording and its
 * replay must print the same.
 *
 *     threads [-t THREADS] [-n ROUNDS] [CASE...]
 *
 * Without a case: all of them, and then all at the same time.
 *
 * It asks libibverbs for devices (there need be none), so that the shim takes it
 * for an RDMA program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MAX_THREADS 64

static int n_threads = 8, rounds = 50;

/* What threads saw, in the order in which they saw it; each under a lock of the case's own. */
struct story {
	uint64_t hash;
	uint64_t events;
};

static void tell(struct story *s, uint64_t what)
{
	s->hash = (s->hash ^ what) * 0x100000001b3u + s->events++;
}

static void print_story(const char *name, const struct story *s)
{
	printf("%-10s %5llu events %016llx\n", name, (unsigned long long)s->events,
	       (unsigned long long)s->hash);
}

/* Different work in each thread and round, so that they meet in different ways. */
static void work(int me, int i)
{
	volatile unsigned int sink = 0;

	for (int n = (me * 37 + i * 11) % 200; n > 0; n--)
		sink += (unsigned int)n;
	if ((me + i) % 7 == 0)
		sched_yield();
}

static struct timespec soon(clockid_t clock, long ns)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ns;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

/* ------------------------------------------------------------------- locks */

static struct story locks_story;
static pthread_mutex_t mutexes[5];
static pthread_spinlock_t spin;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void init_mutex(int i, int type, int robust)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	if (robust)
		pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutexes[i], &attr);
	pthread_mutexattr_destroy(&attr);
}

static void init_locks(void)
{
	init_mutex(0, PTHREAD_MUTEX_NORMAL, 0);
	init_mutex(1, PTHREAD_MUTEX_RECURSIVE, 0);
	init_mutex(2, PTHREAD_MUTEX_ERRORCHECK, 0);
	init_mutex(3, PTHREAD_MUTEX_ADAPTIVE_NP, 0);
	init_mutex(4, PTHREAD_MUTEX_NORMAL, 1);
	pthread_spin_init(&spin, 0);
}

static int take(pthread_mutex_t *m, int how)
{
	struct timespec until;

	switch (how) {
	case 0:
		return pthread_mutex_lock(m);
	case 1:
		return pthread_mutex_trylock(m);
	case 2:
		until = soon(CLOCK_REALTIME, 20000);
		return pthread_mutex_timedlock(m, &until);
	default:
		until = soon(CLOCK_MONOTONIC, 20000);
		return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &until);
	}
}

static void one_mutex(int me, int i, struct story *own)
{
	pthread_mutex_t *m = &mutexes[(me + i) % 5];
	int err = take(m, (me / 2 + i) % 4);

	tell(own, (uint64_t)err);
	if (err)
		return;
	if ((me + i) % 5 == 1) {
		tell(own, (uint64_t)pthread_mutex_lock(m));
		pthread_mutex_unlock(m);
	} else if ((me + i) % 5 == 2) {
		tell(own, (uint64_t)pthread_mutex_lock(m)); /* EDEADLK */
	}
	pthread_spin_lock(&spin);
	tell(&locks_story, (uint64_t)me);
	pthread_spin_unlock(&spin);
	work(me, i);
	pthread_mutex_unlock(m);
}

static int shared_value;

static void one_rwlock(int me, int i, struct story *own)
{
	struct timespec until = soon(CLOCK_REALTIME, 30000);
	int write = (me + i) % 3 == 0, err;

	if (i % 4 == 0)
		err = write ? pthread_rwlock_trywrlock(&rwlock) : pthread_rwlock_tryrdlock(&rwlock);
	else if (i % 4 == 1)
		err = write ? pthread_rwlock_timedwrlock(&rwlock, &until)
			    : pthread_rwlock_timedrdlock(&rwlock, &until);
	else
		err = write ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock);
	tell(own, (uint64_t)err);
	if (err)
		return;
	if (write)
		shared_value = shared_value * 31 + me;
	else
		tell(own, (uint64_t)shared_value);
	work(me, i);
	pthread_rwlock_unlock(&rwlock);
}

static void one_spin(int me, int i, struct story *own)
{
	int tries = 0;

	while (pthread_spin_trylock(&spin))
		tries++;
	tell(&locks_story, (uint64_t)me + 100);
	pthread_spin_unlock(&spin);
	tell(own, (uint64_t)tries);
}

static void locks(int me, struct story *own)
{
	for (int i = 0; i < rounds; i++) {
		one_mutex(me, i, own);
		one_rwlock(me, i, own);
		one_spin(me, i, own);
	}
}

/* A thread ends with a robust mutex, and the next one is told. */
static pthread_mutex_t robust;

static void *die_with_lock(void *unused)
{
	pthread_mutex_lock(&robust);
	return NULL;
}

static void robust_case(struct story *s)
{
	pthread_mutexattr_t attr;
	pthread_t t;
	int err;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attr);
	pthread_create(&t, NULL, die_with_lock, NULL);
	pthread_join(t, NULL);
	err = pthread_mutex_lock(&robust);
	printf("robust     %s\n", strerrorname_np(err));
	pthread_mutex_consistent(&robust);
	pthread_mutex_unlock(&robust);
	printf("robust     %s", pthread_mutex_trylock(&robust) ? "held" : "taken");
	printf(" %s\n", pthread_mutex_destroy(&robust) == EBUSY ? "busy" : "destroyed");
	tell(s, (uint64_t)err);
}

/* ------------------------------------------------------- condition variables */

#define QUEUE 4
static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_room = PTHREAD_COND_INITIALIZER, queue_item = PTHREAD_COND_INITIALIZER;
static int queue[QUEUE], queue_used, queue_taken;
static struct story queue_story;

static void produce(int me, int i)
{
	pthread_mutex_lock(&queue_mutex);
	while (queue_used == QUEUE)
		pthread_cond_wait(&queue_room, &queue_mutex);
	queue[queue_used++] = me * 1000 + i;
	pthread_cond_signal(&queue_item);
	pthread_mutex_unlock(&queue_mutex);
}

static void consume(int me, struct story *own)
{
	struct timespec until;
	int err = 0;

	pthread_mutex_lock(&queue_mutex);
	while (!queue_used) {
		until = soon(CLOCK_REALTIME, 50000);
		err = pthread_cond_timedwait(&queue_item, &queue_mutex, &until);
		tell(own, (uint64_t)err);
	}
	tell(&queue_story, (uint64_t)(queue[--queue_used] * 100 + me));
	queue_taken++;
	pthread_cond_broadcast(&queue_room);
	pthread_mutex_unlock(&queue_mutex);
}

static void conditions(int me, struct story *own)
{
	/* An odd one out would wait for ever. */
	if (n_threads % 2 && me == n_threads - 1)
		return;
	for (int i = 0; i < rounds; i++) {
		if (me % 2)
			consume(me, own);
		else
			produce(me, i);
	}
}

/* --------------------------------------------------- semaphores, barriers, once */

static sem_t sem;
static pthread_barrier_t barrier;
static struct story sem_story;
static pthread_once_t onces[16];
static once_flag c11_once = ONCE_FLAG_INIT;
static int inits, c11_inits;

static void init(void)
{
	struct timespec t;

	/* Calls inside are the program's. */
	clock_gettime(CLOCK_MONOTONIC, &t);
	inits += 1 + (int)(t.tv_nsec % 10) * 100;
}

static void c11_init(void)
{
	c11_inits++;
}

static void semaphores(int me, struct story *own)
{
	struct timespec until;
	int err = 0, value = 0;

	for (int i = 0; i < rounds; i++) {
		if (i % 3 == 0) {
			err = sem_wait(&sem);
		} else if (i % 3 == 1) {
			err = sem_trywait(&sem);
		} else {
			until = soon(CLOCK_REALTIME, 20000);
			err = sem_timedwait(&sem, &until);
		}
		tell(own, (uint64_t)(err ? errno : 0));
		if (err)
			continue;
		sem_getvalue(&sem, &value);
		tell(own, (uint64_t)value);
		work(me, i);
		sem_post(&sem);
	}
}

static void barriers(int me, struct story *own)
{
	for (int i = 0; i < 16; i++) {
		int serial = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;

		if (serial)
			tell(&sem_story, (uint64_t)me);
		pthread_once(&onces[i], init);
		call_once(&c11_once, c11_init);
		tell(own, (uint64_t)(serial * 1000 + inits));
		pthread_barrier_wait(&barrier);
	}
}

/* --------------------------------------------------------------------- C11 */

static mtx_t c11_mutex;
static cnd_t c11_cond;
static int c11_turn;
static struct story c11_story;

static void c11(int me, struct story *own)
{
	struct timespec until;

	for (int i = 0; i < rounds; i++) {
		int how = (me + i) % 3, got;

		until = soon(CLOCK_REALTIME, 20000);
		got = how == 0   ? mtx_lock(&c11_mutex)
		      : how == 1 ? mtx_trylock(&c11_mutex)
				 : mtx_timedlock(&c11_mutex, &until);
		tell(own, (uint64_t)got);
		if (got != thrd_success)
			continue;
		until = soon(CLOCK_REALTIME, 10000);
		if (c11_turn % 4 == 0 && i % 5 == 0)
			tell(own, (uint64_t)cnd_timedwait(&c11_cond, &c11_mutex, &until));
		c11_turn++;
		tell(&c11_story, (uint64_t)me);
		if (i % 2)
			cnd_signal(&c11_cond);
		else
			cnd_broadcast(&c11_cond);
		mtx_unlock(&c11_mutex);
	}
}

static int c11_thread(void *number)
{
	struct timespec t = {.tv_nsec = 1000};

	thrd_sleep(&t, NULL);
	return (int)(intptr_t)number * 3;
}

static void c11_threads(struct story *s)
{
	thrd_t t[4];
	int result;

	for (int i = 0; i < 4; i++)
		if (thrd_create(&t[i], c11_thread, (void *)(intptr_t)(i + 1)) != thrd_success)
			abort();
	for (int i = 0; i < 4; i++) {
		thrd_join(t[i], &result);
		tell(s, (uint64_t)result);
		tell(s, (uint64_t)t[i]);
	}
}

/* -------------------------------------------------------------------- heap */

#define SHELF 32
static _Atomic(void *) shelf[SHELF];

/* Blocks made by one thread and freed by another: their addresses tell the order of all. */
static void heap(int me, struct story *own)
{
	for (int i = 0; i < rounds * 4; i++) {
		size_t size = (size_t)((me * 131 + i * 29) % 3000 + (i % 50 == 0 ? 200000 : 0));
		char *p = i % 3 == 0 ? calloc(1, size + 1) : malloc(size + 1);
		void *old;

		tell(own, (uintptr_t)p);
		memset(p, me, size);
		if (i % 4 == 1)
			p = realloc(p, size * 2 + 1);
		tell(own, (uintptr_t)p);
		pthread_mutex_lock(&queue_mutex);
		old = shelf[i % SHELF];
		shelf[i % SHELF] = p;
		pthread_mutex_unlock(&queue_mutex);
		tell(own, (uintptr_t)old);
		free(old);
	}
}

/* ----------------------------------------------------------------- sockets */

static int pair[2];
static struct story socket_story;

static void make_pair(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		abort();
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(pair[0], (struct sockaddr *)&addr, sizeof(addr)))
		abort();
	pair[1] = accept(fd, NULL, NULL);
	close(fd);
}

/* All write to one end; all read at the other: who gets what is chance. */
static void sockets(int me, struct story *own)
{
	int32_t message;

	for (int i = 0; i < rounds; i++) {
		message = me * 10000 + i;
		if (send(pair[0], &message, sizeof(message), 0) != sizeof(message))
			abort();
		if (i % 4 == 0) {
			struct pollfd p = {.fd = pair[1], .events = POLLIN};

			tell(own, (uint64_t)poll(&p, 1, 0));
		}
		/* Parts of messages, should that ever happen, are put together wrongly but alike.
		 */
		if (recv(pair[1], &message, sizeof(message), MSG_WAITALL) != sizeof(message))
			abort();
		tell(own, (uint64_t)message);
	}
}

/* Descriptors opened and closed by many threads: who has which number. */
static void descriptors(int me, struct story *own)
{
	for (int i = 0; i < rounds; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);

		tell(own, (uint64_t)fd);
		work(me, i);
		close(fd);
	}
}

/* ------------------------------------------------------------------- times */

static void times(int me, struct story *own)
{
	struct timespec t;

	for (int i = 0; i < rounds; i++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		tell(own, (uint64_t)t.tv_nsec);
		if (i % 16 == 0)
			usleep(10);
	}
	tell(own, (uint64_t)gettid());
	tell(own, (uint64_t)pthread_self());
	tell(own, (uintptr_t)&t);
}

/* ----------------------------------------------------------- beginning and end */

static pthread_key_t key;
static pthread_mutex_t ends_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ends_cond = PTHREAD_COND_INITIALIZER;
static struct story ends_story;
static int ends, never;
static sem_t no_sem;

static void at_end(void *value)
{
	free(value);
	pthread_mutex_lock(&ends_mutex);
	tell(&ends_story, 7);
	ends++;
	pthread_cond_signal(&ends_cond);
	pthread_mutex_unlock(&ends_mutex);
}

static void clean_up(void *mutex)
{
	tell(&ends_story, 9);
	pthread_mutex_unlock(mutex);
}

static void *wait_for_ever(void *how)
{
	char c;

	pthread_setspecific(key, malloc(100));
	switch ((intptr_t)how) {
	case 0:
		pthread_mutex_lock(&ends_mutex);
		pthread_cleanup_push(clean_up, &ends_mutex);
		while (!never)
			pthread_cond_wait(&ends_cond, &ends_mutex);
		pthread_cleanup_pop(1);
		break;
	case 1:
		sem_wait(&no_sem);
		break;
	case 2:
		recv(pair[1], &c, 1, 0);
		break;
	case 3:
		sleep(1000);
		break;
	default:
		while (!never) {
			pthread_testcancel();
			sched_yield();
		}
	}
	return NULL;
}

static void *leave(void *value)
{
	pthread_setspecific(key, malloc(50));
	if ((intptr_t)value % 2)
		pthread_exit(value);
	return value;
}

static void ends_case(struct story *s)
{
	pthread_t t[16];
	void *result;
	int detached = 0;

	for (intptr_t i = 0; i < 5; i++) {
		pthread_create(&t[i], NULL, wait_for_ever, (void *)i);
		if (i % 2)
			usleep(100);
		pthread_cancel(t[i]);
	}
	for (int i = 0; i < 5; i++) {
		pthread_join(t[i], &result);
		tell(s, result == PTHREAD_CANCELED);
	}
	for (intptr_t i = 0; i < 16; i++) {
		pthread_create(&t[i], NULL, leave, (void *)i);
		tell(s, (uint64_t)t[i]);
		if (i % 3 == 0)
			detached += !pthread_detach(t[i]);
	}
	for (int i = 0; i < 16; i++) {
		if (i % 3 == 0)
			continue;
		while (i % 3 == 1 && pthread_tryjoin_np(t[i], &result) == EBUSY)
			sched_yield();
		if (i % 3 == 2)
			pthread_join(t[i], &result);
		tell(s, (uintptr_t)result);
	}
	pthread_mutex_lock(&ends_mutex);
	while (ends < 21)
		pthread_cond_wait(&ends_cond, &ends_mutex);
	pthread_mutex_unlock(&ends_mutex);
	printf("detached   %d\n", detached);
}

/* ------------------------------------------------------------------- stdio */

static void printing(int me, struct story *own)
{
	for (int i = 0; i < rounds / 4; i++) {
		printf("thread %d line %d\n", me, i);
		if (i % 4 == 0)
			puts("a line");
		flockfile(stdout);
		fputs("two ", stdout);
		fputs("parts\n", stdout);
		funlockfile(stdout);
		fprintf(stdout, "%c", 'x');
		putchar('\n');
	}
}

/* ------------------------------------------------------------------- cases */

struct part {
	const char *name;
	void (*in_threads)(int me, struct story *own);
	void (*alone)(struct story *s);
	struct story *shared;
};

static const struct part parts[] = {
    {"locks", locks, NULL, &locks_story},
    {"robust", NULL, robust_case, NULL},
    {"conditions", conditions, NULL, &queue_story},
    {"semaphores", semaphores, NULL, NULL},
    {"barriers", barriers, NULL, &sem_story},
    {"c11", c11, NULL, &c11_story},
    {"c11threads", NULL, c11_threads, NULL},
    {"heap", heap, NULL, NULL},
    {"sockets", sockets, NULL, &socket_story},
    {"descriptors", descriptors, NULL, NULL},
    {"times", times, NULL, NULL},
    {"ends", NULL, ends_case, &ends_story},
    {"stdio", printing, NULL, NULL},
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

struct job {
	const struct part *part; /* NULL: all of them, each thread in an order of its own */
	int me;
	struct story own;
};

static void *do_job(void *argument)
{
	struct job *j = argument;

	if (j->part) {
		j->part->in_threads(j->me, &j->own);
		return NULL;
	}
	/* barriers and conditions need all threads at the same time */
	conditions(j->me, &j->own);
	barriers(j->me, &j->own);
	for (int i = 0; i < 8; i++) {
		switch ((i + j->me) % 8) {
		case 0:
			locks(j->me, &j->own);
			break;
		case 1:
			semaphores(j->me, &j->own);
			break;
		case 2:
			c11(j->me, &j->own);
			break;
		case 3:
			heap(j->me, &j->own);
			break;
		case 4:
			sockets(j->me, &j->own);
			break;
		case 5:
			descriptors(j->me, &j->own);
			break;
		case 6:
			times(j->me, &j->own);
			break;
		default:
			printing(j->me, &j->own);
		}
	}
	return NULL;
}

static void in_threads(const struct part *part)
{
	static struct job jobs[MAX_THREADS];
	pthread_t threads[MAX_THREADS];

	for (int i = 0; i < n_threads; i++) {
		jobs[i] = (struct job){.part = part, .me = i};
		if (pthread_create(&threads[i], NULL, do_job, &jobs[i]))
			abort();
	}
	for (int i = 0; i < n_threads; i++) {
		pthread_join(threads[i], NULL);
		print_story(part ? part->name : "all", &jobs[i].own);
	}
	if (part && part->shared)
		print_story(part->name, part->shared);
}

static void run(const struct part *part)
{
	struct story s = {0};

	if (part->in_threads) {
		in_threads(part);
		return;
	}
	part->alone(&s);
	print_story(part->name, &s);
	if (part->shared)
		print_story(part->name, part->shared);
}

static int run_named(const char *name)
{
	if (!strcmp(name, "all")) {
		in_threads(NULL);
		return 1;
	}
	for (size_t i = 0; i < PARTS; i++) {
		if (!strcmp(name, parts[i].name)) {
			run(&parts[i]);
			return 1;
		}
	}
	fprintf(stderr, "threads: no case %s\n", name);
	return 0;
}

static void prepare(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list)
		ibv_free_device_list(list);
	init_locks();
	sem_init(&sem, 0, 3);
	sem_init(&no_sem, 0, 0);
	pthread_barrier_init(&barrier, NULL, (unsigned int)n_threads);
	mtx_init(&c11_mutex, mtx_timed);
	cnd_init(&c11_cond);
	pthread_key_create(&key, at_end);
	make_pair();
}

int main(int argc, char **argv)
{
	int option, good = 1;

	while ((option = getopt(argc, argv, "t:n:")) > 0) {
		if (option == 't')
			n_threads = atoi(optarg);
		else if (option == 'n')
			rounds = atoi(optarg);
		else
			return 2;
	}
	prepare();
	for (size_t i = 0; optind == argc && i < PARTS; i++)
		run(&parts[i]);
	if (optind == argc)
		in_threads(NULL);
	for (int i = optind; i < argc; i++)
		good = run_named(argv[i]) && good;
	printf("once %d %d\n", inits, c11_inits);
	return good ? 5 : 2;
}
