/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * private.c: what provider libraries ask of libibverbs.
 *
 * Programs are linked with provider libraries (UCX and DPDK with libmlx5.so.1, libfabric with
 * libefa.so.1), which need these functions to load. A provider registers itself here and is never
 * asked for a device, so none of its commands comes to a kernel: they end with ENOSYS.
 *
 * A provider asks for the node of its own release of rdma-core, since these functions may change
 * with each. So each function has all of these nodes, from IBVERBS_PRIVATE_34 to
 * IBVERBS_PRIVATE_60.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

/* The releases whose providers can be loaded; the map has their nodes. */
#define EACH_RELEASE(DO, name)                                                                     \
	DO(name, 34)                                                                               \
	DO(name, 35)                                                                               \
	DO(name, 36)                                                                               \
	DO(name, 37) DO(name, 38) DO(name, 39) DO(name, 40) DO(name, 41) DO(name, 42) DO(name, 43) \
	    DO(name, 44) DO(name, 45) DO(name, 46) DO(name, 47) DO(name, 48) DO(name, 49)          \
		DO(name, 50) DO(name, 51) DO(name, 52) DO(name, 53) DO(name, 54) DO(name, 55)      \
		    DO(name, 56) DO(name, 57) DO(name, 58) DO(name, 59) DO(name, 60)

/* No node is the default one: nothing that is linked with this library may use them. */
#define IN_NODE(name, n) __asm__(".symver sd_" #name ", " #name "@IBVERBS_PRIVATE_" #n);
#define EXPORT(name)     EACH_RELEASE(IN_NODE, name)

/* Their arguments are of no interest. */
#define REFUSED(name)                                                                              \
	int sd_##name(void);                                                                       \
	int sd_##name(void)                                                                        \
	{                                                                                          \
		return errno = ENOSYS;                                                             \
	}                                                                                          \
	EXPORT(name)

REFUSED(execute_ioctl)
REFUSED(ibv_cmd_advise_mr)
REFUSED(ibv_cmd_alloc_dm)
REFUSED(ibv_cmd_alloc_dmah)
REFUSED(ibv_cmd_alloc_mw)
REFUSED(ibv_cmd_alloc_pd)
REFUSED(ibv_cmd_attach_mcast)
REFUSED(ibv_cmd_close_xrcd)
REFUSED(ibv_cmd_create_ah)
REFUSED(ibv_cmd_create_comp_cntr)
REFUSED(ibv_cmd_create_counters)
REFUSED(ibv_cmd_create_cq)
REFUSED(ibv_cmd_create_cq_ex)
REFUSED(ibv_cmd_create_cq_ex2)
REFUSED(ibv_cmd_create_flow)
REFUSED(ibv_cmd_create_flow_action_esp)
REFUSED(ibv_cmd_create_qp)
REFUSED(ibv_cmd_create_qp_ex)
REFUSED(ibv_cmd_create_qp_ex2)
REFUSED(ibv_cmd_create_rwq_ind_table)
REFUSED(ibv_cmd_create_srq)
REFUSED(ibv_cmd_create_srq_ex)
REFUSED(ibv_cmd_create_wq)
REFUSED(ibv_cmd_dealloc_mw)
REFUSED(ibv_cmd_dealloc_pd)
REFUSED(ibv_cmd_dereg_mr)
REFUSED(ibv_cmd_destroy_ah)
REFUSED(ibv_cmd_destroy_comp_cntr)
REFUSED(ibv_cmd_destroy_counters)
REFUSED(ibv_cmd_destroy_cq)
REFUSED(ibv_cmd_destroy_flow)
REFUSED(ibv_cmd_destroy_flow_action)
REFUSED(ibv_cmd_destroy_qp)
REFUSED(ibv_cmd_destroy_rwq_ind_table)
REFUSED(ibv_cmd_destroy_srq)
REFUSED(ibv_cmd_destroy_wq)
REFUSED(ibv_cmd_detach_mcast)
REFUSED(ibv_cmd_export_dmabuf_fd)
REFUSED(ibv_cmd_free_dm)
REFUSED(ibv_cmd_free_dmah)
REFUSED(ibv_cmd_get_context)
REFUSED(ibv_cmd_inc_comp_cntr)
REFUSED(ibv_cmd_inc_err_comp_cntr)
REFUSED(ibv_cmd_modify_cq)
REFUSED(ibv_cmd_modify_flow_action_esp)
REFUSED(ibv_cmd_modify_qp)
REFUSED(ibv_cmd_modify_qp_ex)
REFUSED(ibv_cmd_modify_srq)
REFUSED(ibv_cmd_modify_wq)
REFUSED(ibv_cmd_open_qp)
REFUSED(ibv_cmd_open_xrcd)
REFUSED(ibv_cmd_poll_cq)
REFUSED(ibv_cmd_post_recv)
REFUSED(ibv_cmd_post_send)
REFUSED(ibv_cmd_post_srq_recv)
REFUSED(ibv_cmd_qp_attach_comp_cntr)
REFUSED(ibv_cmd_query_comp_cntr_caps)
REFUSED(ibv_cmd_query_context)
REFUSED(ibv_cmd_query_device_any)
REFUSED(ibv_cmd_query_mr)
REFUSED(ibv_cmd_query_port)
REFUSED(ibv_cmd_query_port_speed)
REFUSED(ibv_cmd_query_qp)
REFUSED(ibv_cmd_query_srq)
REFUSED(ibv_cmd_read_comp_cntr)
REFUSED(ibv_cmd_read_counters)
REFUSED(ibv_cmd_read_err_comp_cntr)
REFUSED(ibv_cmd_reg_dm_mr)
REFUSED(ibv_cmd_reg_dmabuf_mr)
REFUSED(ibv_cmd_reg_mr)
REFUSED(ibv_cmd_reg_mr_ex)
REFUSED(ibv_cmd_req_notify_cq)
REFUSED(ibv_cmd_rereg_mr)
REFUSED(ibv_cmd_resize_cq)
REFUSED(ibv_cmd_set_comp_cntr)
REFUSED(ibv_cmd_set_err_comp_cntr)

