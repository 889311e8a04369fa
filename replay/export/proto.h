/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proto.h: writes protobuf messages: a buffer per message, with another one's bytes as a field.
 */
#ifndef REPLAY_EXPORT_PROTO_H
#define REPLAY_EXPORT_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sr_proto {
	uint8_t *p;
	size_t n, room;
	bool failed; /* no memory left */
};

void sr_proto_clear(struct sr_proto *m); /* for the next message */
void sr_proto_free(struct sr_proto *m);

void sr_proto_number(struct sr_proto *m, uint32_t field, uint64_t value);
void sr_proto_fixed64(struct sr_proto *m, uint32_t field, uint64_t value);
void sr_proto_bytes(struct sr_proto *m, uint32_t field, const void *bytes, size_t n);
/* Bytes that are not UTF-8 become '?'. */
void sr_proto_text(struct sr_proto *m, uint32_t field, const char *text);
void sr_proto_message(struct sr_proto *m, uint32_t field, const struct sr_proto *inner);

#endif
