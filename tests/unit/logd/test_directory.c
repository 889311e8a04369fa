/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_directory.c: finds the owner of a queue pair. Two daemons play two nodes, at two
 * loopback addresses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "logd/ring/directory_client.h"
#include "harness.h"
#include "logd/base/rawsys.h"
#include "logd/nodes/secret.h"

static int port;

/* ------------------------------------------------------------------ two nodes */

struct node {
	struct harness h;
	char address[16], listen[32], key[128];
};

static void write_key(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void start_daemon(struct node *n)
{
	const char *options[] = {"--listen", n->listen, NULL};

	daemon_start(&n->h, options);
}

static void node_begin(struct node *n, int number)
{
	harness_begin(&n->h);
	snprintf(n->address, sizeof(n->address), "127.0.0.%d", number);
	snprintf(n->listen, sizeof(n->listen), "%s:%d", n->address, port);
	snprintf(n->key, sizeof(n->key), "%s/key", n->h.dir);
	write_key(n->key, "the key of the job, of 32 bytes.", 0600);
	start_daemon(n);
}

static void node_end(struct node *n)
{
	daemon_kill(&n->h, SIGTERM);
	harness_end(&n->h);
}

static void gid_of(const char *address, uint8_t *gid)
{
	memset(gid, 0, SR_GID_BYTES);
	gid[10] = gid[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, address, gid + 12), 1);
}

static int join(struct sr_directory *d, struct node *n, int rank, uint32_t member,
		const char *hosts, char *error, size_t size)
{
	struct sr_job job = {.name = "a job",
			     .key_path = n->key,
			     .hosts = hosts,
			     .rank = rank,
			     .member = member,
			     .region = 0x1000u * (uint64_t)(rank + 1)};

	memset(d, 0, sizeof(*d));
	return sr_directory_join(d, n->h.socket, &job, error, size);
}

static void must_join(struct sr_directory *d, struct node *n, int rank, uint32_t member)
{
	char error[320] = "";

	if (join(d, n, rank, member, NULL, error, sizeof(error)))
		fail_msg("%s", error);
}

/* Two processes on one node: ranks and members 0 and 1. */
static void members_begin(struct node *n, struct sr_directory *a, struct sr_directory *b)
{
	node_begin(n, 2);
	must_join(a, n, 0, 0);
	must_join(b, n, 1, 1);
}

/* A process on each of two nodes: ranks and members 0 and 1. */
static void two_nodes(struct node *one, struct node *two, struct sr_directory *a,
		      struct sr_directory *b)
{
	node_begin(one, 2);
	node_begin(two, 3);
	must_join(a, one, 0, 0);
	must_join(b, two, 1, 1);
}

static void two_nodes_end(struct node *one, struct node *two, struct sr_directory *a,
			  struct sr_directory *b)
{
	sr_directory_abandon(a);
	sr_directory_abandon(b);
	node_end(one);
	node_end(two);
}

static void add(struct sr_directory *d, const char *address, uint32_t number)
{
	struct sr_queue_pair qp = {.number = number, .rkey = number + 7, .gids = 1};

	gid_of(address, qp.gid[0]);
	assert_int_equal(sr_directory_add(d, &qp), 0);
}

/* `own` of d's node wants to connect to `number` at `address`. */
static int find(struct sr_directory *d, const char *own_address, uint32_t own, const char *address,
		uint32_t number, struct sr_found *found, char *error)
{
	struct sr_find f = {.own_number = own, .number = number};

	gid_of(own_address, f.own_gid);
	gid_of(address, f.gid);
	return sr_directory_find(d, &f, found, error, error ? 320 : 0);
}

/* ----------------------------------------------------------------------- tests */

