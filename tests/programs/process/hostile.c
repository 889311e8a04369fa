/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostile.c: what programs do that recorders trip over, a case per argument.
 * Each prints the same bare and recorded, and again in its replay.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "collector.h"

/* A bound UDP socket that has one datagram of so many bytes. */
static int socket_with_datagram(size_t bytes)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char *data = calloc(1, bytes);

	bind(fd, (struct sockaddr *)&addr, sizeof(addr));
	getsockname(fd, (struct sockaddr *)&addr, &len);
	connect(fd, (struct sockaddr *)&addr, sizeof(addr));
	send(fd, data, bytes, 0);
	free(data);
	return fd;
}

static int wait_for(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ------------------------------------------------------------ processes */

static void *short_thread(void *unused)
{
	time(NULL);
	return NULL;
}

static void threads_then_fork(void)
{
	pthread_t t;
	pid_t child;

	for (int i = 0; i < 200; i++) {
		pthread_create(&t, NULL, short_thread, NULL);
		pthread_join(t, NULL);
	}
	fflush(stdout);
	child = fork();
	if (!child)
		_exit(time(NULL) > 0 ? 5 : 6);
	printf("child %d\n", wait_for(child));
}

static void vfork_that_fails_to_exec(void)
{
	pid_t child = vfork();

	if (!child) {
		execl("/no/such/program", "x", NULL);
		_exit(127);
	}
	printf("child %d\n", wait_for(child));
	printf("time goes on: %d\n", time(NULL) > 0);
}

static void vfork_that_closes(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pid_t child = vfork();

	if (!child) {
		close(fd);
		_exit(0);
	}
	printf("child %d", wait_for(child));
	printf(" bind %d\n", bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
}

/* What failed is still to be told, whatever was called first in between. */
static void dlerror_after_other_calls(void)
{
	void *p;

	dlerror();
	printf("%d\n", dlopen("libof-no-such-name.so", RTLD_NOW) == NULL);
	p = malloc(24);
	munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
	printf("%s, %p\n", dlerror(), p);
	free(p);
}

#if defined(__x86_64__)
static void print_registers(const char *after)
{
	uint64_t low[16][2], high[16][8] = {{0}}, sum = 0;

	__asm__ volatile("movups %%xmm0, 0(%0)\n\tmovups %%xmm1, 16(%0)\n\tmovups %%xmm2, 32(%0)\n\t"
			 "movups %%xmm3, 48(%0)\n\tmovups %%xmm4, 64(%0)\n\tmovups %%xmm5, 80(%0)\n\t"
			 "movups %%xmm6, 96(%0)\n\tmovups %%xmm7, 112(%0)\n\tmovups %%xmm8, 128(%0)\n\t"
			 "movups %%xmm9, 144(%0)\n\tmovups %%xmm10, 160(%0)\n\tmovups %%xmm11, 176(%0)\n\t"
			 "movups %%xmm12, 192(%0)\n\tmovups %%xmm13, 208(%0)\n\tmovups %%xmm14, 224(%0)\n\t"
			 "movups %%xmm15, 240(%0)\n\t" ::"r"(low)
			 : "memory");
	if (__builtin_cpu_supports("avx512f"))
		__asm__ volatile("vmovdqu64 %%zmm16, 0(%0)\n\tvmovdqu64 %%zmm17, 64(%0)\n\t"
				 "vmovdqu64 %%zmm18, 128(%0)\n\tvmovdqu64 %%zmm19, 192(%0)\n\t"
				 "vmovdqu64 %%zmm20, 256(%0)\n\tvmovdqu64 %%zmm31, 320(%0)\n\t" ::"r"(high)
				 : "memory");
	for (int i = 0; i < 32; i++)
		sum = sum * 31 + low[i / 2][i % 2];
	for (int i = 0; i < 128; i++)
		sum = sum * 31 + high[i / 8][i % 8];
	printf("after %s: 0x%016llx\n", after, (unsigned long long)sum);
}

/* The dynamic linker saves them on the stack, where a struct that is sent may lie. */
static void vector_registers(void)
{
	char bytes[700] = "bytes";
	struct timeval now;
	int ends[2];
	void *p;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		exit(1);
	print_registers("socketpair");
	for (int i = 0; i < 2; i++) {
		memset(bytes, 'a' + i, sizeof(bytes));
		if (send(ends[0], bytes, sizeof(bytes), 0) != sizeof(bytes))
			exit(1);
		print_registers("send");
		if (recv(ends[1], bytes, sizeof(bytes), 0) != sizeof(bytes))
			exit(1);
		print_registers("recv");
		gettimeofday(&now, NULL);
		print_registers("gettimeofday");
		p = malloc(100000);
		print_registers("malloc");
		free(p);
		print_registers("free");
	}
}
#else
static void vector_registers(void)
{
}
#endif

/* A buffer on the stack, 4 KiB and more below the frame of the last call, of which nothing is written. */
static __attribute__((noinline)) void print_unwritten(const char *after)
{
	volatile uint64_t buffer[1280];
	uint64_t sum = 0;

	__asm__ volatile("" ::"r"(buffer) : "memory");
	for (size_t i = 0; i < sizeof(buffer) / sizeof(*buffer); i++)
		sum = sum * 31 + buffer[i];
	printf("below %s: 0x%016llx\n", after, (unsigned long long)sum);
}

/* OpenMPI sends such a buffer to its launcher. */
static void unwritten_stack(void)
{
	struct addrinfo *found = NULL;
	int fd;

	fd = open("/proc/self/maps", O_RDONLY);
	print_unwritten("open");
	close(fd);
	if (!getaddrinfo("localhost", NULL, NULL, &found))
		freeaddrinfo(found);
	print_unwritten("getaddrinfo");
	ibv_get_device_list(&fd);
	print_unwritten("ibv_get_device_list");
}

static void crash(void)
{
	printf("%ld\n", (long)time(NULL));
	fflush(stdout);
	/* It comes out where lines do. */
	printf("buffered\n");
	*(volatile int *)(uintptr_t)strtoul("8", NULL, 0) = 1;
}

static void *wait_for_ever(void *fd)
{
	char c;

	return (void *)recv(*(int *)fd, &c, 1, 0);
}

/* A thread is still in a call when the process ends: that call has no record. */
static void blocked_thread_at_exit(void)
{
	int fd = socket_with_datagram(1);
	long sum = 0;
	pthread_t t;
	char c;

	recv(fd, &c, 1, 0);
	pthread_create(&t, NULL, wait_for_ever, &fd);
	usleep(200000);
	for (int i = 0; i < 100000; i++)
		sum += time(NULL) > 0;
	printf("%ld\n", sum);
}

/* ---------------------------------------------------------- descriptors */

static void close_all_descriptors(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	printf("closed all, one more: %d", close(700));
	printf(" errno %d, time %ld\n", errno, (long)time(NULL));
}

static void close_all_by_range(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int closed = close_range(3, ~0u, 0);

	printf("close_range %d, closed %d, time %ld\n", closed, close(fd), (long)time(NULL));
	closefrom(3);
	printf("time %ld\n", (long)time(NULL));
}

static void *clock_reader(void *unused)
{
	return (void *)(uintptr_t)(time(NULL) > 0);
}

static int threads_that_work(int n)
{
	int worked = 0;
	void *result;
	pthread_t t;

	while (n-- && !pthread_create(&t, NULL, clock_reader, NULL) && !pthread_join(t, &result))
		worked += result != NULL;
	return worked;
}

/* Threads that begin later have their stream all the same; sreplay's numbers seem closed. */
static void close_all_then_threads(void)
{
	int closed = 0;

	close_range(3, ~0u, 0);
	printf("%d threads\n", threads_that_work(3));
	closefrom(3);
	printf("%d threads\n", threads_that_work(3));
	for (int fd = 3; fd < 1024; fd++)
		closed += close(fd) == 0;
	for (int fd = 512; fd < 1024; fd++)
		closed += dup(fd) >= 0;
	printf("%d threads, %d of no descriptors closed\n", threads_that_work(3), closed);
}

static void duplicates(void)
{
	int fd = socket_with_datagram(7), copy = dup(fd), other = dup2(fd, 40),
	    third = dup3(fd, 41, O_CLOEXEC);
	char data[16];

	close(fd);
	close(copy);
	printf("%d %d %d: recv", copy, other, third);
	printf(" %zd\n", recv(third, data, sizeof(data), 0));
}

static void poll_a_captured_descriptor_with_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), set = epoll_create1(0);

	printf("epoll_ctl %d\n", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

/* ------------------------------------------------------------- memory */

/* Fills what the next function's locals will lie on, differently each time. */
static __attribute__((noinline)) void scribble(void)
{
	volatile unsigned char stack[2048];
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = (unsigned char)(now.tv_nsec >> (i % 8));
}

static __attribute__((noinline)) void connect_with_leftovers(int fd)
{
	struct sockaddr_in addr; /* sin_zero is not set */

	addr.sin_family = AF_INET;
	addr.sin_port = htons(9);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	printf("connect %d\n", connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
}

static void leftovers_in_an_address(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	scribble();
	connect_with_leftovers(fd);
}

static void truncated_datagram(void)
{
	int fd = socket_with_datagram(9000);
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(page + 4096, 4096, PROT_NONE);
	printf("recv %zd\n", recv(fd, page + 4092, 4, MSG_PEEK | MSG_TRUNC));
}

static void send_unreadable(int fd, const void *p, size_t n)
{
	ssize_t sent = send(fd, p, n, 0);
	int send_error = sent < 0 ? errno : 0;
	ssize_t written = write(fd, p, n);

	printf("send %zd (%d) write %zd (%d)\n", sent, send_error, written,
	       written < 0 ? errno : 0);
}

/* All of it, its end, one page in the middle of many, none of it. */
static void unreadable_buffers(void)
{
	size_t pages = 100, bytes = pages * 4096;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int pair[2], datagrams = socket_with_datagram(1);

	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
	mprotect(p + 90 * 4096, 4096, PROT_NONE);
	send_unreadable(datagrams, NULL, 100);
	send_unreadable(datagrams, p + 90 * 4096 - 4, 8);
	send_unreadable(datagrams, p + 90 * 4096 + 4, 8);
	send_unreadable(datagrams, p + 90 * 4096 - 8, 8);
	send_unreadable(pair[0], p + 89 * 4096, 3 * 4096);
	send_unreadable(pair[0], p, bytes);
	send_unreadable(pair[0], (void *)-4096, 8192);
	munmap(p, bytes);
	send_unreadable(datagrams, p, 100);
	send_unreadable(datagrams, "x", 1);
}

static void addresses(void)
{
	int local;

	printf("program %#lx library %#lx environment %p break %p\n", (unsigned long)addresses, (unsigned long)strtol,
	       (void *)environ[0], sbrk(0));
	printf("stack %p heap %p", (void *)&local, malloc(100));
	printf(" large %p map %p\n", malloc(10 << 20),
	       mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void many_registrations(void)
{
	for (int i = 0; i < 100000; i++)
		free(malloc((size_t)i % 5000));
	addresses();
}

static atomic_bool ready, exiting, waiting;

/* Asks on standard output, and standard input says so: or nobody does, and all is as usual. */
static void end_when_told(void)
{
	char c = '?';
	ssize_t n;

	while (!atomic_load(&ready))
		__builtin_ia32_pause();
	if (write(1, &c, 1) != 1)
		return;
	do
		n = read(0, &c, 1);
	while (n < 0 && errno == EINTR);
	atomic_store(&exiting, n == 1);
	while (n == 1 && !atomic_load(&waiting))
		__builtin_ia32_pause();
	for (int i = 0; i < 100000; i++)
		__builtin_ia32_pause();
}

static void *exit_a_little_later(void *unused)
{
	while (!atomic_load(&exiting))
		__builtin_ia32_pause();
	for (int i = 0; i < 4000000; i++)
		__builtin_ia32_pause();
	exit(9);
}

/* What it is in when the process ends is never recorded, and comes before that end. */
static void *wait_for_nothing(void *unused)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&mutex);
	atomic_store(&ready, true);
	while (!atomic_load(&exiting))
		__builtin_ia32_pause();
	atomic_store(&waiting, true);
	for (;;)
		pthread_cond_wait(&never, &mutex);
	return NULL;
}

/* As one does from whose hands main has taken things.  The process is gone before that. */
static void exit_under_an_exit(void)
{
	pthread_t t;

	printf("buffered until the end\n");
	atexit(end_when_told);
	pthread_create(&t, NULL, wait_for_nothing, NULL);
	pthread_create(&t, NULL, exit_a_little_later, NULL);
}

static void exit_at_once(int signal)
{
	_exit(7);
}

/* The signal waits for the next call, which is the process's end. */
static void exit_in_a_handler_at_exit(void)
{
	struct itimerval soon = {.it_value.tv_usec = 300};

	signal(SIGALRM, exit_at_once);
	setitimer(ITIMER_REAL, &soon, NULL);
	for (int i = 0; i < 50000; i++)
		__builtin_ia32_pause();
}

/* A routine that is run once: its frame must be where it was, as it gives a thread an address in it (node). */
static void *end_at_once(void *argument)
{
	return argument;
}

static void begin_a_thread(void)
{
	pthread_t id;
	void *result = NULL;
	int mine;

	pthread_create(&id, NULL, end_at_once, &mine);
	pthread_join(id, &result);
	puts(result == &mine ? "it had the address" : "it had another address");
}

static void once_with_an_address(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	begin_a_thread();
	pthread_once(&once, begin_a_thread);
	pthread_once(&once, begin_a_thread);
}

/* Threads that wait while others load code: nothing interrupts them. */
static int wake_up[2][2];

static void *wait_by_poll(void *unused)
{
	struct pollfd p = {.fd = wake_up[0][0], .events = POLLIN};
	int n = poll(&p, 1, -1);

	return (void *)(intptr_t)(n < 0 ? -errno : n);
}

static void *wait_by_epoll(void *unused)
{
	struct epoll_event e = {.events = EPOLLIN};
	int fd = epoll_create1(0), n;

	epoll_ctl(fd, EPOLL_CTL_ADD, wake_up[1][0], &e);
	n = epoll_wait(fd, &e, 1, 60000);
	return (void *)(intptr_t)(n < 0 ? -errno : n);
}

static void *wait_by_sleep(void *unused)
{
	struct timespec t = {.tv_nsec = 400000000};

	return (void *)(intptr_t)nanosleep(&t, NULL);
}

static void waits_while_code_is_loaded(void)
{
	void *(*waits[])(void *) = {wait_by_poll, wait_by_epoll, wait_by_sleep};
	pthread_t t[3];
	void *result;

	/* So often that the instruction is replaced. */
	for (int i = 0; i < 2000; i++)
		__builtin_ia32_rdtsc();
	for (int i = 0; i < 2; i++)
		if (pipe(wake_up[i]))
			exit(1);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, waits[i], NULL);
	for (int i = 0; i < 2; i++) {
		unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (code == MAP_FAILED)
			exit(1);
		usleep(50000);
	}
	for (int i = 0; i < 2; i++)
		if (write(wake_up[i][1], "x", 1) != 1)
			exit(1);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], &result);
		printf("waiting ended with %d\n", (int)(intptr_t)result);
	}
}

