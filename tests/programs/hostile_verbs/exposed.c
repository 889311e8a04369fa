/* SPDX-License-Identifier: BSD-2-Clause */
/* exposed.c: locks, faults and variables beside memory that peers write. */
#include "hostile_verbs/shared.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <linux/aio_abi.h>

/* Locks that share a page with memory that peers write: the kernel looks at them. */
struct shared {
	char region[512];
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	sem_t sem;
	int turn, count;
};

static struct shared *s;

static void *take_turns(void *argument)
{
	int me = (int)(intptr_t)argument;

	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&s->mutex);
		while (s->turn != me)
			pthread_cond_wait(&s->cond, &s->mutex);
		s->turn = !me;
		s->count++;
		pthread_cond_broadcast(&s->cond);
		pthread_mutex_unlock(&s->mutex);
	}
	sem_post(&s->sem);
	return NULL;
}

static void locks_beside_an_exposed_region(void)
{
	pthread_t t[2];
	struct ibv_mr *region;

	s = (void *)map(PAGE);
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->cond, NULL);
	sem_init(&s->sem, 0, 0);
	region = ibv_reg_mr(pd, s->region, sizeof(s->region), ALL);
	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, take_turns, (void *)i);
	for (int i = 0; i < 2; i++)
		sem_wait(&s->sem);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("%d turns, dereg %d\n", s->count, ibv_dereg_mr(region));
}

static void *wait_for_turn(void *unused)
{
	pthread_mutex_lock(&s->mutex);
	s->count++;
	while (!s->turn)
		pthread_cond_wait(&s->cond, &s->mutex);
	s->turn = 0;
	pthread_mutex_unlock(&s->mutex);
	return unused;
}

static void *give_turn(void *unused)
{
	pthread_mutex_lock(&s->mutex);
	s->turn = 2;
	pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->mutex);
	return unused;
}

static struct ibv_mr *register_beside(pthread_t *t, void *(*waits)(void *))
{
	pthread_create(t, NULL, waits, NULL);
	usleep(20000);
	return check(ibv_reg_mr(pd, s->region, sizeof(s->region), ALL), "ibv_reg_mr");
}

/* A thread waits for a condition, and then one for a lock, when memory beside them is registered. */
static void waits_that_an_exposed_region_overtakes(void)
{
	struct timespec limit;
	struct ibv_mr *region;
	int turn, result = 0;
	pthread_t t;

	s = (void *)map(PAGE);
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->cond, NULL);
	region = register_beside(&t, wait_for_turn);
	pthread_mutex_lock(&s->mutex);
	s->turn = 1;
	pthread_cond_signal(&s->cond);
	usleep(20000); /* it is awake, and has to wait for the lock */
	pthread_mutex_unlock(&s->mutex);
	pthread_join(t, NULL);
	printf("count %d, turn %d, dereg %d\n", s->count, s->turn, ibv_dereg_mr(region));
	pthread_mutex_lock(&s->mutex);
	region = register_beside(&t, give_turn);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 5;
	while (!s->turn && !result)
		result = pthread_cond_timedwait(&s->cond, &s->mutex, &limit);
	turn = s->turn;
	pthread_mutex_unlock(&s->mutex);
	pthread_join(t, NULL);
	printf("turn %d, result %d, dereg %d\n", turn, result, ibv_dereg_mr(region));
}

static int write_to(char *p, struct ibv_mr *to, size_t from, size_t n)
{
	struct ibv_sge sge = piece(from, n);
	struct ibv_send_wr wr = {.wr_id = 9,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)p;
	wr.wr.rdma.rkey = to->rkey;
	return ibv_post_send(qp, &wr, &bad);
}

/* An exposed region twice: what is taken away with the one stays with the other. */
static void exposed_regions_over_each_other(void)
{
	char *p = map(4 * PAGE);
	struct ibv_mr *one = ibv_reg_mr(pd, p, 3 * PAGE, ALL),
		      *two = ibv_reg_mr(pd, p + PAGE, 3 * PAGE, ALL),
		      *local = ibv_reg_mr(pd, p, 4 * PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)p + 2 * PAGE, 64, local->lkey};

	memset(memory, 'a', PAGE);
	printf("%d", write_to(p + PAGE, one, 0, 64));
	printf(" %.3s", p + PAGE);
	printf(" dereg %d", ibv_dereg_mr(one));
	memset(memory, 'b', PAGE);
	printf(" %d", write_to(p + PAGE, two, 0, 64));
	printf(" %.3s\n", p + PAGE);
	receive(qp, 1, sge);
	memset(memory, 'c', PAGE);
	send_it(qp, 2, piece(0, 64), IBV_SEND_SIGNALED);
	show_completions();
	printf("received %.3s", p + 2 * PAGE);
	printf(" dereg %d", ibv_dereg_mr(two));
	printf(" %d", ibv_dereg_mr(local));
	printf(" %.3s %.3s\n", p + PAGE, p + 2 * PAGE);
}