static void finds_a_queue_pair_of_the_same_node(void **state)
{
	struct sr_directory a, b, c;
	struct sr_found found;
	struct node n;

	node_begin(&n, 2);
	must_join(&a, &n, 0, 0);
	must_join(&b, &n, 5, 1);
	must_join(&c, &n, 7, SR_OUTSIDER);
	add(&a, n.address, 10);
	add(&b, n.address, 20);
	add(&c, n.address, 30);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), 0);
	assert_int_equal(found.rank, 5);
	assert_int_equal(found.member, 1);
	assert_int_equal(found.region, 0x6000);
	assert_int_equal(found.rkey, 27);
	/* Two members: each needs a cell in the other's region. */
	assert_int_equal(found.cell, 0);
	assert_int_equal(found.own_cell, 0);
	/* An outsider writes no clock: a's region needs no other cell. */
	assert_int_equal(find(&a, n.address, 10, n.address, 30, &found, NULL), 0);
	assert_int_equal(found.member, SR_OUTSIDER);
	assert_int_equal(found.cell, 0);
	assert_int_equal(found.own_cell, SR_NO_CELL);
	assert_int_equal(find(&a, n.address, 10, n.address, 99, &found, NULL), -ENOENT);
	sr_directory_abandon(&a);
	sr_directory_abandon(&b);
	sr_directory_abandon(&c);
	node_end(&n);
}

static int join_job(struct sr_directory *d, struct node *n, const char *key, uint32_t member, bool is_child)
{
	struct sr_job job = {.name = "a job", .key_path = key, .member = member, .is_child = is_child, .region = 0x1000};
	char error[320];

	memset(d, 0, sizeof(*d));
	return sr_directory_join(d, n->h.socket, &job, error, sizeof(error));
}

/* Ranks have their numbers from 0 on, and may come late. */
static void children_get_numbers_from_the_end(void **state)
{
	struct sr_directory d[7];
	struct node n;

	node_begin(&n, 2);
	assert_int_equal(join_job(&d[0], &n, NULL, 60, false), 0);
	assert_int_equal(join_job(&d[1], &n, NULL, 60, true), 0);
	assert_int_equal(sr_directory_member(&d[1]), 63);
	assert_int_equal(join_job(&d[2], &n, NULL, 61, false), 0);
	/* A successor of the daemon knows it, too. */
	daemon_kill(&n.h, SIGKILL);
	start_daemon(&n);
	assert_int_equal(join_job(&d[3], &n, NULL, 60, true), 0);
	assert_int_equal(sr_directory_member(&d[3]), 62);
	assert_int_equal(join_job(&d[4], &n, NULL, 60, true), -ENOSPC);
	assert_int_equal(join_job(&d[5], &n, NULL, 62, false), -EADDRINUSE);
	/* Other nodes' daemons do not know what this one gives. */
	assert_int_equal(join_job(&d[6], &n, n.key, 0, true), -ENOSPC);
	for (size_t i = 0; i < sizeof(d) / sizeof(*d); i++)
		sr_directory_abandon(&d[i]);
	node_end(&n);
}

/* An XRC target has no key: a shared queue in the same domain gives the key. */
static void a_target_of_xrc_is_reached_by_a_shared_queue_of_its_process(void **state)
{
	struct sr_queue_pair target = {.number = 20, .gids = 1, .domain = 0x77};
	struct sr_queue_pair other = {
	    .number = 3 | SR_SHARED_QUEUE, .rkey = 33, .gids = 1, .domain = 0x78};
	struct sr_queue_pair shared = {
	    .number = 4 | SR_SHARED_QUEUE, .rkey = 44, .gids = 1, .domain = 0x77};
	struct sr_directory a, b;
	struct sr_found found;
	struct node n;

	members_begin(&n, &a, &b);
	add(&a, n.address, 10);
	gid_of(n.address, target.gid[0]);
	gid_of(n.address, other.gid[0]);
	gid_of(n.address, shared.gid[0]);
	assert_int_equal(sr_directory_add(&b, &target), 0);
	assert_int_equal(sr_directory_add(&b, &other), 0);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), 0);
	assert_int_equal(found.shared_queue, 0);
	assert_int_equal(sr_directory_add(&b, &shared), 0);
	/* A successor of the daemon knows it, too. */
	daemon_kill(&n.h, SIGKILL);
	start_daemon(&n);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), 0);
	assert_int_equal(found.shared_queue, 4);
	assert_int_equal(found.rkey, 44);
	assert_int_equal(found.cell, 0);
	/* It is no queue pair that one could connect to. */
	assert_int_equal(find(&a, n.address, 10, n.address, 4, &found, NULL), -ENOENT);
	assert_int_equal(sr_directory_remove(&b, &shared), 0);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), 0);
	assert_int_equal(found.shared_queue, 0);
	sr_directory_abandon(&a);
	sr_directory_abandon(&b);
	node_end(&n);
}

