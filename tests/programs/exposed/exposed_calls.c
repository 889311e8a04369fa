/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed_calls.c: memory that peers may write, in the hands of everybody else: the
 * kernel, libc, a forked child, and pages that are shared with other things.
 *
 *   exposed_calls FILE
 *
 * Prints what it found; runs on any device, no peer is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define PAGE   4096
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_pd *pd;

static uint64_t sum(const void *p, size_t n)
{
	const unsigned char *b = p;
	uint64_t s = 14695981039346656037u;

	while (n--)
		s = (s ^ *b++) * 1099511628211u;
	return s;
}

static void show(const char *what, const void *p, size_t n)
{
	printf("%s: %016llx\n", what, (unsigned long long)sum(p, n));
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_mr *region(void *p, size_t n)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p, n, REMOTE);

	if (!mr || mr->addr != p)
		fail("ibv_reg_mr");
	return mr;
}

/* Where system calls put what they find, and take what they send. */
static void kernel(char *p, const char *file)
{
	int pair[2], fd = open(file, O_RDONLY);
	struct timespec *now = (void *)(p + 3 * PAGE + 64);
	ssize_t n;

	if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		fail(file);
	n = read(fd, p + 100, 2 * PAGE);
	printf("read %zd\n", n);
	show("of a file", p, 3 * PAGE);
	close(fd);
	memset(p + 5000, 7, 300);
	n = write(pair[0], p + 4900, 500);
	memset(p, 0, 600);
	printf("wrote %zd, read %zd\n", n, read(pair[1], p + 20, 500));
	show("of a socket", p, PAGE);
	close(pair[0]);
	close(pair[1]);
	if (getrandom(p + 2 * PAGE - 50, 100, 0) != 100)
		fail("getrandom");
	show("of chance", p, 3 * PAGE);
	clock_gettime(CLOCK_REALTIME, now);
	printf("at %lld.%09ld\n", (long long)now->tv_sec, now->tv_nsec);
	now->tv_sec = 0;
	now->tv_nsec = 1000;
	printf("nanosleep %d\n", nanosleep(now, NULL));
}

/* The same past every wrapper: what stdio reads, messages, system calls by their numbers. */
static void past_wrappers(char *p, const char *file)
{
	char *q = p + PAGE + 3000, line[100];
	struct iovec *pieces = (void *)(p + 3 * PAGE + 512);
	struct msghdr *m = (void *)(p + 3 * PAGE + 256);
	uint32_t *word = (void *)(p + 2 * PAGE + 512);
	struct stat *st = (void *)(p + 2 * PAGE - 60);
	FILE *stream = fopen(file, "r");
	int pair[2], fd = open(file, O_RDONLY);
	ssize_t n;

	if (!stream || fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		fail(file);
	memset(p, 5, 4 * PAGE - 10);
	setvbuf(stream, p + 200, _IOFBF, 2 * PAGE);
	while (fgets(line, sizeof(line), stream))
		;
	show("stdio's buffer", p, 3 * PAGE);
	fclose(stream);
	stream = fopen(file, "r");
	printf("fread %zu\n", fread(p + 50, 1, 2 * PAGE + 100, stream));
	show("of stdio", p, 3 * PAGE);
	fclose(stream);

	printf("pread %zd\n", pread(fd, q, 2000, 100));
	pieces[0] = (struct iovec){p + 100, 500};
	pieces[1] = (struct iovec){q, 2000};
	printf("readv %zd\n", readv(fd, pieces, 2));
	printf("preadv %zd\n", preadv(fd, pieces, 2, 1000));
	show("in pieces", p, 3 * PAGE);
	printf("fstat %d\n", fstat(fd, st));
	printf("of %lld bytes\n", (long long)st->st_size);
	strcpy(p + 2 * PAGE - 5, "/dev/null");
	printf("access %d\n", access(p + 2 * PAGE - 5, R_OK));
	close(fd);

	memset(q, 6, 2000);
	*m = (struct msghdr){.msg_iov = pieces, .msg_iovlen = 2};
	printf("sendmsg %zd\n", sendmsg(pair[0], m, 0));
	memset(p, 0, PAGE);
	printf("recvmsg %zd\n", recvmsg(pair[1], m, 0));
	show("a message", p, 3 * PAGE);
	printf("writev %zd\n", writev(pair[1], pieces, 2));
	n = syscall(SYS_read, pair[0], q - 100, 900);
	printf("read by number %zd\n", n);
	show("by number", p, 3 * PAGE);
	close(pair[0]);
	close(pair[1]);

	*word = 7;
	errno = 0;
	n = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 8, NULL, NULL, 0);
	printf("futex %zd %s\n", n, strerror(errno));
	n = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	printf("futex %zd\n", n);
	n = syscall(SYS_sched_getparam, 0, q);
	printf("sched_getparam %zd\n", n);
	errno = 0;
	n = readv(-1, pieces, 2);
	printf("readv %zd %s\n", n, strerror(errno));
}

static pthread_mutex_t *lock;
static pthread_cond_t *turn_changed;
static int turn; /* not in it: what several threads load from a page is docs/user/exposed-memory.md's */

