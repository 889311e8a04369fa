/* SPDX-License-Identifier: BSD-2-Clause */
/* regions.c: memory regions and memory windows. */
#include "regions.h"

#include <stdlib.h>
#include <string.h>

#include "local.h"
#include "memory.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define WINDOW_ACCESS                                                                              \
	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |             \
	 IBV_ACCESS_ZERO_BASED)
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | WINDOW_ACCESS | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB |        \
	 IBV_ACCESS_RELAXED_ORDERING | SD_ACCESS_FLUSH_GLOBAL | SD_ACCESS_FLUSH_PERSISTENT)

/* ------------------------------------------------------------------- keys */

/* The upper bits of a key select the entry; the lower bits change each time that entry is used. */
static uint32_t take_region(void)
{
	uint32_t index_1 = SD_TAKE(regions, region_use, SD_MAX_REGION - 1);
	struct sd_region *r = &sd_fabric->regions[index_1 - 1];

	if (index_1)
		r->key = index_1 << 8 | ++sd_fabric->key_uses[index_1 - 1];
	return index_1;
}

void sd_region_remove(struct sd_region *r)
{
	r->process = 0;
	sd_give_entry(&sd_fabric->region_use.low, (uint32_t)(r - sd_fabric->regions) + 1);
}

struct sd_region *sd_region_find(uint32_t key)
{
	uint32_t index_1 = key >> 8;
	struct sd_region *r = &sd_fabric->regions[index_1 - 1];

	if (!index_1 || index_1 >= SD_MAX_REGION || !r->process || r->key != key)
		return NULL;
	return r->kind == SD_REGION || r->bound ? r : NULL;
}

/* ----------------------------------------------------------------- regions */

/* As the kernel refuses it: peers may only change what the process may. */
static bool is_right_access(unsigned int access)
{
	bool writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	return !(access & ~(unsigned int)(ALL_ACCESS | IBV_ACCESS_OPTIONAL_RANGE)) &&
	       (!writes || access & IBV_ACCESS_LOCAL_WRITE);
}

static bool changes_memory(unsigned int access)
{
	return access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
}

static void fill_region(struct sd_region *r, const struct ibv_mr *mr, uint64_t iova,
			unsigned int access, const struct sd_piece *pieces, uint32_t n)
{
	r->pd = sd_pd_number(mr->pd);
	r->access = access;
	r->iova = access & IBV_ACCESS_ZERO_BASED ? iova & (SD_PAGE - 1) : iova;
	r->length = mr->length;
	r->pieces = n;
	memcpy(r->piece, pieces, n * sizeof(*pieces));
}

