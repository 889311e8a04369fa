/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/proxy/proxy.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "replay/host/proxy/device.h"
#include "replay/host/shared/memory.h"
#include "logd/base/opcodes.h"

/*
 * A longer request is made in pieces; a member's image is registered in pieces of this
 * size as well, a few at a time: what is registered cannot be paged out, and users have
 * little such memory.
 */
#define PIECE         (256u << 10)
#define IMAGES        16
#define SPINS         200

#define PROXY_NAME  "sreplay-proxy" /* as `ps` shows it */
#define START_SECONDS 30

struct image {
	uint64_t at;   /* in the file; 0: free */
	uint64_t used; /* when it was last: c->uses */
	uint8_t *memory;
	struct ibv_mr *mr;
};

struct connection {
	struct connection *next;
	struct sr_group_key key; /* of the direction from end 0 to end 1 */
	struct sr_wire wire;
};

struct proxy {
	struct sr_group *group;
	int fd;
	struct sr_device *device;
	uint8_t *source, *backing;
	struct ibv_mr *source_mr, *backing_mr;
	struct image images[IMAGES];
	uint64_t uses;
	struct connection *connections;
	struct connection *by_channel[SR_GROUP_CHANNELS];
};

static void wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --------------------------------------------------------------- the file */

static void put(const struct proxy *c, uint64_t at, const void *p, size_t n)
{
	ssize_t put;

	while (n && (put = pwrite(c->fd, p, n, (off_t)at)) > 0) {
		p = (const char *)p + put;
		at += (uint64_t)put;
		n -= (size_t)put;
	}
}

static void put_around(const struct proxy *c, struct sr_group_place *to, const uint8_t *p,
		       size_t n)
{
	while (n) {
		uint64_t at;
		size_t part = sr_group_place_take(to, n, &at);

		put(c, at, p, part);
		p += part;
		n -= part;
	}
}

/* Addresses that peers were told may be any number. */
static uint64_t image_at(int32_t member, uint64_t addr)
{
	return sr_group_image_at((uint32_t)member) + (addr & ((1ull << 48) - 1));
}

/* ----------------------------------------------------------------- errands */

struct job {
	struct proxy *c;
	const struct sr_work_item *e;
	struct sr_work_items *all; /* of which it is one */
	const struct connection *connection;
	int from;        /* end of the connection */
	int32_t peer;    /* member */
	uint64_t source; /* in the file: of what goes out, if it is far */
};

static enum sr_transfer_kind kind_of(uint32_t opcode)
{
	if (sr_op(opcode) & SR_OP_ATOMIC)
		return SR_TRANSFER_ATOMIC;
	if (sr_op(opcode) & SR_OP_SCATTERS)
		return SR_TRANSFER_READ;
	return sr_op(opcode) & SR_OP_REMOTE ? SR_TRANSFER_WRITE : SR_TRANSFER_SEND;
}

static bool fail(const struct job *j, const char *why)
{
	static const char *const names[] = {"WRITE", "SEND", "READ", "atomic"};

	snprintf(j->all->text, sizeof(j->all->text), "%s of %u bytes to rank %d: %s",
		 names[kind_of(j->e->opcode)], j->e->length, j->c->group->member[j->peer].rank,
		 why);
	return false;
}

static bool transfer(const struct job *j, const struct sr_transfer *t)
{
	char why[sizeof(j->all->text) / 2];

	if (!sr_device_do(j->c->device, &j->connection->wire, j->from, t, why, sizeof(why)))
		return fail(j, why);
	atomic_fetch_add(&j->c->group->proxy.steps, 1);
	return true;
}

/* n bytes of what goes out, from `at` on. */
static void take_source(const struct job *j, uint32_t at, uint32_t n)
{
	if (j->e->source == SR_WORK_ITEM_FAR)
		sr_group_file_read(j->c->fd, j->source + at, j->c->source, n);
	else
		memcpy(j->c->source, j->all->source + j->e->source + at, n);
}

