/* SPDX-License-Identifier: BSD-2-Clause */
/* device.c: the device and the objects of a context, except the queues. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "standin.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define MAX_MR 1024

struct si_mr {
	struct ibv_mr mr;
	char *memory; /* mr.addr is not a device's to rely on */
	uint64_t iova;
	int access;
};

pthread_mutex_t si_mutex = PTHREAD_MUTEX_INITIALIZER;
uint64_t si_random_state;
uint64_t si_faults;
bool si_has_thread;

static struct ibv_device *device;
static struct si_mr *regions[MAX_MR];

/* ----------------------------------------------------------------- device */

static struct ibv_device *the_device(void)
{
	if (device)
		return device;
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	device->node_type = IBV_NODE_CA;
	device->transport_type = IBV_TRANSPORT_IB;
	strcpy(device->name, "standin0");
	strcpy(device->dev_name, "uverbs0");
	strcpy(device->dev_path, "/sys/class/infiniband_verbs/uverbs0");
	strcpy(device->ibdev_path, "/sys/class/infiniband/standin0");
	return device;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!list || !(list[0] = the_device()))
		return si_refuse(ENOMEM);
	if (num_devices)
		*num_devices = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	return 0x0100000000000002ull;
}

int ibv_get_device_index(struct ibv_device *d)
{
	return 0;
}

static void lock_for_fork(void)
{
	pthread_mutex_lock(&si_mutex);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&si_mutex);
}

int ibv_fork_init(void)
{
	return pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex all = {
	    .orig_attr =
		{
		    .fw_ver = "1.0",
		    .max_mr_size = UINT64_MAX,
		    .page_size_cap = 4096,
		    .max_qp = SI_MAX_QP,
		    .max_qp_wr = SI_MAX_WR,
		    .max_sge = SI_MAX_SGE,
		    .max_cq = 4096,
		    .max_cqe = 1 << 20,
		    .max_mr = MAX_MR,
		    .max_pd = 4096,
		    .max_qp_rd_atom = 16,
		    .max_qp_init_rd_atom = 16,
		    .atomic_cap = IBV_ATOMIC_HCA,
		    .max_srq = 4096,
		    .max_srq_wr = SI_MAX_WR,
		    .max_srq_sge = SI_MAX_SGE,
		    .max_pkeys = 1,
		    .phys_port_cnt = 1,
		},
	    .phys_port_cnt_ex = 1,
	};

	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex all;

	query_device_ex(context, NULL, &all, sizeof(all));
	*attr = all.orig_attr;
	return 0;
}

static int query_port_ex(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			 size_t size)
{
	struct ibv_port_attr all = {
	    .state = IBV_PORT_ACTIVE,
	    .max_mtu = IBV_MTU_4096,
	    .active_mtu = IBV_MTU_4096,
	    .gid_tbl_len = 2,
	    .max_msg_sz = 1u << 30,
	    .pkey_tbl_len = 1,
	    .active_width = 1,
	    .active_speed = 1,
	    .phys_state = 5,
	    .link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	if (port != 1)
		return EINVAL;
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	/* The layout in programs that were compiled before link_layer and flags were added. */
	return query_port_ex(context, port, (struct ibv_port_attr *)attr,
			     offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	static const union ibv_gid gids[] = {
	    {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2}},
	    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}},
	};

	if (port != 1 || index < 0 || index > 1) {
		errno = EINVAL;
		return -1;
	}
	*gid = gids[index];
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = {
	    .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};

	if (ibv_query_gid(context, (uint8_t)port, (int)index, &e.gid))
		return ENODATA;
	memcpy(entry, &e, size < sizeof(e) ? size : sizeof(e));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t room, uint32_t flags, size_t size)
{
	ssize_t n;

	for (n = 0; n < 2 && (size_t)n < room; n++)
		_ibv_query_gid_ex(context, 1, (uint32_t)n, (void *)((char *)entries + n * size), 0,
				  size);
	return n;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (port != 1 || index)
		return -1;
	*pkey = 0xffff;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	return pkey == 0xffff ? 0 : -1;
}

/* --------------------------------------------------------------- contexts */

