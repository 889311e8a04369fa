/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/proxy/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "replay/host/shared/memory.h"

int sr_worker_kind(uint32_t opcode)
{
	int kind = sr_op_kind(opcode);

	return kind < 0 ? SR_OP_KIND_SEND : kind;
}

static void put(const struct sr_worker *c, uint64_t at, const void *p, size_t n)
{
	ssize_t put;

	while (n && (put = pwrite(c->fd, p, n, (off_t)at)) > 0) {
		p = (const char *)p + put;
		at += (uint64_t)put;
		n -= (size_t)put;
	}
}

static void put_around(const struct sr_worker *c, struct sr_group_place *to, const uint8_t *p,
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

/* With ZERO_BASED or an iova, a remote address may be any number. */
static uint64_t image_at(int32_t member, uint64_t addr)
{
	return sr_group_image_at((uint32_t)member) + (addr & ((1ull << 48) - 1));
}

struct job {
	struct sr_worker *c;
	const struct sr_work_item *e;
	struct sr_work_items *all; /* of which it is one */
	const struct sr_connection *connection;
	int from;        /* end of the connection */
	int32_t peer;    /* member */
	uint64_t source; /* in the file: of what goes out, if it is far */
};

static bool fail(const struct job *j, const char *why)
{
	static const char *const names[SR_OP_KINDS] = {
	    [SR_OP_KIND_SEND] = "SEND",
	    [SR_OP_KIND_WRITE] = "WRITE",
	    [SR_OP_KIND_READ] = "READ",
	    [SR_OP_KIND_ATOMIC] = "atomic",
	};

	snprintf(j->all->text, sizeof(j->all->text), "%s of %u bytes to rank %s: %s",
		 names[sr_worker_kind(j->e->opcode)], j->e->length, j->c->group->member[j->peer].name,
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

/* Copies n bytes that the item sends into the buffer, from `at` on. */
static void take_source(const struct job *j, uint32_t at, uint32_t n)
{
	if (j->e->source == SR_WORK_ITEM_FAR)
		sr_group_file_read(j->c->fd, j->source + at, j->c->source, n);
	else
		memcpy(j->c->source, j->all->source + j->e->source + at, n);
}

static bool bring(const struct job *j)
{
	struct sr_worker *c = j->c;
	const struct sr_work_item *e = j->e;
	const bool writes = sr_op(e->opcode) & SR_OP_CHANGES;
	struct sr_group_place to = e->to;
	uint32_t at = 0, n;

	do {
		n = e->length - at < SR_PIECE ? e->length - at : SR_PIECE;
		struct sr_transfer t = {
		    .opcode = e->opcode,
		    .local = c->source,
		    .local_mr = c->source_mr,
		    .remote = c->backing,
		    .remote_mr = c->backing_mr,
		    .length = n,
		    .imm_data = e->imm_data,
		};

		/* The key that it invalidates is not ours.  Only the last piece takes a receive. */
		if (e->opcode == IBV_WR_SEND_WITH_INV)
			t.opcode = IBV_WR_SEND;
		if (e->opcode == SR_WR_ATOMIC_WRITE ||
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

static bool is_exposed(const struct sr_group_member *m, uint64_t addr)
{
	uint32_t n = atomic_load(&m->regions);

	for (uint32_t i = 0; i < n; i++)
		if (addr >= m->exposed[i].addr && addr - m->exposed[i].addr < m->exposed[i].length)
			return true;
	return false;
}

/*
 * The image has only memory that peers write.  The rest is read from the process as it is
 * now; if that fails, the image stays as it is.
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
	struct sr_worker *c = j->c;
	const struct sr_work_item *e = j->e;
	struct sr_group_place to = e->to;

	for (uint32_t at = 0, n; at < e->length; at += n) {
		const uint64_t place = image_at(j->peer, e->remote_addr + at);
		struct sr_image *i = sr_image_of(&c->images, place);
		struct sr_transfer t = {
		    .opcode = e->opcode, .local = c->backing, .local_mr = c->backing_mr};

		if (!i)
			return fail(j, "memory cannot be registered");
		n = SR_PIECE - (uint32_t)(place - i->at);
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

/* Afterwards the image is what the trace says, whatever other members did there before. */
static bool change(const struct job *j)
{
	struct sr_worker *c = j->c;
	const struct sr_work_item *e = j->e;
	const uint64_t place = image_at(j->peer, e->remote_addr & ~7ull);
	struct sr_image *i = sr_image_of(&c->images, place);
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

static const struct sr_connection *connect_channel(struct sr_worker *c, uint32_t channel, int *error)
{
	const struct sr_group_key key = c->group->channel[channel].key;
	const struct sr_group_key back = {key.to,      key.from,       key.to_qp,
					  key.from_qp, key.generation, 0};
	struct sr_connection **known = &c->by_channel[channel], *n;

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

bool sr_worker_run(struct sr_worker *c, struct sr_work_items *all, const struct sr_work_item *e)
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
	switch (sr_worker_kind(e->opcode)) {
	case SR_OP_KIND_ATOMIC:
		return change(&j);
	case SR_OP_KIND_READ:
		return fetch(&j);
	default:
		return bring(&j);
	}
}

static struct ibv_mr *make_buffer(struct sr_worker *c, uint8_t **memory)
{
	void *p = mmap(NULL, SR_PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*memory = p;
	return p == MAP_FAILED ? NULL : sr_device_register(c->device, p, SR_PIECE);
}

/* Tries all that is ever registered at a time, so that too low a limit shows at the start. */
static bool may_register(struct sr_worker *c)
{
	const size_t size = (size_t)SR_IMAGES * SR_PIECE;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : sr_device_register(c->device, p, size);

	if (mr)
		sr_device_release(c->device, mr);
	if (p != MAP_FAILED)
		munmap(p, size);
	return mr;
}

bool sr_worker_begin(struct sr_worker *c)
{
	char *text = c->group->proxy.text;
	const size_t size = sizeof(c->group->proxy.text);

	c->device = sr_device_open(text, size);
	if (!c->device)
		return false;
	c->images.device = c->device;
	c->images.fd = c->fd;
	c->images.room = SR_IMAGES_REGISTERED;
	c->source_mr = make_buffer(c, &c->source);
	c->backing_mr = c->source_mr ? make_buffer(c, &c->backing) : NULL;
	/* The images are mapped, so the file must be that long. */
	if (c->backing_mr && may_register(c) && !ftruncate(c->fd, (off_t)SR_GROUP_FILE_END))
		return true;
	snprintf(text, size, "memory cannot be registered (%s): is \"ulimit -l\" under %u kB?",
		 strerror(errno), (SR_IMAGES + 2) * SR_PIECE / 1024);
	return false;
}