/* SEND, WRITE: piece by piece, through the buffers. */
static bool bring(const struct job *j)
{
	struct proxy *c = j->c;
	const struct sr_work_item *e = j->e;
	const bool writes = sr_op(e->opcode) & SR_OP_CHANGES;
	struct sr_group_place to = e->to;
	uint32_t at = 0, n;

	do {
		n = e->length - at < PIECE ? e->length - at : PIECE;
		struct sr_transfer t = {
		    .opcode = e->opcode,
		    .local = c->source,
		    .local_mr = c->source_mr,
		    .remote = c->backing,
		    .remote_mr = c->backing_mr,
		    .length = n,
		    .imm_data = e->imm_data,
		};

		/* What it invalidates is no key of ours; of several pieces the last takes the
		 * receive. */
		if (e->opcode == IBV_WR_SEND_WITH_INV)
			t.opcode = IBV_WR_SEND;
		if (e->opcode == IBV_WR_ATOMIC_WRITE ||
		    (e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && at + n < e->length))
			t.opcode = IBV_WR_RDMA_WRITE;
		take_source(j, at, n);
		if (!transfer(j, &t))
			return false;
		put_around(c, &to, c->backing, n);
		if (writes)
			put(c, image_at(j->peer, e->remote_addr + at), c->backing, n);
		at += n;
	} while (at < e->length);
	return true;
}

/* ------------------------------------------------------------------ images */

static void release(struct proxy *c, struct image *i)
{
	if (!i->at)
		return;
	sr_device_release(c->device, i->mr);
	munmap(i->memory, PIECE);
	i->at = 0;
}

/*
 * That place, or the one which was not used for longest: ranks of one program have their
 * exposed regions at the same addresses, so that places found by the address would be taken from
 * one another with each request.
 */
static struct image *image_place(struct proxy *c, uint64_t begin)
{
	struct image *oldest = &c->images[0];

	for (int i = 0; i < IMAGES; i++) {
		if (c->images[i].at == begin)
			return &c->images[i];
		if (c->images[i].used < oldest->used)
			oldest = &c->images[i];
	}
	return oldest;
}

/* The piece of the image that this address is in, registered. */
static struct image *image_of(struct proxy *c, uint64_t at)
{
	const uint64_t begin = at & ~(uint64_t)(PIECE - 1);
	struct image *i = image_place(c, begin);
	void *p;

	i->used = ++c->uses;
	if (i->at == begin)
		return i;
	release(c, i);
	p = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, (off_t)begin);
	if (p == MAP_FAILED)
		return NULL;
	i->mr = sr_device_register(c->device, p, PIECE);
	if (!i->mr)
		return munmap(p, PIECE), NULL;
	i->memory = p;
	i->at = begin;
	return i;
}

static bool is_exposed(const struct sr_group_member *m, uint64_t addr)
{
	uint32_t n = atomic_load(&m->regions);

	for (uint32_t i = 0; i < n; i++)
		if (addr >= m->exposed[i].addr && addr - m->exposed[i].addr < m->exposed[i].length)
			return true;
	return false;
}

/*
 * Of memory that peers do not write nothing is kept: what its process has there now.
 * If that cannot be read the image stays as it is.
 */
static void refresh(const struct job *j, uint64_t addr, uint8_t *image, uint32_t n)
{
	const struct sr_group_member *m = &j->c->group->member[j->peer];
	struct iovec to = {image, n}, from = {(void *)(uintptr_t)addr, n};

	if (!is_exposed(m, addr))
		process_vm_readv(atomic_load(&m->process), &to, 1, &from, 1, 0);
}

static bool fetch(const struct job *j)
{
	struct proxy *c = j->c;
	const struct sr_work_item *e = j->e;
	struct sr_group_place to = e->to;

	for (uint32_t at = 0, n; at < e->length; at += n) {
		const uint64_t place = image_at(j->peer, e->remote_addr + at);
		struct image *i = image_of(c, place);
		struct sr_transfer t = {
		    .opcode = e->opcode, .local = c->backing, .local_mr = c->backing_mr};

		if (!i)
			return fail(j, "memory cannot be registered");
		n = PIECE - (uint32_t)(place - i->at);
		n = n < e->length - at ? n : e->length - at;
		t.remote = i->memory + (place - i->at);
		t.remote_mr = i->mr;
		t.length = n;
		refresh(j, e->remote_addr + at, t.remote, n);
		if (!transfer(j, &t))
			return false;
		if (to.room)
			put_around(c, &to, c->backing, n);
	}
	return true;
}

