/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/confirm_outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/analysis/log/channels.h"
#include "replay/analysis/log/grow.h"

/* What descriptors led to before the program began is not in its trace: only of these two is it known what they are for. */
static bool leaves_job(const struct sr_channel_use *u)
{
	if (!*u->channel->what)
		return u->fd == STDOUT_FILENO || u->fd == STDERR_FILENO;
	return !strcmp(u->channel->what, "file");
}

static bool see(void *argument, const struct sr_channel_use *u)
{
	struct sr_outputs *o = argument;
	struct sr_output_place *p;

	if (!u->is_write || !leaves_job(u))
		return true;
	p = sr_grow((void **)&o->list, o->n, &o->room, sizeof(*p));
	if (!p) {
		o->is_short = true;
		return false;
	}
	*p = (struct sr_output_place){u->thread, u->sn};
	o->n++;
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct sr_output_place *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return (x->sn > y->sn) - (x->sn < y->sn);
}

bool sr_outputs_of(struct sr_outputs *o, struct sr_trace *t, int32_t rank)
{
	struct sr_error err;

	*o = (struct sr_outputs){0};
	o->is_short = sr_channels_walk(t, rank, see, o, NULL, &err) == -ENOMEM || o->is_short;
	if (o->n)
		qsort(o->list, o->n, sizeof(*o->list), compare);
	return !o->is_short;
}

bool sr_outputs_have(const struct sr_outputs *o, uint32_t thread, uint64_t sn)
{
	const struct sr_output_place wanted = {thread, sn};

	return o->n && bsearch(&wanted, o->list, o->n, sizeof(*o->list), compare);
}

void sr_outputs_free(struct sr_outputs *o)
{
	free(o->list);
	*o = (struct sr_outputs){0};
}
