/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quiet.c: what a process looks like from inside that has nothing to do with RDMA,
 * or whose device is not recorded.  [DEVICE]: opens one first, and says whose functions it has.
 *
 * What it does from the word "main" to "end" is compared system call by system call.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Mappings at the addresses that the shim keeps for itself: see shim/memory/heap.h. */
static int arenas(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long long from;
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%llx", &from) == 1 && from >> 40 >= 0x20 && from >> 40 < 0x24;
	if (f)
		fclose(f);
	return n;
}

static const char *owner(void *function)
{
	Dl_info info;
	const char *slash;

	if (!dladdr(function, &info))
		return "nobody";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

static void use_a_device(void *verbs)
{
	struct ibv_device **(*list)(int *) =
	    (struct ibv_device * *(*)(int *)) dlsym(verbs, "ibv_get_device_list");
	struct ibv_context *(*open_device)(struct ibv_device *) =
	    (struct ibv_context * (*)(struct ibv_device *)) dlsym(verbs, "ibv_open_device");
	struct ibv_context *context = open_device(list(NULL)[0]);

	printf("looked up %s, operation %s\n", owner((void *)open_device),
	       owner((void *)context->ops.poll_cq));
}

/* Whether its exec has failed, a vfork child can tell by a plain store. */
static int children(void)
{
	volatile int failed = 0;
	pid_t child = fork();
	int status;

	if (!child)
		_exit(3);
	waitpid(child, &status, 0);
	child = vfork();
	if (!child) {
		execl("/no/such/program", "no", NULL);
		failed = 1;
		_exit(4);
	}
	waitpid(child, NULL, 0);
	return failed * 10 + WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	void *verbs = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	write(STDOUT_FILENO, "main\n", 5);
	if (verbs)
		use_a_device(verbs);
	free(malloc(100));
	usleep(1);
	close(dup(1));
	close(socket(AF_INET, SOCK_DGRAM, 0));
	write(STDOUT_FILENO, "end\n", 4);
	/* Not compared: how their calls mix is chance. */
	printf("children: %d\n", children());
	printf("threads %d, descriptors %d, arenas %d\n", entries("/proc/self/task") - 2,
	       entries("/proc/self/fd") - 3, arenas());
	return 0;
}
