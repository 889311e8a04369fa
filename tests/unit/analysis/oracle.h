/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oracle.h: judges the plan of an invented run by brute force. Its waits must say what the run's matrix says: not less, not more,
 * and no wait that the others imply.
 */
#ifndef TESTS_UNIT_ANALYSIS_ORACLE_H
#define TESTS_UNIT_ANALYSIS_ORACLE_H

#include "execution.h"
#include "replay/analysis/plan_make.h"

enum verdict { EXACT, UNREADABLE, MISSING, FALSE_ORDER, REDUNDANT };

enum verdict oracle_judge(struct run *r, struct sr_plan *p);

#endif
