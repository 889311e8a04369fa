/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_region.c: peers write into a file that is mapped as a region, and the program reads the file by system calls.
 *
 *   file_region file | file_in_memory
 *
 * The file lies on a disk, or in /dev/shm.  A queue pair connected to itself.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define PAGE   4096
#define SIZE   (4 * PAGE)
#define ROUNDS 4
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static char message[64];
static struct ibv_mr *of, *region;
static struct ibv_qp *qp;

static int make_file(const char *how)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "%s/file_region-XXXXXX", strcmp(how, "file") ? "/dev/shm" : "/var/tmp");
	fd = mkstemp(name);
	check(fd < 0 || unlink(name) || ftruncate(fd, SIZE) ? NULL : name, "mkstemp");
	return fd;
}

static void connect_to_itself(void *mapped)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = check(list && list[0] ? ibv_open_device(list[0]) : NULL, "a device");
	struct ibv_pd *pd = check(ibv_alloc_pd(context), "ibv_alloc_pd");
	struct ibv_cq *cq = check(ibv_create_cq(context, 8, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};

	of = check(ibv_reg_mr(pd, message, sizeof(message), 0), "ibv_reg_mr");
	region = check(ibv_reg_mr(pd, mapped, SIZE, ACCESS), "ibv_reg_mr");
	qp = check(ibv_create_qp(pd, &attr), "ibv_create_qp");
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr state = loopback_attr(s, qp->qp_num, ACCESS);

		check(ibv_modify_qp(qp, &state, loopback_mask(s)) ? NULL : qp, "ibv_modify_qp");
	}
}

static void write_there(size_t at, int round)
{
	struct ibv_sge sge = {(uintptr_t)message, sizeof(message), of->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	memset(message, 0, sizeof(message));
	snprintf(message, sizeof(message), "round %d, at %zu", round, at);
	wr.wr.rdma.remote_addr = (uintptr_t)region->addr + at;
	wr.wr.rdma.rkey = region->rkey;
	check(ibv_post_send(qp, &wr, &bad) ? NULL : qp, "ibv_post_send");
	while (!ibv_poll_cq(qp->send_cq, 1, &wc))
		;
	check(wc.status == IBV_WC_SUCCESS ? qp : NULL, "ibv_poll_cq");
}

int main(int argc, char **argv)
{
	int fd = make_file(argc > 1 ? argv[1] : "file");
	char *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char text[PAGE + 100] = "";
	struct iovec parts[] = {{text, 6}, {text + 6, 58}};

	check(mapped == MAP_FAILED ? NULL : mapped, "mmap");
	connect_to_itself(mapped);
	strcpy(mapped + 200, "its own");
	for (int round = 0; round < ROUNDS; round++) {
		write_there(PAGE * (size_t)round, round);
		printf("pread %zd %s\n", pread(fd, text, 64, PAGE * (off_t)round), text);
		write_there(PAGE * (size_t)round + 128, round);
		lseek(fd, PAGE * (off_t)round + 128, SEEK_SET);
		printf("read %zd %s\n", read(fd, text, sizeof(text)), text);
		write_there(PAGE * (size_t)round + 256, round);
		printf("preadv %zd %s\n", preadv(fd, parts, 2, PAGE * (off_t)round + 256), text);
	}
	printf("%zd %s\n", pread(fd, text, 64, 200), text);
	printf("%s\n", mapped + PAGE);
	return 0;
}
