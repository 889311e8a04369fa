/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.h: the getters of records that gencalls.py makes of calls.def, and the types that they fill. */
#ifndef REPLAY_ANALYSIS_LOG_WIRE_H
#define REPLAY_ANALYSIS_LOG_WIRE_H

#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "shim/core/completion.h"

#include "records.gen.h"

#endif
