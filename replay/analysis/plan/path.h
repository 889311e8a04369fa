/* SPDX-License-Identifier: BSD-2-Clause */
/* path.h: what the two halves of plan.h share. */
#ifndef REPLAY_ANALYSIS_PLAN_PATH_H
#define REPLAY_ANALYSIS_PLAN_PATH_H

#include "replay/analysis/plan/plan.h"

/* Where a file of the plan in dir is.  0, -ENAMETOOLONG. */
int sr_plan_path(char *path, size_t size, const char *dir, enum sr_plan_kind kind, int32_t rank,
		 uint32_t thread);

#endif
