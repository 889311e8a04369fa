/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * direct_standin.c: a stand-in for libmlx5's direct verbs, for the stand-in device
 * of tests/lib/softdev.  Like the real one it makes contexts and queue pairs past the
 * functions that libibverbs exports.  With DIRECT_STANDIN=other the device is of another vendor.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

bool mlx5dv_is_supported(struct ibv_device *device);
struct ibv_context *mlx5dv_open_device(struct ibv_device *device, void *attr);
int mlx5dv_query_device(struct ibv_context *context, uint64_t *attrs);
int mlx5dv_init_obj(void *obj, uint64_t type);
struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				void *more);

static void *of_libibverbs(const char *name)
{
	return dlvsym(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD), name, "IBVERBS_1.1");
}

static bool is_ours(void)
{
	const char *which = getenv("DIRECT_STANDIN");

	return !which || which[0] != 'o';
}

bool mlx5dv_is_supported(struct ibv_device *device)
{
	return is_ours();
}

struct ibv_context *mlx5dv_open_device(struct ibv_device *device, void *attr)
{
	struct ibv_context *(*open_device)(struct ibv_device *) =
	    (struct ibv_context * (*)(struct ibv_device *)) of_libibverbs("ibv_open_device");

	return open_device(device);
}

int mlx5dv_query_device(struct ibv_context *context, uint64_t *attrs)
{
	if (!is_ours())
		return EOPNOTSUPP;
	*attrs = 5;
	return 0;
}

int mlx5dv_init_obj(void *obj, uint64_t type)
{
	return 0;
}

struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				void *more)
{
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *) =
	    (struct ibv_qp * (*)(struct ibv_pd *, struct ibv_qp_init_attr *))
		of_libibverbs("ibv_create_qp");

	return create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
}