static void each_queue_pair_has_a_cell_of_its_own(void **state)
{
	struct sr_directory a, b;
	struct sr_found found;
	struct node n;

	members_begin(&n, &a, &b);
	for (uint32_t i = 0; i < 200; i++) {
		add(&a, n.address, 1000 + i);
		add(&b, n.address, 2000 + i);
		assert_int_equal(find(&a, n.address, 1000 + i, n.address, 2000 + i, &found, NULL),
				 0);
		assert_int_equal(found.cell, i);
		assert_int_equal(found.cells, i + 1);
		assert_int_equal(found.own_cell, i);
		/* The same one again, seen from the other side. */
		assert_int_equal(find(&b, n.address, 2000 + i, n.address, 1000 + i, &found, NULL),
				 0);
		assert_int_equal(found.cell, i);
		assert_int_equal(found.own_cell, i);
	}
	sr_directory_abandon(&a);
	sr_directory_abandon(&b);
	node_end(&n);
}

static void finds_a_queue_pair_of_another_node(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;

	two_nodes(&one, &two, &a, &b);
	/* The same number on both nodes: the GID tells. */
	add(&a, one.address, 10);
	add(&b, two.address, 10);
	assert_int_equal(find(&a, one.address, 10, two.address, 10, &found, NULL), 0);
	assert_int_equal(found.rank, 1);
	assert_int_equal(found.region, 0x2000);
	assert_int_equal(found.own_cell, 0);
	assert_int_equal(find(&b, two.address, 10, one.address, 10, &found, NULL), 0);
	assert_int_equal(found.rank, 0);
	assert_int_equal(find(&a, one.address, 10, two.address, 11, &found, NULL), -ENOENT);
	two_nodes_end(&one, &two, &a, &b);
}

static void asks_the_hosts_where_a_gid_is_no_address(void **state)
{
	struct sr_queue_pair qp = {
	    .number = 10, .rkey = 1, .gids = 1, .gid = {{0xfe, 0x80, [15] = 3}}};
	struct sr_find f = {.own_number = 10, .number = 10, .gid = {0xfe, 0x80, [15] = 3}};
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;

	node_begin(&one, 2);
	node_begin(&two, 3);
	assert_int_equal(join(&a, &one, 0, 0, "127.0.0.2,127.0.0.3", NULL, 0), 0);
	must_join(&b, &two, 1, 1);
	add(&a, one.address, 10);
	gid_of(one.address, f.own_gid);
	assert_int_equal(sr_directory_add(&b, &qp), 0);
	assert_int_equal(sr_directory_find(&a, &f, &found, NULL, 0), 0);
	assert_int_equal(found.rank, 1);
	f.number = 11;
	assert_int_equal(sr_directory_find(&a, &f, &found, NULL, 0), -ENOENT);
	two_nodes_end(&one, &two, &a, &b);
}

/*
 * The daemon that could know is not running: the answer says so. What another daemon knows
 * is found.
 */
static void a_host_that_the_job_names_and_that_has_no_daemon_is_told_of(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;
	char error[320] = "";
	int64_t begin;

	node_begin(&one, 2);
	node_begin(&two, 3);
	assert_int_equal(join(&a, &one, 0, 0, "127.0.0.9,127.0.0.3", NULL, 0), 0);
	must_join(&b, &two, 1, 1);
	add(&a, one.address, 10);
	add(&b, two.address, 20);
	begin = sr_sys_now_ms();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(find(&a, one.address, 10, two.address, 20, &found, error), 0);
		assert_int_equal(find(&a, one.address, 10, two.address, 21, &found, error), -ETIMEDOUT);
		assert_non_null(strstr(error, "127.0.0.9"));
	}
	assert_true(sr_sys_now_ms() - begin < 1000);
	two_nodes_end(&one, &two, &a, &b);
}

static void a_wrong_key_is_refused(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;

	node_begin(&one, 2);
	node_begin(&two, 3);
	write_key(two.key, "another key, of 32 bytes as well", 0600);
	must_join(&a, &one, 0, 0);
	must_join(&b, &two, 1, 1);
	add(&a, one.address, 10);
	add(&b, two.address, 20);
	assert_int_equal(find(&a, one.address, 10, two.address, 20, &found, NULL), -ENOENT);
	/* Both nodes have processes of both jobs: still nothing passes between the jobs. */
	sr_directory_abandon(&b);
	must_join(&b, &one, 1, 1);
	add(&b, two.address, 21);
	assert_int_equal(find(&a, one.address, 10, two.address, 21, &found, NULL), 0);
	two_nodes_end(&one, &two, &a, &b);
}