static void read_seed(void)
{
	const char *seed = getenv("STANDIN_SEED"), *thread = getenv("STANDIN_THREAD");
	const char *faults = getenv("STANDIN_FAULTS");

	if (faults)
		si_faults = strtoull(faults, NULL, 0);

	if ((!seed && !thread) || si_random_state)
		return;
	seed = thread ? thread : seed;
	if (strcmp(seed, "time"))
		si_random_state = strtoull(seed, NULL, 0);
	else if (getrandom(&si_random_state, sizeof(si_random_state), 0) < 0)
		si_random_state = 1;
	if (thread)
		si_thread_start();
}

bool si_fails(const void *name, uint64_t n, uint32_t one_in)
{
	uint64_t h = (si_faults ^ (uintptr_t)name << 20 ^ n) * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	return si_faults && !((uint32_t)(h >> 32) % one_in);
}

/* A thread domain or parent domain is only a name here. */
static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct ibv_td *td = calloc(1, sizeof(*td));

	if (td)
		td->context = context;
	return td;
}

static int dealloc_td(struct ibv_td *td)
{
	free(td);
	return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	return ibv_alloc_pd(context);
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct ibv_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (xrcd)
		xrcd->context = context;
	return xrcd;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	free(xrcd);
	return 0;
}

/* Device memory is memory behind a copying function. */
struct si_dm {
	struct ibv_dm dm;
	size_t length;
	char memory[];
};

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	struct si_dm *m = (struct si_dm *)dm;

	if (offset > m->length || length > m->length - offset)
		return EFAULT;
	memcpy(m->memory + offset, from, length);
	return 0;
}

static int memcpy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	struct si_dm *m = (struct si_dm *)dm;

	if (offset > m->length || length > m->length - offset)
		return EFAULT;
	memcpy(to, m->memory + offset, length);
	return 0;
}

static struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct si_dm *m = calloc(1, sizeof(*m) + attr->length);

	if (!m)
		return si_refuse(ENOMEM);
	m->dm.context = context;
	m->dm.memcpy_to_dm = memcpy_to_dm;
	m->dm.memcpy_from_dm = memcpy_from_dm;
	m->length = attr->length;
	return &m->dm;
}

static int free_dm(struct ibv_dm *dm)
{
	free(dm);
	return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	if (mw)
		*mw = (struct ibv_mw){.context = pd->context, .pd = pd, .type = type};
	return mw;
}

/* Refuses to bind: exposed regions have no key here. */
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return EOPNOTSUPP;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	free(mw);
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct verbs_context *verbs = calloc(1, sizeof(*verbs));
	struct ibv_context *context = verbs ? &verbs->context : NULL;

	if (!verbs)
		return NULL;
	read_seed();
	context->device = d;
	context->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	context->async_fd = eventfd(0, EFD_CLOEXEC);
	context->num_comp_vectors = 1;
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->ops.poll_cq = si_poll_cq;
	context->ops.req_notify_cq = si_req_notify_cq;
	context->ops.post_send = si_post_send;
	context->ops.post_recv = si_post_recv;
	context->ops.post_srq_recv = si_post_srq_recv;
	context->ops.alloc_mw = alloc_mw;
	context->ops.bind_mw = bind_mw;
	context->ops.dealloc_mw = dealloc_mw;
	verbs->sz = sizeof(*verbs);
	verbs->alloc_dm = alloc_dm;
	verbs->free_dm = free_dm;
	verbs->query_device_ex = query_device_ex;
	verbs->query_port = query_port_ex;
	verbs->create_cq_ex = si_create_cq_ex;
	verbs->create_srq_ex = si_create_srq_ex;
	verbs->get_srq_num = si_get_srq_num;
	verbs->create_qp_ex = si_create_qp_ex;
	verbs->open_xrcd = open_xrcd;
	verbs->close_xrcd = close_xrcd;
	verbs->alloc_td = alloc_td;
	verbs->dealloc_td = dealloc_td;
	verbs->alloc_parent_domain = alloc_parent_domain;
	return context;
}

/*
 * Two functions of 2006 that call today's functions directly, as in a library that is
 * linked with -Bsymbolic-functions.
 */
extern __typeof__(ibv_get_device_list) direct_get_device_list
    __attribute__((alias("ibv_get_device_list"), visibility("hidden")));
extern __typeof__(ibv_open_device) direct_open_device
    __attribute__((alias("ibv_open_device"), visibility("hidden")));

