/* SPDX-License-Identifier: BSD-2-Clause */
/* graph_images.c: a plan is of the last images of ranks: the requests of the others. */
#include <errno.h>
#include <stdlib.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/graph.h"
#include "replay/analysis/log/images.h"
#include "replay/analysis/process/process.h"

struct counting {
	struct sr_traffic traffic;
	const bool *has; /* by rank: is it this image's pass? */
};

static int take_posted(void *argument, const struct sr_posted *p)
{
	struct counting *c = argument;

	if (c->has[p->rank])
		sr_traffic_add(&c->traffic, p->rank, p->to == SR_NO_RANK ? c->traffic.n : p->to, p->opcode,
			       p->length);
	return 0;
}

static int count_image(struct counting *c, struct sr_trace *t, struct sr_error *err)
{
	const struct sr_process_hooks hooks = {.posted = take_posted, .argument = c};
	struct sr_process_counts counts;
	struct sr_links links;
	int ret = sr_links_find(&links, t, NULL, err);

	if (!ret)
		ret = sr_process(t, &links, c->has, &hooks, &counts, err);
	sr_links_free(&links);
	return ret;
}

int sr_graph_add_images(struct sr_graph *g, struct sr_trace *t, struct sr_error *err)
{
	size_t n = sr_trace_ranks(t);
	bool *has = calloc(n + 1, sizeof(*has));
	struct counting c = {.has = has};
	struct sr_links links = {0};
	int ret = has ? sr_traffic_init(&c.traffic, n) : -ENOMEM;

	if (ret)
		sr_error_set(err, ret, "no memory left");
	for (uint32_t i = sr_images_most(t); !ret && i-- > 1;) {
		ret = sr_images_choose(t, i, has, err);
		if (!ret)
			ret = count_image(&c, t, err);
	}
	if (!ret)
		ret = sr_images_choose(t, 0, has, err);
	if (!ret)
		ret = sr_links_find(&links, t, NULL, err);
	if (!ret)
		sr_graph_add_traffic(g, &c.traffic, &links);
	sr_links_free(&links);
	sr_traffic_free(&c.traffic);
	free(has);
	return ret;
}
