/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/ops.h"

#include <string.h>

#include <infiniband/verbs.h>

#include "shim/memory/heap.h"
#include "logd/base/lock.h"
#include "shim/memory/map.h"

static struct sr_map saved_objects;
static struct sr_lock patching; /* two threads may ask for the same queue pair's builders */

static size_t size_of(enum sr_source source)
{
	switch (source) {
	case SR_SOURCE_QP:
		return sizeof(struct ibv_qp_ex);
	case SR_SOURCE_CQ:
		return sizeof(struct ibv_cq_ex);
	default:
		return sizeof(struct ibv_dm);
	}
}

void *sr_ops_saved(const void *object)
{
	return sr_map_get(&saved_objects, (uintptr_t)object);
}

void *sr_ops_take(const void *object)
{
	return sr_map_take(&saved_objects, (uintptr_t)object);
}

void sr_ops_put_back(const void *object, void *saved)
{
	void *old;

	if (saved && sr_map_put(&saved_objects, (uintptr_t)object, saved, &old))
		sr_free(saved);
}

void sr_ops_patch(void *object, enum sr_source source)
{
	void *saved;

	sr_lock(&patching);
	if (!sr_ops_saved(object)) {
		saved = sr_alloc(size_of(source));
		if (saved)
			memcpy(saved, object, size_of(source));
		sr_ops_put_back(object, saved);
		if (sr_ops_saved(object))
			sr_ops_install(object, source, sr_ops_present(object, source));
	}
	sr_unlock(&patching);
}

uint64_t sr_ops_present(const void *object, enum sr_source source)
{
	uint64_t set = 0;
	int n = 0;

	for (int i = 0; i < SR_CALL_COUNT; i++) {
		if (sr_calls[i].source != source)
			continue;
		if (*(void *const *)((const char *)object + sr_calls[i].op_offset))
			set |= 1ull << n;
		n++;
	}
	return set;
}

void sr_ops_install(void *object, enum sr_source source, uint64_t set)
{
	int n = 0;

	for (int i = 0; i < SR_CALL_COUNT; i++) {
		if (sr_calls[i].source != source)
			continue;
		if (set >> n & 1)
			*(void **)((char *)object + sr_calls[i].op_offset) = sr_calls[i].wrapper;
		n++;
	}
}