static int add_region(struct sd_mr *m, uint64_t iova, unsigned int access)
{
	struct sd_piece pieces[SD_PIECES];
	int n = sd_memory_pin(m->mr.addr, m->mr.length, changes_memory(access), pieces);
	uint32_t index_1;

	if (n < 0)
		return -n;
	sd_lock();
	index_1 = take_region();
	if (index_1) {
		struct sd_region *r = &sd_fabric->regions[index_1 - 1];

		fill_region(r, &m->mr, iova, access, pieces, (uint32_t)n);
		m->index = m->mr.handle = index_1;
		m->mr.lkey = m->mr.rkey = r->key;
	}
	sd_unlock();
	if (index_1)
		return 0;
	sd_memory_unpin(pieces, (uint32_t)n);
	return ENOMEM;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct sd_mr *m;
	int err;

	if (!is_right_access(access))
		return sd_refuse(EINVAL);
	m = calloc(1, sizeof(*m));
	if (!m)
		return sd_refuse(ENOMEM);
	m->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	err = add_region(m, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
	if (!err) {
		__atomic_add_fetch(&((struct sd_pd *)pd)->users, 1, __ATOMIC_RELAXED);
		return &m->mr;
	}
	free(m);
	return sd_refuse(err);
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
	return sd_refuse(EOPNOTSUPP);
}

/* The keys stay, since the pages do. */
static void change_region(struct sd_mr *m, struct ibv_pd *pd, unsigned int access)
{
	struct sd_region *r = &sd_fabric->regions[m->index - 1];

	__atomic_sub_fetch(&((struct sd_pd *)m->mr.pd)->users, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&((struct sd_pd *)pd)->users, 1, __ATOMIC_RELAXED);
	m->mr.pd = pd;
	sd_lock();
	r->pd = sd_pd_number(pd);
	r->access = access;
	sd_unlock();
}

static uint32_t remove_region(uint32_t index_1, struct sd_piece *pieces)
{
	struct sd_region *r = &sd_fabric->regions[index_1 - 1];

	memcpy(pieces, r->piece, sizeof(r->piece));
	sd_region_remove(r);
	return r->pieces;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	struct sd_mr *m = (struct sd_mr *)mr, old = *m;
	const struct sd_region *was = &sd_fabric->regions[m->index - 1];
	unsigned int allowed =
	    flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned int)access : was->access;
	struct sd_piece pieces[SD_PIECES];
	uint64_t iova = was->iova;
	uint32_t n;
	int err;

	if (!is_right_access(allowed))
		return IBV_REREG_MR_ERR_INPUT;
	/* A region that the card may change from now on has pages of another kind. */
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION) &&
	    changes_memory(allowed) <= changes_memory(was->access)) {
		change_region(m, flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd, allowed);
		return 0;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
		iova = (uintptr_t)addr;
	}
	/* A new region, so that the previous keys are no longer valid. */
	err = add_region(m, iova, allowed);
	if (err) {
		*m = old;
		return IBV_REREG_MR_ERR_CMD;
	}
	__atomic_sub_fetch(&((struct sd_pd *)old.mr.pd)->users, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&((struct sd_pd *)mr->pd)->users, 1, __ATOMIC_RELAXED);
	sd_lock();
	n = remove_region(old.index, pieces);
	sd_unlock();
	sd_memory_unpin(pieces, n);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct sd_mr *m = (struct sd_mr *)mr;
	struct sd_piece pieces[SD_PIECES];
	bool busy;
	uint32_t n = 0;

	sd_lock();
	busy = sd_fabric->regions[m->index - 1].windows > 0;
	if (!busy)
		n = remove_region(m->index, pieces);
	sd_unlock();
	if (busy)
		return EINVAL;
	sd_memory_unpin(pieces, n);
	__atomic_sub_fetch(&((struct sd_pd *)mr->pd)->users, 1, __ATOMIC_RELAXED);
	free(m);
	return 0;
}

/* ----------------------------------------------------------------- windows */

struct ibv_mw *sd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct sd_mw *w;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return sd_refuse(EINVAL);
	w = calloc(1, sizeof(*w));
	if (!w)
		return sd_refuse(ENOMEM);
	sd_lock();
	w->index = take_region();
	if (w->index) {
		struct sd_region *r = &sd_fabric->regions[w->index - 1];

		r->kind = type == IBV_MW_TYPE_1 ? SD_WINDOW_1 : SD_WINDOW_2;
		r->pd = sd_pd_number(pd);
		w->mw = (struct ibv_mw){.context = pd->context,
					.pd = pd,
					.rkey = r->key,
					.handle = w->index,
					.type = type};
	}
	sd_unlock();
	if (w->index) {
		__atomic_add_fetch(&((struct sd_pd *)pd)->users, 1, __ATOMIC_RELAXED);
		return &w->mw;
	}
	free(w);
	return sd_refuse(ENOMEM);
}

void sd_copy_bind(struct sd_send *s, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	s->bind_new = rkey;
	s->bind_key = info->mr ? info->mr->lkey : 0;
	s->bind_addr = info->addr;
	s->bind_length = info->length;
	s->bind_access = info->mw_access_flags;
}

