/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/service/connection.h"

#include <stdio.h>
#include <string.h>

#include "logd/ring/packet.h"
#include "logd/ring/request.h"

void connection_answer(struct connection *c, const struct sr_message *request, struct sr_message *m,
		       int fd)
{
	m->sequence = request->sequence;
	(void)!sr_packet_send(c->source.fd, m, fd);
}

void connection_answer_error(struct connection *c, const struct sr_message *request, int error,
			     const char *text)
{
	struct sr_message m;

	sr_message_init(&m, request->type);
	m.error = error;
	if (error)
		snprintf(m.text, sizeof(m.text), "%s", text[0] ? text : strerror(-error));
	connection_answer(c, request, &m, -1);
}