static void *take_turns(void *argument)
{
	int me = *(int *)argument;

	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(lock);
		while (turn != me)
			pthread_cond_wait(turn_changed, lock);
		turn = 1 - me;
		pthread_cond_signal(turn_changed);
		pthread_mutex_unlock(lock);
	}
	return NULL;
}

/* What threads wait in is in it. */
static void locks(char *p)
{
	pthread_t ids[2];
	int numbers[2] = {0, 1};

	lock = (void *)(p + PAGE);
	turn_changed = (void *)(p + PAGE + 128);
	memset(p + PAGE, 0, 256);
	pthread_mutex_init(lock, NULL);
	pthread_cond_init(turn_changed, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&ids[i], NULL, take_turns, &numbers[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
	printf("turn %d\n", turn);
}

/* A child has the memory, too, and leaves its parent's alone. */
static void child(char *p)
{
	pid_t pid;
	int status = 0;

	strcpy(p, "the parent's");
	pid = fork();
	if (!pid) {
		int right = !strcmp(p, "the parent's");

		strcpy(p, "the child's");
		_exit(right && !strcmp(p, "the child's") ? 3 : 4);
	}
	waitpid(pid, &status, 0);
	printf("child %d, %s\n", WEXITSTATUS(status), p);
}

/* Neighbours on the heap: an exposed region shares its pages with what is not one. */
static void neighbours(void)
{
	enum { BLOCKS = 64 };
	char *blocks[BLOCKS];
	struct ibv_mr *mrs[BLOCKS];
	uint64_t total = 0;

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(100 + (size_t)i);
		memset(blocks[i], i, 100 + (size_t)i);
		mrs[i] = i % 3 ? NULL : region(blocks[i], 100 + (size_t)i);
	}
	for (int i = 0; i < BLOCKS; i++) {
		for (int k = 0; k < 100; k++)
			total += (unsigned char)blocks[i][k] == i;
		if (mrs[i] && i % 2)
			ibv_dereg_mr(mrs[i]);
		free(blocks[i]); /* some are still registered */
	}
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = calloc(1, 150);
		total += blocks[i][i] == 0;
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	for (int i = 0; i < BLOCKS; i += 6)
		ibv_dereg_mr(mrs[i]);
	printf("neighbours: %llu\n", (unsigned long long)total);
}

static void mappings(void)
{
	size_t size = 16 * PAGE;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = region(p, size);
	char *again;

	memset(p, 9, size);
	show("a mapping", p, size);
	munmap(p + 4 * PAGE, 4 * PAGE);
	again = mmap(p + 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	show("with new pages", p, size);
	again[5] = 1;
	ibv_dereg_mr(mr);
	show("with new pages, no longer registered", p, size);
	mr = region(p, size);
	memcpy(p, p + PAGE, 3000);
	ibv_dereg_mr(mr);
	show("registered again", p, size);
	munmap(p, size);
}

/* The heap's end is given back while it is registered, and grows again. */
static void given_back(void)
{
	size_t size = 1 << 20;
	char *p = malloc(size), *again;
	struct ibv_mr *mr = region(p, size);

	memset(p, 3, size);
	free(p);
	again = malloc(size);
	memset(again, 4, size);
	ibv_dereg_mr(mr);
	show("given back, taken again", again, size);
	free(again);
}

/* Moved, protected, dropped. */
static void changed(void)
{
	size_t size = 8 * PAGE;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	struct ibv_mr *mr = region(p, size);

	memset(p, 2, size);
	printf("mprotect %d\n", mprotect(p, 2 * PAGE, PROT_READ | PROT_WRITE));
	memset(p, 8, PAGE);
	show("protected as it was", p, size);
	mprotect(p, PAGE, PROT_READ);
	show("protected", p, size);
	mprotect(p, PAGE, PROT_READ | PROT_WRITE);
	madvise(p + 2 * PAGE, PAGE, MADV_DONTNEED);
	show("dropped", p, size);
	q = mremap(p, size, 64 * size, MREMAP_MAYMOVE);
	q[size + 1] = 3;
	show("moved", q, 2 * size);
	ibv_dereg_mr(mr);
	show("no longer registered", q, 2 * size);
	munmap(q, 64 * size);
}

static void shared(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = region(p, PAGE);

	strcpy(p, "compared, not frozen");
	if (getrandom(p + 100, 8, 0) != 8)
		fail("getrandom");
	show(p, p, PAGE);
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	char *p = aligned_alloc(PAGE, 4 * PAGE);
	struct ibv_mr *mr, *twice;

	if (argc < 2 || !context || !(pd = ibv_alloc_pd(context)))
		fail("no device");
	memset(p, 1, 4 * PAGE);
	mr = region(p + 10, 4 * PAGE - 20);
	twice = ibv_reg_mr(pd, p + PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	kernel(p, argv[1]);
	past_wrappers(p, argv[1]);
	child(p);
	locks(p);
	ibv_dereg_mr(mr);
	show("half of it registered", p, PAGE);
	ibv_dereg_mr(twice);
	free(p);
	neighbours();
	mappings();
	given_back();
	changed();
	shared();
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