static void read_all(int fd, void *bytes, size_t size)
{
	assert_int_equal(recv(fd, bytes, size, MSG_WAITALL), (ssize_t)size);
}

/*
 * A client that knows the public id of a job but not its key gets no answer, not even with
 * a proof that another client has sent.
 */
static void a_proof_without_the_key_is_refused(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
	uint8_t key[SECRET_KEY_BYTES], other[SECRET_KEY_BYTES] = {1}, hello[8 + SECRET_NONCE_BYTES];
	uint8_t ask[SECRET_ID_BYTES + SECRET_NONCE_BYTES + SECRET_PROOF_BYTES], answer[256];
	struct secret_handshake talk = {.key = other, .side = SECRET_ASKER};
	struct sr_directory a;
	struct node n;
	char error[256];

	node_begin(&n, 2);
	must_join(&a, &n, 0, 0);
	assert_int_equal(secret_read_key(n.key, key, error, sizeof(error)), 0);
	inet_pton(AF_INET, n.address, &to.sin_addr);
	for (int right = 0; right < 2; right++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
		read_all(fd, hello, sizeof(hello));
		memcpy(talk.answerer, hello + 8, SECRET_NONCE_BYTES);
		secret_job_id(key, ask);
		memcpy(ask + SECRET_ID_BYTES, talk.asker, SECRET_NONCE_BYTES);
		talk.key = right ? key : other;
		secret_prove(&talk, SECRET_ASKER, ask + SECRET_ID_BYTES + SECRET_NONCE_BYTES);
		assert_int_equal(send(fd, ask, sizeof(ask), 0), (ssize_t)sizeof(ask));
		if (right)
			read_all(fd, answer, SECRET_PROOF_BYTES + SECRET_HEADER_BYTES);
		else
			assert_true(recv(fd, answer, sizeof(answer), 0) <= 0);
		close(fd);
	}
	sr_directory_abandon(&a);
	node_end(&n);
}

/* A connection from `from` to the node, which gets its hello; -1: it is closed without one. */
static int connect_from(const struct node *n, const char *from)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
	struct sockaddr_in self = {.sin_family = AF_INET};
	uint8_t hello[8 + SECRET_NONCE_BYTES];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, n->address, &to.sin_addr);
	inet_pton(AF_INET, from, &self.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&self, sizeof(self)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	if (recv(fd, hello, sizeof(hello), MSG_WAITALL) == sizeof(hello))
		return fd;
	close(fd);
	return -1;
}