static volatile sig_atomic_t bus_errors;

static void note_bus_error(int signal_number)
{
	bus_errors++;
}

/* The only handler is for a signal that faults raise; it is sent to code that makes no call. */
static void sent_faults(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGBUS};
	struct itimerspec often = {.it_interval.tv_nsec = 10000000, .it_value.tv_nsec = 10000000};
	timer_t timer;

	signal(SIGBUS, note_bus_error);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	for (int i = 1; i < 4; i++) {
		while (bus_errors < i)
			;
		printf("%d came\n", i);
	}
	timer_delete(timer);
}

static void trap_instruction(void)
{
	printf("%ld\n", (long)time(NULL));
	fflush(stdout);
	__asm__("int3");
}

static void trap_signal(void)
{
	printf("%ld\n", (long)time(NULL));
	fflush(stdout);
	raise(SIGTRAP);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"threads-then-fork", threads_then_fork},
    {"vfork-that-fails-to-exec", vfork_that_fails_to_exec},
    {"vfork-that-closes", vfork_that_closes},
    {"crash", crash},
    {"vector-registers", vector_registers},
    {"unwritten-stack", unwritten_stack},
    {"dlerror", dlerror_after_other_calls},
    {"blocked-thread-at-exit", blocked_thread_at_exit},
    {"close-all-descriptors", close_all_descriptors},
    {"close-all-by-range", close_all_by_range},
    {"close-all-then-threads", close_all_then_threads},
    {"duplicates", duplicates},
    {"epoll", poll_a_captured_descriptor_with_epoll},
    {"leftovers-in-an-address", leftovers_in_an_address},
    {"truncated-datagram", truncated_datagram},
    {"waits-while-code-is-loaded", waits_while_code_is_loaded},
    {"unreadable-buffers", unreadable_buffers},
    {"addresses", addresses},
    {"heap-churn", many_registrations},
    {"exit-under-an-exit", exit_under_an_exit},
    {"exit-in-a-handler-at-exit", exit_in_a_handler_at_exit},
    {"once-with-an-address", once_with_an_address},
    {"conservative-collector", conservative_collector},
    {"sent-faults", sent_faults},
    {"trap-instruction", trap_instruction},
    {"trap-signal", trap_signal},
};

int main(int argc, char **argv)
{
	int n;

	ibv_get_device_list(&n); /* so that the process is recorded */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return 3;
		}
		if (argc < 2)
			puts(cases[i].name);
	}
	return argc > 1;
}
