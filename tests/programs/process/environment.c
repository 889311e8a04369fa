/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * environment.c: prints what differs from run to run: times, chance, process
 * ids, what arrives on sockets, ephemeral ports, and heap addresses between
 * them.  Its replay has to print the same.
 *
 * It talks to itself over TCP, and asks libibverbs for devices (there need be
 * none), so that the shim takes it for an RDMA program.
 */
#include <alloca.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

static void times(void)
{
	struct timeval tv;
	struct timespec ts;

	gettimeofday(&tv, NULL);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	printf("time %ld %ld.%06ld %ld.%09ld\n", (long)time(NULL), (long)tv.tv_sec,
	       (long)tv.tv_usec, (long)ts.tv_sec, ts.tv_nsec);
	usleep(1000);
	nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
}

static void chance(void)
{
	unsigned char bytes[8];
	char name[64];

	if (getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes))
		printf("random %02x%02x%02x%02x\n", bytes[0], bytes[1], bytes[2], bytes[3]);
	if (!getentropy(bytes, sizeof(bytes)))
		printf("entropy %02x%02x%02x%02x\n", bytes[0], bytes[1], bytes[2], bytes[3]);
	printf("process %d of %d on %s\n", getpid(), getppid(),
	       gethostname(name, sizeof(name)) ? "?" : name);
}

/* Addresses must not depend on what the libraries did meanwhile. */
static void addresses(void)
{
	void *small = malloc(40), *large = malloc(3 << 20), *aligned = aligned_alloc(4096, 8192);

	void *map = mmap(NULL, 3 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	printf("heap %p %p %p, mapped %p\n", small, large, aligned, map);
	munmap(map, 3 << 20);
	free(large);
	free(aligned);
}

static int listener(struct sockaddr_in *addr)
{
	struct addrinfo hints = {
	    .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *res, *ai;
	socklen_t len = sizeof(*addr);
	int fd, n = 0, one = 1, err = getaddrinfo("127.0.0.1", "0", &hints, &res);

	if (err) {
		printf("getaddrinfo: %s\n", gai_strerror(err));
		exit(1);
	}
	for (ai = res; ai; ai = ai->ai_next)
		n++;
	fd = socket(res->ai_family, res->ai_socktype, res->ai_protocol);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, res->ai_addr, res->ai_addrlen) || listen(fd, 5)) {
		perror("bind");
		exit(1);
	}
	freeaddrinfo(res);
	getsockname(fd, (struct sockaddr *)addr, &len);
	printf("%d addresses; listening at fd %d, port %d\n", n, fd, ntohs(addr->sin_port));
	return fd;
}

static void sockets(void)
{
	struct sockaddr_in addr, peer;
	socklen_t len = sizeof(peer), small = 2;
	int fd = listener(&addr), client = socket(AF_INET, SOCK_STREAM, 0), server, copy, value = 0;
	struct pollfd p;
	char buffer[64] = "";

	fcntl(client, F_SETFL, fcntl(client, F_GETFL) | O_NONBLOCK);
	printf("connect %d", connect(client, (struct sockaddr *)&addr, sizeof(addr)));
	printf(" errno %d\n", errno);
	server = accept(fd, (struct sockaddr *)&peer, &len);
	printf("accepted fd %d from port %d, %u bytes of address\n", server, ntohs(peer.sin_port),
	       len);
	printf("too early: %zd", recv(client, buffer, sizeof(buffer), 0));
	printf(" errno %d\n", errno);
	printf("sent %zd\n", write(server, "some bytes", 10));
	p = (struct pollfd){.fd = client, .events = POLLIN};
	printf("poll %d", poll(&p, 1, 1000));
	printf(" revents %x\n", p.revents);
	copy = fcntl(client, F_DUPFD_CLOEXEC, 20);
	printf("read %zd from fd %d: %s\n", read(copy, buffer, sizeof(buffer)), copy, buffer);
	len = sizeof(value);
	printf("getsockopt %d", getsockopt(client, SOL_SOCKET, SO_SNDBUF, &value, &len));
	printf(" sndbuf %d\n", value);
	printf("getpeername %d, %u of its bytes wanted",
	       getpeername(client, (struct sockaddr *)buffer, &small), small);
	printf("\nclose %d %d %d %d", close(client), close(server), close(fd), close(copy));
	printf(" again %d", close(copy));
	printf(" errno %d\n", errno);
}

/* Of variables that nobody has written: what was left on the stack before main. */
static __attribute__((noinline)) unsigned long never_written(size_t words)
{
	unsigned long *room = alloca(words * sizeof(*room)), sum = 0;

	__asm__ volatile("" : : "r"(room) : "memory");
	for (size_t i = 0; i < words; i++)
		sum = sum * 31 + room[i];
	return sum;
}

int main(int argc, char **argv)
{
	unsigned long left = never_written(4096);
	int n = 0, rounds = argc > 1 ? atoi(argv[1]) : 3;
	struct ibv_device **list = ibv_get_device_list(&n);

	printf("devices: %d, errno %d, left on the stack %lx\n", n, list ? 0 : errno, left);
	if (list)
		ibv_free_device_list(list);
	for (int i = 0; i < rounds; i++) {
		times();
		chance();
		addresses();
		sockets();
	}
	return 7;
}