/* A connection from `from` that shows the key is accepted. */
static void must_be_accepted(const struct node *n, const char *from)
{
	uint8_t ask[SECRET_ID_BYTES + SECRET_NONCE_BYTES + SECRET_PROOF_BYTES];
	uint8_t key[SECRET_KEY_BYTES], hello[8 + SECRET_NONCE_BYTES], answer[256];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
	struct sockaddr_in self = {.sin_family = AF_INET};
	struct secret_handshake talk = {.key = key, .side = SECRET_ASKER};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char error[256];

	assert_int_equal(secret_read_key(n->key, key, error, sizeof(error)), 0);
	inet_pton(AF_INET, n->address, &to.sin_addr);
	inet_pton(AF_INET, from, &self.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&self, sizeof(self)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	read_all(fd, hello, sizeof(hello));
	memcpy(talk.answerer, hello + 8, SECRET_NONCE_BYTES);
	secret_job_id(key, ask);
	memcpy(ask + SECRET_ID_BYTES, talk.asker, SECRET_NONCE_BYTES);
	secret_prove(&talk, SECRET_ASKER, ask + SECRET_ID_BYTES + SECRET_NONCE_BYTES);
	assert_int_equal(send(fd, ask, sizeof(ask), 0), (ssize_t)sizeof(ask));
	read_all(fd, answer, SECRET_PROOF_BYTES + SECRET_HEADER_BYTES);
	close(fd);
}

#define SILENT 200

/* Connections that say nothing, of one address and then of as many, take no place from a peer. */
static void the_silent_do_not_lock_out_those_with_the_key(void **state)
{
	struct sr_directory a;
	struct node n;
	char from[32];
	int fds[SILENT];

	node_begin(&n, 2);
	must_join(&a, &n, 0, 0);
	for (int several = 0; several < 2; several++) {
		for (int i = 0; i < SILENT; i++) {
			snprintf(from, sizeof(from), "127.0.%d.9", several ? 10 + i : 9);
			fds[i] = connect_from(&n, from);
		}
		must_be_accepted(&n, "127.0.0.8");
		must_be_accepted(&n, several ? "127.0.10.9" : "127.0.9.9");
		for (int i = 0; i < SILENT; i++)
			close(fds[i]);
	}
	sr_directory_abandon(&a);
	node_end(&n);
}

static void a_silent_connection_is_dropped_soon(void **state)
{
	int64_t begin = sr_sys_now_ms();
	struct sr_directory a;
	struct node n;
	char byte;
	int fd;

	node_begin(&n, 2);
	must_join(&a, &n, 0, 0);
	fd = connect_from(&n, "127.0.0.9");
	assert_true(fd >= 0);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	assert_true(sr_sys_now_ms() - begin < 4000);
	close(fd);
	sr_directory_abandon(&a);
	node_end(&n);
}

/* In clock ticks. */
static unsigned long processor_time(pid_t pid)
{
	unsigned long user = 0, kernel = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &kernel),
			 2);
	fclose(f);
	return user + kernel;
}

