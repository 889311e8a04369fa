/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outruns.c: rank 1 writes words into a page of rank 0, thousands of them, and waits for nobody.  Rank 0 looks at the page as a
 * whole from time to time: it writes it to a file, or the page is one of a mapped file, which it synchronises and reads.
 *
 *   outruns page|file [WRITES]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pgas/internal.h"

#define PAGE  4096
#define WORDS (PAGE / sizeof(uint64_t))
#define LOOKS 400

struct card {
	uint64_t address, rkey, over;
};

static struct card *card, *sent;
static struct ibv_qp *qps[PGAS_MAX_RANKS];
static struct ibv_cq *cq;

static void write_words(long writes)
{
	uint64_t *word = pgas_private(sizeof(*word));
	const struct ibv_sge sge = {(uintptr_t)word, sizeof(*word), pgas.private.mr->lkey};

	pgas_wait_for(&card->rkey, 1);
	for (long i = 1; i <= writes; i++) {
		*word = (uint64_t)i * 0x9e3779b97f4a7c15;
		pgas_transfer(qps[0], cq, IBV_WR_RDMA_WRITE, &sge, card->address + (uint64_t)i % WORDS * sizeof(*word), (uint32_t)card->rkey);
	}
	sent->over = 1;
	pgas_put(0, &card->over, &sent->over, sizeof(sent->over));
}

static uint64_t sum_of(const void *bytes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < PAGE; i++)
		sum = sum * 31 + ((const unsigned char *)bytes)[i];
	return sum;
}

/* Returns a sum of all that it has found. */
static uint64_t look(const uint64_t *page, int fd, bool is_mapped)
{
	static char found[PAGE];
	uint64_t sum = 0;

	for (int n = 0; !pgas_load(&card->over) && n < LOOKS; n++) {
		/* The one waits for the disk, which no test of loads should do. */
		bool done = is_mapped ? !msync((void *)page, PAGE, MS_ASYNC) : pwrite(fd, page, PAGE, 0) == PAGE;

		if (!done || pread(fd, found, PAGE, 0) != PAGE)
			pgas_fail("the file: %m");
		sum = sum * 31 + sum_of(found);
		for (int k = 0; k < n % 7; k++)
			sum += *(const volatile uint64_t *)&page[n];
	}
	return sum;
}

static uint64_t own(bool is_mapped)
{
	char name[] = "/tmp/outruns.XXXXXX";
	int fd = mkstemp(name);
	uint64_t *page = MAP_FAILED, sum;
	struct ibv_mr *mr;

	if (fd >= 0 && !ftruncate(fd, PAGE))
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, is_mapped ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, is_mapped ? fd : -1, 0);
	if (page == MAP_FAILED)
		pgas_fail("no page: %m");
	unlink(name);
	mr = pgas_own_region(page, PAGE);
	*sent = (struct card){(uintptr_t)page, mr->rkey, 0};
	pgas_put(1, &card->address, &sent->address, sizeof(sent->address));
	pgas_put(1, &card->rkey, &sent->rkey, sizeof(sent->rkey));
	sum = look(page, fd, is_mapped);
	pgas_wait_for(&card->over, 1);
	ibv_dereg_mr(mr);
	sum = sum * 31 + sum_of(page);
	munmap(page, PAGE);
	close(fd);
	return sum;
}

int main(int argc, char **argv)
{
	static const char usage[] = "usage: outruns page|file [WRITES]\n";
	struct ibv_qp_init_attr attr = {.cap = {8, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	long writes = pgas_argument(argc, argv, 2, 6000, 1, usage);

	if (argc < 2 || (strcmp(argv[1], "page") && strcmp(argv[1], "file"))) {
		fputs(usage, stderr);
		return 2;
	}
	pgas_start(1 << 16, 1 << 16);
	card = pgas_shared(sizeof(*card));
	sent = pgas_private(sizeof(*sent));
	cq = attr.send_cq = attr.recv_cq = ibv_create_cq(pgas.device, 16, NULL, NULL, 0);
	if (!cq)
		pgas_fail("cannot create a completion queue: %m");
	pgas_make_queue_pairs(qps, &attr);
	pgas_barrier();
	if (pgas.rank == 0)
		printf("%016llx\n", (unsigned long long)own(!strcmp(argv[1], "file")));
	else if (pgas.rank == 1)
		write_words(writes);
	pgas_barrier();
	for (int i = 0; i < pgas.ranks; i++)
		if (qps[i])
			ibv_destroy_qp(qps[i]);
	ibv_destroy_cq(cq);
	return pgas_end(true);
}
