/* SPDX-License-Identifier: BSD-2-Clause */
/* file.h: writes the files of a plan; records.h has the layouts. */
#ifndef REPLAY_ANALYSIS_PLAN_FILE_H
#define REPLAY_ANALYSIS_PLAN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "replay/analysis/plan/records.h"

size_t sr_plan_record_bytes(enum sr_plan_kind kind);

/* Where a file of the plan in dir is.  0, -ENAMETOOLONG. */
int sr_plan_path(char *path, size_t size, const char *dir, enum sr_plan_kind kind, int32_t rank,
		 uint32_t thread);

/*
 * One file of a plan.  Records are buffered and appended.  Header and name come when it is
 * finished; without records there is no file.  It is not kept open, so there may be thousands.
 */
struct sr_plan_file;

/* dir: where rank-N is or will be.  NULL: no memory. */
struct sr_plan_file *sr_plan_file_new(const char *dir, enum sr_plan_kind kind, int32_t rank,
				      uint32_t thread);
/* 0 or -errno. */
int sr_plan_file_add(struct sr_plan_file *f, const void *record);
/* 0 or -errno; frees it in any case. */
int sr_plan_file_finish(struct sr_plan_file *f, uint64_t identity, uint64_t group);
void sr_plan_file_abandon(struct sr_plan_file *f);

uint64_t sr_plan_group_hash(const int32_t *ranks, size_t n);

#endif