/* The image is what the trace says, whatever others have done there in this replay before. */
static bool change(const struct job *j)
{
	struct proxy *c = j->c;
	const struct sr_work_item *e = j->e;
	const uint64_t place = image_at(j->peer, e->remote_addr & ~7ull);
	struct image *i = image_of(c, place);
	struct sr_transfer t = {
	    .opcode = e->opcode,
	    .local = c->backing,
	    .local_mr = c->backing_mr,
	    .length = sizeof(uint64_t),
	    .compare_add = e->compare_add,
	    .swap = e->swap,
	};

	if (!i)
		return fail(j, "memory cannot be registered");
	t.remote = i->memory + (place - i->at);
	t.remote_mr = i->mr;
	if (!transfer(j, &t))
		return false;
	memcpy(t.remote, &e->result, sizeof(e->result));
	return true;
}

/* ------------------------------------------------------------- connections */

static const struct connection *connect_channel(struct proxy *c, uint32_t channel, int *error)
{
	const struct sr_group_key key = c->group->channel[channel].key;
	const struct sr_group_key back = {key.to,      key.from,       key.to_qp,
					  key.from_qp, key.generation, 0};
	struct connection **known = &c->by_channel[channel], *n;

	*error = 0;
	for (n = c->connections; n && !*known; n = n->next)
		if (sr_group_same_key(&n->key, &back))
			*known = n;
	if (*known)
		return *known;
	n = calloc(1, sizeof(*n));
	*error = n ? sr_device_connect(c->device, &n->wire) : -ENOMEM;
	if (*error)
		return free(n), NULL;
	n->key = key;
	n->next = c->connections;
	c->connections = n;
	return *known = n;
}

static bool run(struct proxy *c, struct sr_work_items *all, const struct sr_work_item *e)
{
	const struct sr_group_key *key = &c->group->channel[e->channel].key;
	struct job j = {
	    .c = c,
	    .e = e,
	    .all = all,
	    .peer = key->to,
	    .source = sr_group_source_at((uint32_t)key->from),
	};
	char why[64];
	int error;

	j.connection = connect_channel(c, e->channel, &error);
	if (error) {
		snprintf(why, sizeof(why), "no queue pairs: %s", strerror(-error));
		return fail(&j, why);
	}
	j.from = !sr_group_same_key(&j.connection->key, key);
	switch (kind_of(e->opcode)) {
	case SR_TRANSFER_ATOMIC:
		return change(&j);
	case SR_TRANSFER_READ:
		return fetch(&j);
	default:
		return bring(&j);
	}
}

/* ----------------------------------------------------------------- serving */

/* The next one, or NULL. */
static const struct sr_work_item *next_of(const struct sr_work_items *all)
{
	const uint64_t done = atomic_load(&all->done);

	if (atomic_load(&all->asked) == done || atomic_load(&all->failed))
		return NULL;
	return &all->work_item[done % SR_GROUP_WORK_ITEMS];
}

/* The member whose next one has the lowest stamp of those that are seen; NULL: there is none. */
static struct sr_work_items *lowest(struct proxy *c)
{
	struct sr_work_items *found = NULL;

	for (uint32_t i = 0; i < c->group->members; i++) {
		struct sr_work_items *all = &c->group->member[i].work_items;
		const struct sr_work_item *e = next_of(all);

		if (e && (!found || e->stamp < next_of(found)->stamp))
			found = all;
	}
	return found;
}

/*
 * What comes before that one was there when it was seen, but perhaps not yet when we looked
 * there: so it is the first when a second look finds the same.
 */
static struct sr_work_items *first_asked(struct proxy *c)
{
	struct sr_work_items *found = lowest(c), *before = NULL;

	while (found != before) {
		before = found;
		found = lowest(c);
	}
	return found;
}

static void tell(struct sr_work_items *who)
{
	atomic_fetch_add(&who->word, 1);
	wake(&who->word);
}

static void arrived(struct proxy *c, struct sr_group_channel *channel, uint64_t messages)
{
	struct sr_work_items *to = &c->group->member[channel->key.to].work_items;

	if (!messages)
		return;
	atomic_store(&channel->arrived, messages);
	if (atomic_load(&to->waits))
		tell(to);
}

static void done(struct sr_work_items *all)
{
	const uint64_t so_far = atomic_fetch_add(&all->done, 1) + 1;
	const uint64_t wanted = atomic_load(&all->wanted);

	if (wanted && so_far >= wanted)
		tell(all);
}

/* Is there something to do?  Then it is done. */
static bool serve(struct proxy *c)
{
	struct sr_work_items *all = first_asked(c);
	const struct sr_work_item *e = all ? next_of(all) : NULL;

	if (!e)
		return false;
	if (!run(c, all, e)) {
		atomic_store(&all->failed, 1);
		tell(all);
		return true;
	}
	c->group->proxy.requests[kind_of(e->opcode)]++;
	c->group->proxy.bytes += e->length;
	arrived(c, &c->group->channel[e->channel], e->arrives);
	/* Its place may be taken by another from now on. */
	done(all);
	return true;
}