unsigned int sd___ioctl_final_num_attrs(unsigned int count, void *link);
unsigned int sd___ioctl_final_num_attrs(unsigned int count, void *link)
{
	return count;
}
EXPORT(__ioctl_final_num_attrs)

void sd___verbs_log(void *context, uint32_t level, const char *format, ...);
void sd___verbs_log(void *context, uint32_t level, const char *format, ...)
{
}
EXPORT(__verbs_log)

const char *sd_ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
const char *sd_ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	return "unknown";
}
EXPORT(ibv_wr_opcode_str)

void *sd__verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd);
void *sd__verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd)
{
	errno = ENOSYS;
	return NULL;
}
EXPORT(_verbs_init_and_alloc_context)

/* A provider's own way to open a device, with options of its own. */
struct ibv_context *sd_verbs_open_device(struct ibv_device *device, void *options);
struct ibv_context *sd_verbs_open_device(struct ibv_device *device, void *options)
{
	return ibv_open_device(device);
}
EXPORT(verbs_open_device)

void sd_verbs_init_cq(struct ibv_cq *cq, struct ibv_context *context,
		      struct ibv_comp_channel *channel, void *cq_context);
void sd_verbs_init_cq(struct ibv_cq *cq, struct ibv_context *context,
		      struct ibv_comp_channel *channel, void *cq_context)
{
	cq->context = context;
	cq->channel = channel;
	cq->cq_context = cq_context;
	cq->comp_events_completed = 0;
	cq->async_events_completed = 0;
	pthread_mutex_init(&cq->mutex, NULL);
	pthread_cond_init(&cq->cond, NULL);
	if (!channel)
		return;
	pthread_mutex_lock(&context->mutex);
	channel->refcnt++;
	pthread_mutex_unlock(&context->mutex);
}
EXPORT(verbs_init_cq)

void sd_verbs_set_ops(void *context, const void *ops);
void sd_verbs_set_ops(void *context, const void *ops)
{
}
EXPORT(verbs_set_ops)

void sd_verbs_uninit_context(void *context);
void sd_verbs_uninit_context(void *context)
{
}
EXPORT(verbs_uninit_context)

bool sd_verbs_allow_disassociate_destroy;
EXPORT(verbs_allow_disassociate_destroy)

/* An entry of a port's gid_attrs/types in sysfs; 1 is RoCE v2. */
int sd_ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);
int sd_ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	union ibv_gid gid;

	if (ibv_query_gid(context, port, (int)index, &gid))
		return -1;
	*type = 1;
	return 0;
}
EXPORT(ibv_query_gid_type)

/* Asked about devices that a provider was offered. */
int sd_ibv_read_ibdev_sysfs_file(char *text, size_t size, void *device, const char *format, ...);
int sd_ibv_read_ibdev_sysfs_file(char *text, size_t size, void *device, const char *format, ...)
{
	errno = ENOENT;
	return -1;
}
EXPORT(ibv_read_ibdev_sysfs_file)

/* Its name has the release as well. */
void sd_verbs_register_driver(const void *ops);
void sd_verbs_register_driver(const void *ops)
{
}
#define REGISTRATION(name, n)                                                                      \
	__asm__(".symver sd_verbs_register_driver, verbs_register_driver_" #n                      \
		"@IBVERBS_PRIVATE_" #n);
EACH_RELEASE(REGISTRATION, )

/* Of providers of 2008 and before. */
void ibv_register_driver(const char *name, void *init);
void ibv_register_driver(const char *name, void *init)
{
}