static void *wait_for_end(void *pipe_end)
{
	char byte;

	return read(*(int *)pipe_end, &byte, 1) < 0 ? pipe_end : NULL;
}

#define OUTPUT_BYTES 9000u

static void clear_by_words(uint64_t *to, size_t n)
{
	asm volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(0ull) : "memory");
}

static void *started_with;

static void *clear_beside(void *at)
{
	uint64_t *words = at;
	size_t left = 0;

	started_with = at;
	for (int round = 0; round < 40; round++) {
		memset(words, 0x7f + round, 640);
		clear_by_words(words + round % 3, 70);
		for (size_t i = 0; i < 70; i++)
			left += words[i + round % 3] != 0;
	}
	printf("%zu words are not cleared\n", left);
	return NULL;
}

/*
 * As libc clears what a thread's malloc() needs, which may be beside registered memory.  And what a thread is started with,
 * or an object has as its context, may lie there as well: the program gets just that address back, and frees it.
 */
static void memory_beside_an_exposed_region(void)
{
	char *p = map(2 * PAGE);
	struct ibv_mr *one = ibv_reg_mr(pd, p + 48, 256, ALL), *two = ibv_reg_mr(pd, p + 2160, 256, ALL);
	struct ibv_cq *other;
	pthread_t t;

	clear_beside(p + 3040);
	pthread_create(&t, NULL, clear_beside, p + 3040);
	pthread_join(t, NULL);
	other = ibv_create_cq(context, 4, p + 3040, NULL, 0);
	printf("the same: %d %d\n", started_with == p + 3040, other->cq_context == p + 3040);
	ibv_destroy_cq(other);
	clear_beside(p + 3776); /* to the next page */
	printf("dereg %d", ibv_dereg_mr(one));
	printf(" %d\n", ibv_dereg_mr(two));
}

/* What peers write into a region, and the program hands on without a look at it. */
static void output_region(void)
{
	char *p = map(4 * PAGE), *got = malloc(OUTPUT_BYTES);
	struct ibv_mr *region = ibv_reg_mr(pd, p, 4 * PAGE, ALL);
	int file = memfd_create("outputs", 0), pair[2];
	struct iovec pieces[2] = {{p + 100, 5000}, {p + 5100, OUTPUT_BYTES - 5000}};
	struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
	ssize_t n = 0;

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	for (int way = 0; way < 5; way++) {
		memset(memory, 'a' + way, 3 * PAGE);
		write_to(p, region, 0, 3 * PAGE);
		switch (way) {
		case 0:
			n = write(file, p + 100, OUTPUT_BYTES);
			break;
		case 1:
			n = pwrite(file, p + 100, OUTPUT_BYTES, 0);
			break;
		case 2:
			n = pwritev(file, pieces, 2, 0);
			break;
		case 3:
			n = send(pair[0], p + 100, OUTPUT_BYTES, 0);
			break;
		default:
			n = sendmsg(pair[0], &message, 0);
		}
		printf("%zd", n);
		printf(" %zd", way < 3 ? pread(file, got, OUTPUT_BYTES, 0) : recv(pair[1], got, OUTPUT_BYTES, MSG_WAITALL));
		printf(" %c%c\n", got[0], got[OUTPUT_BYTES - 1]);
	}
	printf("%c\n", p[0]);
	ibv_dereg_mr(region);
	show_completions();
}

static void outputs_of_an_exposed_region(void)
{
	int ends[2];
	pthread_t t;

	output_region();
	pipe(ends);
	pthread_create(&t, NULL, wait_for_end, &ends[0]);
	output_region();
	write(ends[1], "", 1);
	pthread_join(t, NULL);
}

