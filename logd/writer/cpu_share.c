/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/cpu_share.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Of running and waiting, until it is judged again. */
#define JUDGED_NS 5000000u

static bool read_times(const struct cpu_share *s, uint64_t *ran, uint64_t *waited)
{
	char text[64];
	ssize_t n = s->fd < 0 ? -1 : pread(s->fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = 0;
	return sscanf(text, "%" SCNu64 " %" SCNu64, ran, waited) == 2;
}

void cpu_share_begin(struct cpu_share *s)
{
	*s = (struct cpu_share){.fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)};
	read_times(s, &s->ran, &s->waited);
}

void cpu_share_end(struct cpu_share *s)
{
	if (s->fd >= 0)
		close(s->fd);
}

bool cpu_share_is_short(struct cpu_share *s)
{
	uint64_t ran, waited;

	if (!read_times(s, &ran, &waited) || ran - s->ran + (waited - s->waited) < JUDGED_NS)
		return s->is_short;
	s->is_short = waited - s->waited > ran - s->ran;
	s->ran = ran;
	s->waited = waited;
	return s->is_short;
}
