/* SPDX-License-Identifier: BSD-2-Clause */
/* devices.c: devices, and lists of them. */
#include "shim/calls/codec/custom.h"
#include "shim/memory/heap.h"

static struct sr_bytes text_of(const char *s, size_t room)
{
	return (struct sr_bytes){s, (uint32_t)strnlen(s, room)};
}

struct sr_wire_device sr_wire_of_device(const struct ibv_device *device)
{
	return (struct sr_wire_device){
	    .address = (uintptr_t)device,
	    .node_type = device->node_type,
	    .transport_type = device->transport_type,
	    .name = text_of(device->name, sizeof(device->name)),
	    .dev_name = text_of(device->dev_name, sizeof(device->dev_name)),
	    .dev_path = text_of(device->dev_path, sizeof(device->dev_path)),
	    .ibdev_path = text_of(device->ibdev_path, sizeof(device->ibdev_path)),
	};
}

static void place_text(struct sr_cursor *c, char *to, size_t room, struct sr_bytes v)
{
	if (v.n > room)
		c->bad = true;
	else
		memcpy(to, v.p, v.n);
}

void sr_place_device(struct sr_cursor *c, const struct sr_wire_device *v)
{
	struct ibv_device *device = (void *)(uintptr_t)v->address;

	if (!sr_heap_in_library_arena(device, sizeof(*device))) {
		c->bad = true;
		return;
	}
	memset(device, 0, sizeof(*device));
	device->node_type = v->node_type;
	device->transport_type = v->transport_type;
	place_text(c, device->name, sizeof(device->name), v->name);
	place_text(c, device->dev_name, sizeof(device->dev_name), v->dev_name);
	place_text(c, device->dev_path, sizeof(device->dev_path), v->dev_path);
	place_text(c, device->ibdev_path, sizeof(device->ibdev_path), v->ibdev_path);
}

void sr_put_device_list(struct sr_buf *b, struct ibv_device **list)
{
	uint32_t n = 0;

	while (list && list[n])
		n++;
	sr_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		struct sr_wire_device v = sr_wire_of_device(list[i]);

		sr_put_device_fields(b, &v);
	}
}

void sr_deliver_device_list(struct sr_cursor *c, struct ibv_device **list)
{
	uint32_t n = sr_get_u32(c);

	if (!list)
		return;
	if (!sr_heap_in_library_arena(list, ((size_t)n + 1) * sizeof(*list))) {
		c->bad = true;
		return;
	}
	list[n] = NULL;
	for (uint32_t i = 0; i < n && !c->bad; i++) {
		struct sr_wire_device v;

		sr_get_device_fields(c, &v);
		sr_place_device(c, &v);
		list[i] = (void *)(uintptr_t)v.address;
	}
}