/* Memory that is given back while it is still an exposed region. */
static void exposed_regions_that_are_given_back(void)
{
	char *p = map(4 * PAGE), *heap = malloc(100000);
	struct ibv_mr *region = ibv_reg_mr(pd, p, 4 * PAGE, ALL),
		      *in_heap = ibv_reg_mr(pd, heap, 100000, ALL);

	write_to(p, region, 0, 64);
	show_completions();
	munmap(p, 4 * PAGE);
	p = mmap(p, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0);
	memset(p, 'x', 4 * PAGE);
	printf("dereg %d", ibv_dereg_mr(region));
	printf(" %c%c\n", p[0], p[4 * PAGE - 1]);
	memset(heap, 'h', 100000);
	write_to(heap + 5000, in_heap, 0, 64);
	free(heap);
	for (int i = 0; i < 100; i++) {
		char *q = malloc((size_t)i * 1000 + 1);

		memset(q, i, (size_t)i * 1000 + 1);
		if (i % 2)
			free(q);
	}
	printf("dereg %d\n", ibv_dereg_mr(in_heap));
	show_completions();
}

/* The stand-in, unlike a device, loses sight of the page when it is given up: no write to it after
 * that. */
static void exposed_regions_that_are_protected(void)
{
	char *p = map(4 * PAGE);
	struct ibv_mr *region = ibv_reg_mr(pd, p, 4 * PAGE, ALL);

	memset(memory, 'a', PAGE);
	write_to(p, region, 0, 64);
	printf("mprotect %d", mprotect(p, PAGE, PROT_READ));
	printf(" %c", p[0]);
	printf(" mprotect %d", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	p[1] = 'b';
	printf(" %.3s", p);
	printf(" madvise %d", madvise(p, PAGE, MADV_DONTNEED));
	printf(" %d", p[0]);
	printf(" dontfork %d", madvise(p, 4 * PAGE, MADV_DONTFORK));
	printf(" mlock %d", mlock(p, PAGE));
	printf(" msync %d", msync(p, PAGE, MS_ASYNC));
	printf(" dereg %d\n", ibv_dereg_mr(region));
	show_completions();
}

/* The program's handler sees the faults that are its own, also beside an exposed region. */
static sigjmp_buf from_fault;
static volatile uintptr_t fault_at;

static void note_fault(int signal, siginfo_t *info, void *unused)
{
	fault_at = (uintptr_t)info->si_addr;
	siglongjmp(from_fault, 1);
}

static void faults_beside_an_exposed_region(void)
{
	char *p = map(4 * PAGE);
	struct sigaction act = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO};
	struct ibv_mr *region;

	munmap(p + 3 * PAGE, PAGE);
	region = ibv_reg_mr(pd, p, 3 * PAGE, ALL);
	sigaction(SIGSEGV, &act, NULL);
	for (int i = 0; i < 3; i++) {
		write_to(p + 2 * PAGE, region, 0, 64);
		if (!sigsetjmp(from_fault, 1)) {
			for (volatile char *c = p + 2 * PAGE;; c++)
				*c = (char)i;
		}
		printf("fault at %td\n", (char *)fault_at - p);
	}
	show_completions();
	printf("dereg %d\n", ibv_dereg_mr(region));
}

/*
 * A page is a exposed region's by turns, and another thread's variables are on it.  Which of
 * its loads and stores find an exposed region is chance: that much is not replayed.
 */
struct neighbours {
	char region[512];
	volatile uint64_t count;
};

static void *count_up(void *argument)
{
	volatile uint64_t *count = argument;

	for (int i = 0; i < 300000; i++)
		++*count;
	return NULL;
}

static void variables_beside_an_exposed_region(void)
{
	struct neighbours *n = (void *)map(PAGE);
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, count_up, (void *)(&n->count + i));
	for (int i = 0; i < 300; i++)
		if (ibv_dereg_mr(ibv_reg_mr(pd, n->region, sizeof(n->region), ALL)))
			printf("dereg fails\n");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("%llu %llu\n", (unsigned long long)n->count, (unsigned long long)(&n->count)[1]);
}