/* Without descriptors the port rests, as the socket of the processes does. */
static void without_descriptors_the_port_rests(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
	struct rlimit before, few;
	uint8_t hello[8 + SECRET_NONCE_BYTES];
	unsigned long used;
	struct sr_directory a;
	struct node n;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	node_begin(&n, 2);
	must_join(&a, &n, 0, 0);
	assert_int_equal(prlimit(n.h.daemon, RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){5, before.rlim_max};
	assert_int_equal(prlimit(n.h.daemon, RLIMIT_NOFILE, &few, NULL), 0);
	used = processor_time(n.h.daemon);
	inet_pton(AF_INET, n.address, &to.sin_addr);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	usleep(1000000);
	assert_true(processor_time(n.h.daemon) - used < (unsigned long)sysconf(_SC_CLK_TCK) / 4);
	assert_int_equal(prlimit(n.h.daemon, RLIMIT_NOFILE, &before, NULL), 0);
	read_all(fd, hello, sizeof(hello));
	close(fd);
	sr_directory_abandon(&a);
	node_end(&n);
}

static void a_key_that_others_may_read_is_refused(void **state)
{
	struct sr_directory a;
	char error[320] = "";
	struct node n;

	node_begin(&n, 2);
	write_key(n.key, "the key of the job, of 32 bytes.", 0640);
	assert_int_equal(join(&a, &n, 0, 0, NULL, error, sizeof(error)), -EPERM);
	assert_non_null(strstr(error, "chmod 600"));
	write_key(n.key, "short", 0600);
	assert_int_equal(join(&a, &n, 0, 0, NULL, error, sizeof(error)), -EINVAL);
	node_end(&n);
}

static void a_silent_daemon_costs_one_bounded_wait(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	struct sr_directory a;
	struct sr_found found;
	char error[320] = "";
	struct node n;
	int64_t begin;

	inet_pton(AF_INET, "127.0.0.4", &at.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	node_begin(&n, 2);
	must_join(&a, &n, 0, 0);
	add(&a, n.address, 10);
	begin = sr_sys_now_ms();
	assert_int_equal(find(&a, n.address, 10, "127.0.0.4", 20, &found, error), -ETIMEDOUT);
	assert_non_null(strstr(error, "127.0.0.4"));
	assert_true(sr_sys_now_ms() - begin < 3500);
	begin = sr_sys_now_ms();
	assert_int_equal(find(&a, n.address, 10, "127.0.0.4", 21, &found, error), -ENOENT);
	/* That no daemon is running is known at once. */
	assert_int_equal(find(&a, n.address, 10, "127.0.0.5", 22, &found, error), -ENOENT);
	assert_true(sr_sys_now_ms() - begin < 1000);
	sr_directory_abandon(&a);
	close(fd);
	node_end(&n);
}

static void a_killed_daemon_knows_again_what_it_knew(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;

	two_nodes(&one, &two, &a, &b);
	for (uint32_t i = 0; i < 10; i++) {
		add(&a, one.address, 10 + i);
		add(&b, two.address, 20 + i);
		assert_int_equal(find(&a, one.address, 10 + i, two.address, 20 + i, &found, NULL),
				 0);
	}
	assert_int_equal(found.cell, 9);
	/* b's process does nothing, so only the journal can tell. */
	daemon_kill(&two.h, SIGKILL);
	start_daemon(&two);
	assert_int_equal(find(&a, one.address, 19, two.address, 29, &found, NULL), 0);
	assert_int_equal(found.cell, 9);
	assert_int_equal(found.cells, 10);
	/* And the asker's own daemon. */
	daemon_kill(&one.h, SIGKILL);
	start_daemon(&one);
	assert_int_equal(find(&a, one.address, 15, two.address, 25, &found, NULL), 0);
	assert_int_equal(found.own_cell, 5);
	two_nodes_end(&one, &two, &a, &b);
}

/*
 * The successor is started by `sreplay record`, which does not know how the killed daemon
 * was started.
 */
static void a_successor_listens_where_the_killed_daemon_did(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;

	two_nodes(&one, &two, &a, &b);
	add(&a, one.address, 10);
	add(&b, two.address, 20);
	for (int i = 0; i < 2; i++) {
		daemon_kill(&two.h, SIGKILL);
		daemon_start(&two.h, NULL);
		assert_int_equal(find(&a, one.address, 10, two.address, 20, &found, NULL), 0);
		daemon_kill(&one.h, SIGKILL);
		daemon_start(&one.h, NULL);
		assert_int_equal(find(&b, two.address, 20, one.address, 10, &found, NULL), 0);
	}
	two_nodes_end(&one, &two, &a, &b);
}

/* ... unless it is told to listen elsewhere. */
static void a_successor_with_an_address_of_its_own_listens_there(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;

	two_nodes(&one, &two, &a, &b);
	add(&a, one.address, 10);
	add(&b, "127.0.0.4", 20);
	assert_int_equal(find(&a, one.address, 10, "127.0.0.4", 20, &found, NULL), -ENOENT);
	daemon_kill(&one.h, SIGKILL);
	start_daemon(&one);
	daemon_kill(&two.h, SIGKILL);
	snprintf(two.listen, sizeof(two.listen), "127.0.0.4:%d", port);
	start_daemon(&two);
	assert_int_equal(find(&a, one.address, 10, "127.0.0.4", 20, &found, NULL), 0);
	/* The next successor inherits this address. */
	daemon_kill(&two.h, SIGKILL);
	daemon_start(&two.h, NULL);
	assert_int_equal(find(&a, one.address, 10, "127.0.0.4", 20, &found, NULL), 0);
	two_nodes_end(&one, &two, &a, &b);
}

/* A daemon waits for the port of one that is still ending. */
static void a_port_that_is_taken_for_a_moment_is_waited_for(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, err = -ENOENT;
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;

	inet_pton(AF_INET, "127.0.0.3", &at.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	two_nodes(&one, &two, &a, &b);
	add(&a, one.address, 10);
	add(&b, two.address, 20);
	close(fd);
	/* Do not wait by asking: a host that refused is left alone for a while. */
	for (int i = 0; i < 100 && err; i++) {
		int probe = socket(AF_INET, SOCK_STREAM, 0);

		err = connect(probe, (struct sockaddr *)&at, sizeof(at));
		close(probe);
		sleep_us(20000);
	}
	assert_int_equal(find(&a, one.address, 10, two.address, 20, &found, NULL), 0);
	two_nodes_end(&one, &two, &a, &b);
}

static void a_question_waits_for_the_successor_of_a_killed_daemon(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;
	int status;
	pid_t pid;

	two_nodes(&one, &two, &a, &b);
	add(&a, one.address, 10);
	add(&b, two.address, 20);
	assert_int_equal(find(&a, one.address, 10, two.address, 20, &found, NULL), 0);
	daemon_kill(&two.h, SIGKILL);
	pid = fork();
	if (pid == 0)
		_exit(find(&a, one.address, 10, two.address, 20, &found, NULL) == 0 ? 0 : 1);
	sleep_us(700000);
	start_daemon(&two);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	two_nodes_end(&one, &two, &a, &b);
}

/* Stops the daemon for this time; the caller waits for the returned process. */
static pid_t stop_for(pid_t daemon, unsigned int us)
{
	pid_t child;

	assert_int_equal(kill(daemon, SIGSTOP), 0);
	child = fork();
	if (child == 0) {
		sleep_us(us);
		_exit(kill(daemon, SIGCONT) != 0);
	}
	assert_true(child > 0);
	return child;
}

static void wait_for_child(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/*
 * When 17 processes of a job started at once on a loaded host, the first two had to wait for
 * 5.7 s until the daemon had hashed the libraries of all others.
 */
static void a_busy_daemon_is_waited_for(void **state)
{
	struct sr_directory a;
	struct node n;
	pid_t child;

	node_begin(&n, 2);
	child = stop_for(n.h.daemon, 6000000);
	must_join(&a, &n, 0, 0);
	wait_for_child(child);
	sr_directory_abandon(&a);
	node_end(&n);
}

static void a_busy_daemon_of_another_node_is_waited_for(void **state)
{
	struct sr_directory a, b;
	struct node one, two;
	struct sr_found found;
	pid_t child;

	two_nodes(&one, &two, &a, &b);
	add(&a, one.address, 10);
	add(&b, two.address, 20);
	add(&b, two.address, 21);
	assert_int_equal(find(&a, one.address, 10, two.address, 20, &found, NULL), 0);
	child = stop_for(two.h.daemon, 4000000);
	assert_int_equal(find(&a, one.address, 10, two.address, 21, &found, NULL), 0);
	wait_for_child(child);
	two_nodes_end(&one, &two, &a, &b);
}

static void who_could_not_join_in_time_does_so_with_a_question(void **state)
{
	struct sr_job job = {.name = "a job", .rank = 0, .member = 0, .region = 0x1000};
	struct sr_queue_pair qp = {.number = 10, .gids = 1};
	struct sr_directory a = {0}, b;
	struct sr_found found;
	struct node n;

	node_begin(&n, 2);
	gid_of(n.address, qp.gid[0]);
	must_join(&b, &n, 1, 1);
	add(&b, n.address, 20);
	kill(n.h.daemon, SIGSTOP);
	job.key_path = n.key;
	sr_directory_set_stall_timeout(&a, 300);
	assert_int_equal(sr_directory_join(&a, n.h.socket, &job, NULL, 0), -ETIMEDOUT);
	assert_true(sr_directory_joins_later(&a));
	assert_int_equal(sr_directory_add(&a, &qp), -ETIMEDOUT);
	kill(n.h.daemon, SIGCONT);
	assert_int_equal(sr_directory_add(&a, &qp), 0);
	assert_false(sr_directory_joins_later(&a));
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), 0);
	assert_int_equal(found.rank, 1);
	assert_int_equal(find(&b, n.address, 20, n.address, 10, &found, NULL), 0);
	assert_int_equal(found.rank, 0);
	sr_directory_abandon(&a);
	sr_directory_abandon(&b);
	node_end(&n);
}

/* A process that was refused does not ask for ever. */
static void who_is_refused_joins_no_more(void **state)
{
	struct sr_directory a;
	struct node n;

	node_begin(&n, 2);
	write_key(n.key, "the key of the job, of 32 bytes.", 0644);
	assert_int_not_equal(join(&a, &n, 0, 0, NULL, NULL, 0), 0);
	assert_false(sr_directory_joins_later(&a));
	node_end(&n);
}

static void a_stopped_daemon_costs_one_whole_wait(void **state)
{
	struct sr_directory a, b;
	struct sr_found found;
	struct node n;
	int64_t begin;

	members_begin(&n, &a, &b);
	add(&a, n.address, 10);
	add(&b, n.address, 20);
	sr_directory_set_stall_timeout(&a, 3000);
	kill(n.h.daemon, SIGSTOP);
	begin = sr_sys_now_ms();
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), -ETIMEDOUT);
	assert_true(sr_sys_now_ms() - begin >= 2900);
	begin = sr_sys_now_ms();
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), -ETIMEDOUT);
	assert_true(sr_sys_now_ms() - begin < 2500);
	kill(n.h.daemon, SIGCONT);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), 0);
	sr_directory_abandon(&a);
	sr_directory_abandon(&b);
	node_end(&n);
}

