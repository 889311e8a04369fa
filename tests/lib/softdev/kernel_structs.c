/* SPDX-License-Identifier: BSD-2-Clause */
/* kernel_structs.c: the kernel's form of attributes as the library's: librdmacm asks for it. */
#include <string.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(&to->grh.dgid, from->grh.dgid, sizeof(to->grh.dgid));
	to->grh.flow_label = from->grh.flow_label;
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.traffic_class = from->grh.traffic_class;
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from)
{
	*to = (struct ibv_qp_attr){
	    .qp_state = from->qp_state,
	    .cur_qp_state = from->cur_qp_state,
	    .path_mtu = from->path_mtu,
	    .path_mig_state = from->path_mig_state,
	    .qkey = from->qkey,
	    .rq_psn = from->rq_psn,
	    .sq_psn = from->sq_psn,
	    .dest_qp_num = from->dest_qp_num,
	    .qp_access_flags = from->qp_access_flags,
	    .cap =
		{
		    .max_send_wr = from->max_send_wr,
		    .max_recv_wr = from->max_recv_wr,
		    .max_send_sge = from->max_send_sge,
		    .max_recv_sge = from->max_recv_sge,
		    .max_inline_data = from->max_inline_data,
		},
	    .pkey_index = from->pkey_index,
	    .alt_pkey_index = from->alt_pkey_index,
	    .en_sqd_async_notify = from->en_sqd_async_notify,
	    .sq_draining = from->sq_draining,
	    .max_rd_atomic = from->max_rd_atomic,
	    .max_dest_rd_atomic = from->max_dest_rd_atomic,
	    .min_rnr_timer = from->min_rnr_timer,
	    .port_num = from->port_num,
	    .timeout = from->timeout,
	    .retry_cnt = from->retry_cnt,
	    .rnr_retry = from->rnr_retry,
	    .alt_port_num = from->alt_port_num,
	    .alt_timeout = from->alt_timeout,
	};
	ibv_copy_ah_attr_from_kern(&to->ah_attr, &from->ah_attr);
	ibv_copy_ah_attr_from_kern(&to->alt_ah_attr, &from->alt_ah_attr);
}

/* The fields that both have and that need no conversion. */
#define COPY_PATH(to, from)                                                                        \
	do {                                                                                       \
		(to)->dlid = (from)->dlid;                                                         \
		(to)->slid = (from)->slid;                                                         \
		(to)->flow_label = (from)->flow_label;                                             \
		(to)->mtu = (uint8_t)(from)->mtu;                                                  \
		(to)->pkey = (from)->pkey;                                                         \
		(to)->hop_limit = (from)->hop_limit;                                               \
		(to)->traffic_class = (from)->traffic_class;                                       \
		(to)->numb_path = (from)->numb_path;                                               \
		(to)->sl = (from)->sl;                                                             \
		(to)->mtu_selector = (from)->mtu_selector;                                         \
		(to)->rate_selector = (from)->rate_selector;                                       \
		(to)->rate = (from)->rate;                                                         \
		(to)->packet_life_time_selector = (from)->packet_life_time_selector;               \
		(to)->packet_life_time = (from)->packet_life_time;                                 \
		(to)->preference = (from)->preference;                                             \
	} while (0)

void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(&to->dgid, from->dgid, sizeof(to->dgid));
	memcpy(&to->sgid, from->sgid, sizeof(to->sgid));
	to->raw_traffic = (int)from->raw_traffic;
	to->reversible = (int)from->reversible;
	COPY_PATH(to, from);
}

void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->dgid, &from->dgid, sizeof(to->dgid));
	memcpy(to->sgid, &from->sgid, sizeof(to->sgid));
	to->raw_traffic = (uint32_t)from->raw_traffic;
	to->reversible = (uint32_t)from->reversible;
	COPY_PATH(to, from);
}