/* What the first exposed region's registration knew of the page is not there in a replay. */
static void a_request_on_a_page_that_was_an_exposed_region(void)
{
	static char large[4 << 20] __attribute__((aligned(PAGE)));
	static volatile uint64_t other[PAGE / 8] __attribute__((aligned(PAGE)));
	char *page = large + 10 * PAGE;
	struct ibv_recv_wr *wr = (void *)(page + 1024), *bad;
	struct ibv_qp *q = new_qp();
	struct ibv_mr *all = ibv_reg_mr(pd, large, sizeof(large), ALL), *part, *others;
	uint64_t sum = 0;

	ibv_dereg_mr(all);
	part = ibv_reg_mr(pd, page, 64, ALL);
	others = ibv_reg_mr(pd, (void *)other, PAGE, ALL);
	for (uint64_t round = 0; round < 5; round++) {
		wr->wr_id = round;
		wr->num_sge = 0;
		wr->sg_list = NULL;
		wr->next = NULL;
		for (uint64_t i = 0; i < 40; i++)
			other[i] = i + round;
		sum = sum * 31 + (uint64_t)ibv_post_recv(q, wr, &bad);
	}
	for (uint64_t i = 0; i < 40; i++)
		sum += other[i];
	printf("%llu\n", (unsigned long long)sum);
	ibv_dereg_mr(others);
	ibv_dereg_mr(part);
	ibv_destroy_qp(q);
}

/* Another process's mapping: what is stored there, no call of this one's shows. */
static char *map_again(int fd)
{
	void *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return check(p == MAP_FAILED ? NULL : p, "mmap");
}

/* Registered memory that is shared: a device writes it, and others do. */
static void an_exposed_region_in_shared_memory(void)
{
	int fd = memfd_create("shared", 0);
	int id = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
	char *segment = shmat(id, NULL, 0), *p, *others;
	struct ibv_mr *of_segment, *of_file;

	if (fd < 0 || ftruncate(fd, 2 * PAGE) || segment == (void *)-1)
		exit(1);
	p = map_again(fd);
	others = map_again(fd);
	of_file = ibv_reg_mr(pd, p, 2 * PAGE, ALL);
	of_segment = ibv_reg_mr(pd, segment, 2 * PAGE, ALL);
	memset(memory, 'a', PAGE);
	printf("%d %d", write_to(p, of_file, 0, 64), write_to(segment, of_segment, 0, 64));
	show_completions();
	printf(" %.3s %.3s", p, segment);
	strcpy(others + PAGE, "another's");
	printf(" %s", p + PAGE);
	strcpy(p + PAGE, "mine");
	printf(" %s\n", others + PAGE);
	shmdt(segment);
	munmap(p, 2 * PAGE);
	for (int i = 0; i < 10; i++)
		time(NULL);
	printf("dereg %d %d\n", ibv_dereg_mr(of_file), ibv_dereg_mr(of_segment));
	shmctl(id, IPC_RMID, NULL);
}

static void call_something(int signal_number)
{
	printf("signal %d at %d\n", signal_number, time(NULL) > 0);
	exit(4);
}

/* The kernel does it without any function that could be intercepted. */
static void an_exposed_region_that_vanishes(void)
{
	char *p = map(3 * PAGE);
	struct ibv_mr *region = ibv_reg_mr(pd, p, 3 * PAGE, ALL);

	signal(SIGSEGV, call_something);
	syscall(SYS_munmap, p + PAGE, PAGE);
	for (int i = 0; i < 10; i++)
		time(NULL);
	printf("dereg %d\n", ibv_dereg_mr(region));
}

static long transfer(aio_context_t aio, int opcode, int fd, char *p, size_t n)
{
	struct iocb request = {.aio_fildes = (uint32_t)fd,
			       .aio_lio_opcode = (uint16_t)opcode,
			       .aio_buf = (uintptr_t)p,
			       .aio_nbytes = n},
		    *list = &request;
	struct io_event event = {0};

	syscall(SYS_io_submit, aio, 1, &list);
	syscall(SYS_io_getevents, aio, 1, 1, &event, NULL);
	return (long)event.res;
}

static unsigned int sum_of(const char *p, size_t n)
{
	unsigned int sum = 0;

	while (n--)
		sum = sum * 31 + (unsigned char)*p++;
	return sum;
}

/* The kernel, or a disk, writes to pages of which peers write all, or a part, or none. */
static void asynchronous_reads_into_an_exposed_region(void)
{
	const char *place = getenv("TMPDIR");
	char *p = map(8 * PAGE);
	struct ibv_mr *region = ibv_reg_mr(pd, p + 100, 4 * PAGE, ALL);
	int fd = open(place ? place : "/tmp", O_TMPFILE | O_RDWR, 0600);
	aio_context_t aio = 0;

	syscall(SYS_io_setup, 4, &aio);
	for (size_t i = 0; i < 8 * PAGE; i++)
		p[i] = (char)(i * i % 251);
	for (int direct = 0; direct < 2; direct++) {
		fcntl(fd, F_SETFL, direct ? O_DIRECT : 0);
		p[PAGE] = (char)direct;
		printf("written: %ld", transfer(aio, IOCB_CMD_PWRITE, fd, p, 8 * PAGE));
		memset(p, direct, 8 * PAGE);
		printf(" read: %ld", transfer(aio, IOCB_CMD_PREAD, fd, p, 8 * PAGE));
		printf(" found: %x %x", sum_of(p, 8 * PAGE), sum_of(p + PAGE, PAGE));
		time(NULL);
		printf(" and again: %x\n", sum_of(p, 8 * PAGE));
	}
	printf("destroyed: %ld, dereg %d\n", syscall(SYS_io_destroy, aio), ibv_dereg_mr(region));
}

