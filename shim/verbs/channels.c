/* SPDX-License-Identifier: BSD-2-Clause */
/* channels.c: hooks of the calls that make and destroy completion channels, which have descriptors. */
#include "shim/core/hooks.h"
#include "shim/files/fds.h"

uint64_t sr_invoke_create_channel(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_comp_channel *channel = (void *)sr_real(d, a);

	if (channel)
		sr_fd_capture(channel->fd);
	return (uintptr_t)channel;
}

void sr_replayed_create_channel(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (result)
		sr_fd_hold(((struct ibv_comp_channel *)result)->fd);
}

uint64_t sr_invoke_destroy_channel(const struct sr_call_desc *d, uint64_t *a)
{
	int fd = ((struct ibv_comp_channel *)a[0])->fd;
	uint64_t result = sr_real(d, a);

	if ((int)result == 0)
		sr_fd_release(fd);
	return result;
}

void sr_replayed_destroy_channel(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result == 0)
		sr_fd_drop(((struct ibv_comp_channel *)a[0])->fd);
}