static void a_process_that_ended_is_forgotten(void **state)
{
	struct sr_directory a, b;
	struct sr_found found;
	struct node n;
	int status, err = 0;
	pid_t pid;

	node_begin(&n, 2);
	must_join(&a, &n, 0, 0);
	add(&a, n.address, 10);
	pid = fork();
	if (pid == 0) {
		must_join(&b, &n, 1, 1);
		add(&b, n.address, 20);
		_exit(find(&b, n.address, 20, n.address, 10, &found, NULL) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 100 && !err; i++) {
		err = find(&a, n.address, 10, n.address, 20, &found, NULL);
		sleep_us(10000);
	}
	assert_int_equal(err, -ENOENT);
	/* A daemon does not find it in the journal either. */
	daemon_kill(&n.h, SIGKILL);
	start_daemon(&n);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), -ENOENT);
	assert_int_equal(find(&a, n.address, 10, n.address, 10, &found, NULL), 0);
	sr_directory_abandon(&a);
	node_end(&n);
}

static void a_removed_queue_pair_is_gone_and_its_cell_free(void **state)
{
	struct sr_queue_pair qp = {.number = 20, .gids = 1};
	struct sr_directory a, b;
	struct sr_found found;
	struct node n;

	members_begin(&n, &a, &b);
	add(&a, n.address, 10);
	add(&b, n.address, 20);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), 0);
	gid_of(n.address, qp.gid[0]);
	assert_int_equal(sr_directory_remove(&b, &qp), 0);
	assert_int_equal(find(&a, n.address, 10, n.address, 20, &found, NULL), -ENOENT);
	add(&b, n.address, 21);
	assert_int_equal(find(&a, n.address, 10, n.address, 21, &found, NULL), 0);
	assert_int_equal(found.cell, 0);
	sr_directory_abandon(&a);
	sr_directory_abandon(&b);
	node_end(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_a_queue_pair_of_the_same_node),
	    cmocka_unit_test(children_get_numbers_from_the_end),
	    cmocka_unit_test(a_target_of_xrc_is_reached_by_a_shared_queue_of_its_process),
	    cmocka_unit_test(each_queue_pair_has_a_cell_of_its_own),
	    cmocka_unit_test(finds_a_queue_pair_of_another_node),
	    cmocka_unit_test(asks_the_hosts_where_a_gid_is_no_address),
	    cmocka_unit_test(a_host_that_the_job_names_and_that_has_no_daemon_is_told_of),
	    cmocka_unit_test(a_wrong_key_is_refused),
	    cmocka_unit_test(a_proof_without_the_key_is_refused),
	    cmocka_unit_test(the_silent_do_not_lock_out_those_with_the_key),
	    cmocka_unit_test(a_silent_connection_is_dropped_soon),
	    cmocka_unit_test(without_descriptors_the_port_rests),
	    cmocka_unit_test(a_key_that_others_may_read_is_refused),
	    cmocka_unit_test(a_silent_daemon_costs_one_bounded_wait),
	    cmocka_unit_test(a_killed_daemon_knows_again_what_it_knew),
	    cmocka_unit_test(a_successor_listens_where_the_killed_daemon_did),
	    cmocka_unit_test(a_successor_with_an_address_of_its_own_listens_there),
	    cmocka_unit_test(a_port_that_is_taken_for_a_moment_is_waited_for),
	    cmocka_unit_test(a_question_waits_for_the_successor_of_a_killed_daemon),
	    cmocka_unit_test(a_busy_daemon_is_waited_for),
	    cmocka_unit_test(a_busy_daemon_of_another_node_is_waited_for),
	    cmocka_unit_test(who_could_not_join_in_time_does_so_with_a_question),
	    cmocka_unit_test(who_is_refused_joins_no_more),
	    cmocka_unit_test(a_stopped_daemon_costs_one_whole_wait),
	    cmocka_unit_test(a_process_that_ended_is_forgotten),
	    cmocka_unit_test(a_removed_queue_pair_is_gone_and_its_cell_free),
	};

	port = 33000 + getpid() % 8000;
	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