#define NUMBERS 64

static volatile sig_atomic_t arrived;

static void note_arrival(int signal)
{
	arrived++;
}

static timer_t start_timer(int signal_number, long ns)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal_number};
	struct itimerspec often = {.it_interval.tv_nsec = ns, .it_value.tv_nsec = ns};
	struct sigaction act = {.sa_handler = note_arrival, .sa_flags = SA_RESTART};
	timer_t timer;

	event._sigev_un._tid = gettid();
	sigaction(signal_number, &act, NULL);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	return timer;
}

/* An instruction that reads its operand from memory, and computes. */
static double add(double sum, const double *number)
{
	asm volatile("addsd %1, %0" : "+x"(sum) : "m"(*number));
	return sum;
}

/*
 * A timer of the program's own, by a signal that the recorder uses as well: no sum may lose a number, or have one twice.  Half
 * of the numbers come from a peer, and the others lie beside them.
 */
static void sums_with_timer(int signal_number, long ns)
{
	double *numbers = (double *)map(PAGE), sum = 0;
	struct ibv_mr *region = ibv_reg_mr(pd, numbers, NUMBERS / 2 * sizeof(*numbers), ALL);
	timer_t timer = start_timer(signal_number, ns);

	arrived = 0;
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = ((double *)memory)[i] = i + 1;
	for (int round = 0; round < 500 || arrived < 100; round++) {
		write_to((char *)numbers, region, 0, NUMBERS / 2 * sizeof(*numbers));
		ibv_poll_cq(cq, 1, &(struct ibv_wc){0});
		sum = 0;
		for (int i = 0; i < NUMBERS; i++)
			sum = add(sum, &numbers[i]);
		if (sum != NUMBERS * (NUMBERS + 1) / 2) {
			printf("round %d: %g\n", round, sum);
			break;
		}
	}
	timer_delete(timer);
	printf("signal %d: %g, dereg %d\n", signal_number, sum, ibv_dereg_mr(region));
}

static void sums_in_an_exposed_region(void)
{
	int ends[2];
	pthread_t t;

	sums_with_timer(SIGSEGV, 50000);
	sums_with_timer(SIGBUS, 50000);
	/* With threads, a page that regions have only a part of is never open: each number is met by a fault. */
	pipe(ends);
	pthread_create(&t, NULL, wait_for_end, &ends[0]);
	sums_with_timer(SIGSEGV, 200000);
	sums_with_timer(SIGALRM, 200000);
	write(ends[1], "", 1);
	pthread_join(t, NULL);
}

const struct hostile_case exposed_cases[] = {
    {"sums-in-an-exposed-region", sums_in_an_exposed_region},
    {"asynchronous-reads-into-an-exposed-region", asynchronous_reads_into_an_exposed_region},
    {"an-exposed-region-in-shared-memory", an_exposed_region_in_shared_memory},
    {"an-exposed-region-that-vanishes", an_exposed_region_that_vanishes},
    {"locks-beside-an-exposed-region", locks_beside_an_exposed_region},
    {"waits-that-an-exposed-region-overtakes", waits_that_an_exposed_region_overtakes},
    {"memory-beside-an-exposed-region", memory_beside_an_exposed_region},
    {"outputs-of-an-exposed-region", outputs_of_an_exposed_region},
    {"exposed-regions-over-each-other", exposed_regions_over_each_other},
    {"exposed-regions-that-are-given-back", exposed_regions_that_are_given_back},
    {"exposed-regions-that-are-protected", exposed_regions_that_are_protected},
    {"variables-beside-an-exposed-region", variables_beside_an_exposed_region},
    {"faults-beside-an-exposed-region", faults_beside_an_exposed_region},
    {"a-request-on-a-page-that-was-exposed", a_request_on_a_page_that_was_an_exposed_region},
    {0},
};
