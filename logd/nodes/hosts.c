/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/hosts.h"

#include <stdlib.h>

#include "logd/base/rawsys.h"
#include "logd/nodes/address.h"

struct host {
	struct host *next;
	struct sockaddr_storage address;
	bool known;
	int64_t avoided_until; /* ms of the monotonic clock */
};

/* NULL: no memory. */
static struct host *host_of(struct hosts *hosts, const struct sockaddr_storage *a)
{
	struct host *h;

	for (h = hosts->first; h && !node_address_is_same(&h->address, a); h = h->next)
		;
	if (h)
		return h;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->address = *a;
	h->next = hosts->first;
	hosts->first = h;
	return h;
}

bool hosts_is_known(struct hosts *hosts, const struct sockaddr_storage *a)
{
	const struct host *h = host_of(hosts, a);

	return h && h->known;
}

void hosts_make_known(struct hosts *hosts, const struct sockaddr_storage *a)
{
	struct host *h = host_of(hosts, a);

	if (h)
		h->known = true;
}

bool hosts_is_avoided(struct hosts *hosts, const struct sockaddr_storage *a)
{
	const struct host *h = host_of(hosts, a);

	return !h || sr_sys_now_ms() < h->avoided_until;
}

void hosts_avoid(struct hosts *hosts, const struct sockaddr_storage *a)
{
	struct host *h = host_of(hosts, a);

	if (!h)
		return;
	h->known = false;
	h->avoided_until = sr_sys_now_ms() + AVOID_MS;
}

void hosts_free(struct hosts *hosts)
{
	while (hosts->first) {
		struct host *h = hosts->first;

		hosts->first = h->next;
		free(h);
	}
}