struct ibv_device **si_get_device_list_1_0(int *num_devices);
struct ibv_context *si_open_device_1_0(struct ibv_device *d);
__asm__(".symver si_get_device_list_1_0, ibv_get_device_list@IBVERBS_1.0");
__asm__(".symver si_open_device_1_0, ibv_open_device@IBVERBS_1.0");

struct ibv_device **si_get_device_list_1_0(int *num_devices)
{
	return direct_get_device_list(num_devices);
}

struct ibv_context *si_open_device_1_0(struct ibv_device *d)
{
	return direct_open_device(d);
}

int ibv_close_device(struct ibv_context *context)
{
	close(context->cmd_fd);
	close(context->async_fd);
	free(verbs_get_ctx(context));
	return 0;
}

/* There are no asynchronous events: waits for ever, or returns EAGAIN. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t never;

	return read(context->async_fd, &never, sizeof(never)) < 0 ? -1 : 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

/* -------------------------------------------------------- memory regions */

/* The upper bits of a key select the region; the lower bits change each time that place is used. */
static bool add_region(struct si_mr *m)
{
	static uint8_t uses;

	for (uint32_t i = 1; i < MAX_MR; i++) {
		if (regions[i])
			continue;
		regions[i] = m;
		m->mr.handle = i;
		m->mr.lkey = m->mr.rkey = i << 8 | ++uses;
		return true;
	}
	return false;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct si_mr *m = calloc(1, sizeof(*m));
	bool locked, added;

	if (!m)
		return si_refuse(ENOMEM);
	m->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	m->memory = addr;
	m->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	m->access = (int)access;
	locked = si_lock();
	added = add_region(m);
	si_unlock(locked);
	if (added)
		return &m->mr;
	free(m);
	return si_refuse(ENOMEM);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return si_refuse(EOPNOTSUPP);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	struct si_mr *m = (struct si_mr *)mr;
	bool locked = si_lock();

	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		m->access = access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
		m->memory = addr;
		m->iova = (uintptr_t)addr;
	}
	/* The previous keys are no longer valid. */
	regions[mr->handle] = NULL;
	add_region(m);
	si_unlock(locked);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	bool locked = si_lock();

	regions[mr->handle] = NULL;
	si_unlock(locked);
	free(mr);
	return 0;
}

struct ibv_pd *si_domain(uint32_t key)
{
	struct si_mr *m = key >> 8 < MAX_MR ? regions[key >> 8] : NULL;

	return m && m->mr.lkey == key ? m->mr.pd : NULL;
}

void *si_memory(uint32_t key, uint64_t addr, uint64_t length, int access)
{
	struct si_mr *m = key >> 8 < MAX_MR ? regions[key >> 8] : NULL;

	if (!m || m->mr.lkey != key || (m->access & access) != access)
		return NULL;
	if (addr < m->iova || length > m->mr.length || addr - m->iova > m->mr.length - length)
		return NULL;
	return m->memory + (addr - m->iova);
}

/* --------------------------------------------------------------- channels */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct si_channel *c = calloc(1, sizeof(*c));
	int fds[2];

	if (!c || pipe2(fds, O_CLOEXEC)) {
		free(c);
		return NULL;
	}
	c->channel.context = context;
	c->channel.fd = fds[0];
	c->write_fd = fds[1];
	return &c->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct si_channel *c = (struct si_channel *)channel;

	if (channel->refcnt)
		return EBUSY;
	close(channel->fd);
	close(c->write_fd);
	free(c);
	return 0;
}

/* -------------------------------------------------------- address handles */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	if (ah)
		*ah = (struct ibv_ah){.context = pd->context, .pd = pd};
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

/* ------------------------------------------------------------------ texts */

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static const char *const texts[] = {
	    [IBV_WC_SUCCESS] = "success",
	    [IBV_WC_LOC_LEN_ERR] = "local length error",
	    [IBV_WC_LOC_PROT_ERR] = "local protection error",
	    [IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
	    [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
	    [IBV_WC_REM_ACCESS_ERR] = "remote access error",
	    [IBV_WC_REM_OP_ERR] = "remote operation error",
	    [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
	    [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
	};

	if (status >= sizeof(texts) / sizeof(texts[0]) || !texts[status])
		return "unknown";
	return texts[status];
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return "unknown";
}

const char *ibv_node_type_str(enum ibv_node_type type)
{
	return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
	return state == IBV_PORT_ACTIVE ? "active" : "unknown";
}