static void __attribute__((noreturn)) serve_for_ever(struct proxy *c)
{
	struct sr_group_proxy *shown = &c->group->proxy;

	for (;;) {
		uint32_t word;
		bool any = false;

		for (int i = 0; i < SPINS && !any; i++)
			any = serve(c);
		if (any)
			continue;
		atomic_store(&shown->sleeping, 1);
		word = atomic_load(&shown->word);
		if (!serve(c))
			syscall(SYS_futex, &shown->word, FUTEX_WAIT, word, NULL, NULL, 0);
		atomic_store(&shown->sleeping, 0);
	}
}

/* --------------------------------------------------------------- the process */

static struct ibv_mr *make_buffer(struct proxy *c, uint8_t **memory)
{
	void *p = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*memory = p;
	return p == MAP_FAILED ? NULL : sr_device_register(c->device, p, PIECE);
}

/* All that it will ever need at a time: a limit that is too low shows now, not in midst of it. */
static bool may_register(struct proxy *c)
{
	const size_t size = (size_t)IMAGES * PIECE;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : sr_device_register(c->device, p, size);

	if (mr)
		sr_device_release(c->device, mr);
	if (p != MAP_FAILED)
		munmap(p, size);
	return mr;
}

static bool begin(struct proxy *c)
{
	char *text = c->group->proxy.text;
	const size_t size = sizeof(c->group->proxy.text);

	c->device = sr_device_open(text, size);
	if (!c->device)
		return false;
	c->source_mr = make_buffer(c, &c->source);
	c->backing_mr = c->source_mr ? make_buffer(c, &c->backing) : NULL;
	/* The images are mapped, which what is not in the file cannot be. */
	if (c->backing_mr && may_register(c) && !ftruncate(c->fd, (off_t)SR_GROUP_FILE_END))
		return true;
	snprintf(text, size, "memory cannot be registered (%s): is \"ulimit -l\" under %u kB?",
		 strerror(errno), (IMAGES + 2) * PIECE / 1024);
	return false;
}

static void become_ready(struct sr_group *g, enum sr_proxy_state state)
{
	atomic_store(&g->proxy.state, state);
	wake(&g->proxy.state);
}

static void __attribute__((noreturn)) be(struct sr_group *g, int fd, pid_t parent)
{
	struct proxy *c = calloc(1, sizeof(*c));

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, PROXY_NAME);
	setpgid(0, 0); /* Ctrl-C comes to the conductor, which ends all */
	if (getppid() != parent || !c)
		_exit(1);
	c->group = g;
	c->fd = fd;
	if (!begin(c)) {
		become_ready(g, SR_PROXY_FAILED);
		_exit(1);
	}
	become_ready(g, SR_PROXY_READY);
	serve_for_ever(c);
}

pid_t sr_proxy_start(struct sr_group *g, int fd)
{
	pid_t self = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		be(g, fd, self);
	if (pid < 0)
		snprintf(g->proxy.text, sizeof(g->proxy.text), "cannot fork: %s",
			 strerror(errno));
	else
		atomic_store(&g->proxy.process, pid);
	return pid;
}

bool sr_proxy_await(struct sr_group *g, pid_t pid)
{
	const struct timespec second = {.tv_sec = 1};

	for (int i = 0; i < START_SECONDS && atomic_load(&g->proxy.state) == SR_PROXY_NONE &&
			waitpid(pid, NULL, WNOHANG) != pid;
	     i++)
		syscall(SYS_futex, &g->proxy.state, FUTEX_WAIT, SR_PROXY_NONE, &second, NULL,
			0);
	if (atomic_load(&g->proxy.state) == SR_PROXY_READY)
		return true;
	if (!g->proxy.text[0])
		snprintf(g->proxy.text, sizeof(g->proxy.text),
			 "the process that looks for a device has died, or hangs");
	sr_proxy_end(pid);
	return false;
}

void sr_proxy_lost(struct sr_group *g)
{
	atomic_store(&g->proxy.state, SR_PROXY_FAILED);
}

void sr_proxy_end(pid_t proxy)
{
	kill(proxy, SIGKILL);
	while (waitpid(proxy, NULL, 0) < 0 && errno == EINTR)
		;
}
