/* SPDX-License-Identifier: BSD-2-Clause */
/* domains.h: the clock region's registrations, one in each protection domain.  Any thread. */
#ifndef SHIM_VERBS_CLOCKS_DOMAINS_H
#define SHIM_VERBS_CLOCKS_DOMAINS_H

#include <stddef.h>

#include <infiniband/verbs.h>

/* The registration of this memory for a new queue pair in the domain; NULL: there can be none. */
struct ibv_mr *sr_clock_domain_use(struct ibv_pd *pd, void *memory, size_t bytes);
/* One of its queue pairs has gone. */
void sr_clock_domain_leave(struct ibv_pd *pd);

/* The domain may go away. */
void sr_clock_domain_drop(struct ibv_pd *pd);

#endif
