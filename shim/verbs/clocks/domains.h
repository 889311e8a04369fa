/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * domains.h: the clock region's registrations, one in each protection domain.  Any thread may
 * call these functions.
 */
#ifndef SHIM_VERBS_CLOCKS_DOMAINS_H
#define SHIM_VERBS_CLOCKS_DOMAINS_H

#include <stddef.h>

#include <infiniband/verbs.h>

/* Returns the domain's registration of the memory for a new queue pair; NULL on failure. */
struct ibv_mr *sr_clock_domain_use(struct ibv_pd *pd, void *memory, size_t bytes);
/* A queue pair of the domain was destroyed. */
void sr_clock_domain_leave(struct ibv_pd *pd);

/* Called before the domain is deallocated: drops the registration if no queue pair uses it. */
void sr_clock_domain_drop(struct ibv_pd *pd);

#endif