/* A window of type 1 is bound by a request of the library's own, with a new key. */
int sd_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad,
	    wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info},
	    };
	int err;

	if (mw->type != IBV_MW_TYPE_1 || (bind->bind_info.mr && bind->bind_info.mr->pd != mw->pd) ||
	    mw->pd != qp->pd)
		return EINVAL;
	err = sd_post_send(qp, &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

static void unbind(struct sd_region *w)
{
	if (w->bound)
		sd_fabric->regions[w->parent].windows--;
	w->bound = false;
}

int sd_dealloc_mw(struct ibv_mw *mw)
{
	struct sd_mw *w = (struct sd_mw *)mw;

	sd_lock();
	unbind(&sd_fabric->regions[w->index - 1]);
	sd_region_remove(&sd_fabric->regions[w->index - 1]);
	sd_unlock();
	__atomic_sub_fetch(&((struct sd_pd *)mw->pd)->users, 1, __ATOMIC_RELAXED);
	free(w);
	return 0;
}

static bool may_bind(const struct sd_qp *qp, const struct sd_region *w, const struct sd_region *r,
		     const struct sd_send *s)
{
	if (r->kind != SD_REGION || r->pd != w->pd || w->pd != qp->pd ||
	    !(r->access & IBV_ACCESS_MW_BIND))
		return false;
	if (s->bind_access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(r->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return s->bind_addr >= r->iova && s->bind_length <= r->length &&
	       s->bind_addr - r->iova <= r->length - s->bind_length;
}

int sd_bind(struct sd_qp *qp, const struct sd_send *s)
{
	uint32_t index_1 = s->bind_new >> 8;
	struct sd_region *w =
	    index_1 && index_1 < SD_MAX_REGION ? &sd_fabric->regions[index_1 - 1] : NULL;
	struct sd_region *r = sd_region_find(s->bind_key);

	if (!w || !w->process || w->kind == SD_REGION ||
	    (s->bind_access & ~(unsigned int)(WINDOW_ACCESS | IBV_ACCESS_LOCAL_WRITE)))
		return IBV_WC_MW_BIND_ERR;
	/* One of type 2 has to be invalidated before it is bound again, and cannot be bound to
	 * nothing. */
	if (w->kind == SD_WINDOW_2 && (w->bound || !s->bind_length))
		return IBV_WC_MW_BIND_ERR;
	if (s->bind_length && (!r || !may_bind(qp, w, r, s)))
		return IBV_WC_MW_BIND_ERR;
	unbind(w);
	w->key = s->bind_new;
	sd_fabric->key_uses[index_1 - 1] = (uint8_t)w->key;
	if (!s->bind_length)
		return IBV_WC_SUCCESS;
	w->bound = true;
	w->iova = s->bind_addr;
	w->length = s->bind_length;
	w->access = s->bind_access;
	w->qpn = qp->number;
	w->parent = (uint32_t)(r - sd_fabric->regions);
	r->windows++;
	return IBV_WC_SUCCESS;
}

int sd_invalidate(const struct sd_qp *qp, uint32_t key, bool is_remote)
{
	struct sd_region *w = sd_region_find(key);
	bool right = w && w->kind == SD_WINDOW_2 && w->pd == qp->pd && w->qpn == qp->number;

	if (!right)
		return is_remote ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_MW_BIND_ERR;
	unbind(w);
	return IBV_WC_SUCCESS;
}

/* ------------------------------------------------------------------ access */

static bool append(struct sd_spans *spans, const struct sd_region *r, const struct sd_piece *p,
		   uint64_t from, uint64_t length)
{
	struct sd_span *s = &spans->v[spans->n];

	if (spans->n == SD_SPANS)
		return false;
	*s = (struct sd_span){.length = length};
	if (!p->foreign)
		s->at = (char *)sd_at(p->at) + from;
	else if (r->process == sd_process)
		s->at = (char *)(uintptr_t)p->at + from;
	else
		s->pid = sd_fabric->processes[r->process - 1].pid;
	s->address = p->at + from;
	spans->n++;
	return true;
}

static bool covers(const struct sd_region *r, uint64_t addr, uint64_t length)
{
	return addr >= r->iova && length <= r->length && addr - r->iova <= r->length - length;
}

/* The address that a window's request means in its region. */
static bool through_window(const struct sd_region **r, uint32_t qpn, uint64_t *addr,
			   uint64_t length, int access)
{
	const struct sd_region *w = *r;

	if ((w->access & (unsigned int)access) != (unsigned int)access ||
	    (w->kind == SD_WINDOW_2 && w->qpn != qpn))
		return false;
	if (w->access & IBV_ACCESS_ZERO_BASED)
		*addr += w->iova;
	if (!covers(w, *addr, length))
		return false;
	*r = &sd_fabric->regions[w->parent];
	return (*r)->process;
}

bool sd_region_spans(uint32_t key, uint32_t pd, uint32_t qpn, uint64_t addr, uint64_t length,
		     int access, struct sd_spans *spans)
{
	const struct sd_region *r = sd_region_find(key);
	uint64_t from;

	if (!r || r->pd != pd)
		return false;
	if (r->kind != SD_REGION) {
		if (!through_window(&r, qpn, &addr, length, access))
			return false;
	} else if ((r->access & (unsigned int)access) != (unsigned int)access ||
		   !covers(r, addr, length)) {
		return false;
	}
	from = addr - r->iova;
	for (uint32_t i = 0; i < r->pieces && length; i++) {
		const struct sd_piece *p = &r->piece[i];
		uint64_t bytes;

		if (from >= p->length) {
			from -= p->length;
			continue;
		}
		bytes = p->length - from < length ? p->length - from : length;
		if (!append(spans, r, p, from, bytes))
			return false;
		length -= bytes;
		from = 0;
	}
	return !length;
}
