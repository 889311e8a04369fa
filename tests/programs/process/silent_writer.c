/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * silent_writer.c: a child announces to its parent's recorder that it is about to write into the parent's memory
 * (shim/exposed/page/announced.h), and then writes nothing, as a process does that is stopped at that moment.
 *
 *     silent_writer NAME
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "shim/exposed/page/announced.h"

static struct announced *find_parents(void)
{
	struct announced_head head = {0};
	struct iovec here = {&head, sizeof(head)}, there = {(void *)ANNOUNCED_BASE, sizeof(head)};
	char path[64];
	void *p;
	int fd;

	if (process_vm_readv(getppid(), &here, 1, &there, 1, 0) != sizeof(head) || !head.id)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getppid(), (int)head.fd);
	fd = open(path, O_RDWR);
	p = fd < 0 ? MAP_FAILED : mmap(NULL, ANNOUNCED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)ZONES_BYTES);
	return p == MAP_FAILED ? NULL : p;
}

static void announce(int told)
{
	struct announced *a = find_parents();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (a) {
		a->slots[0].writer = getpid();
		a->slots[0].n = 0;
		atomic_store(&a->slots[0].state, ANNOUNCED_ASKED);
		atomic_fetch_add(&a->pending, 1);
	}
	if (write(told, a ? "1" : "0", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int shared = shm_open(argv[1], O_RDWR | O_CREAT, 0600), told[2];
	volatile char *p;
	struct stat st;
	char is_there = 0;
	pid_t child;

	if (argc != 2 || shared < 0 || ftruncate(shared, 4096) || pipe(told))
		return 2;
	p = check(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0), "shared memory");
	child = fork();
	if (!child)
		announce(told[1]);
	if (read(told[0], &is_there, 1) != 1)
		return 1;
	/* A call, and a load that is recorded. */
	fstat(shared, &st);
	printf("%s: %d, went on\n", is_there == '1' ? "announced" : "no recorder", *p);
	kill(child, SIGKILL);
	return 0;
}
