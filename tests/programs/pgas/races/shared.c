/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "races.h"

struct shared *shared;
uint64_t *mine, *other;
uint64_t one = 1;

void fill(uint64_t *words, uint64_t value)
{
	for (int i = 0; i < WORDS; i++)
		words[i] = value;
}

void put(int rank)
{
	pgas_put(rank, shared->data, mine, BYTES);
}

void get(int rank)
{
	pgas_get(rank, mine, shared->data, BYTES);
}

void raise_flag(void)
{
	pgas_put(1, &shared->flag, &one, sizeof(one));
}

bool is(int rank)
{
	return pgas.rank == rank;
}

static int make_listener(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t port;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&at, &size))
		pgas_fail("cannot listen");
	port = at.sin_port;
	pgas_put(0, &shared->port, &port, sizeof(port));
	return fd;
}

int meet(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = is(1) ? make_listener() : -1, fd = -1;

	pgas_barrier();
	if (is(0)) {
		at.sin_port = (in_port_t)pgas_load(&shared->port);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
			pgas_fail("cannot connect");
	} else if (is(1)) {
		fd = accept(listener, NULL, NULL);
	}
	pgas_barrier();
	return fd;
}

void wait_for_counter(void)
{
	while (!pgas_fetch_add(OWNER, &shared->counter, 0))
		;
}

void await_own(void)
{
	struct ibv_wc wc;

	for (;;) {
		if (!ibv_poll_cq(pgas.cq, 1, &wc))
			continue;
		if (wc.wr_id == OWN_REQUEST)
			return;
		pgas.peers[wc.wr_id].done++;
	}
}

void tell(int fd)
{
	if (write(fd, "", 1) != 1)
		pgas_fail("cannot write");
}

void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		pgas_fail("cannot read");
}
