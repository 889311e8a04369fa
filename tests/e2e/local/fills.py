#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A thread that changes one page of exposed memory after the other (tests/programs/verbs/fills.c), for which pages are
passed through together (shim/exposed/fill.c): what it finds is replayed.  Needs no RDMA.

    fills.py [RUNS [CASE...]]
"""

import os

from pollers import PROGRAMS, SECONDS, problem
import cases
from harness import SREPLAY, run

PROGRAM = os.path.join(PROGRAMS, "fills")
# It has a child, which reads the memory of its parent.
WITH_CHILD = "child-reads"
# In these, pages are passed through together.
TOGETHER = ["fill", "change", "add-fetched"]


def recorded_and_filled(directory, case, n):
    trace = os.path.join(directory, "%s-%d.srec" % (case, n))
    wrong = problem(PROGRAM, directory, case, n)
    if not wrong and case == WITH_CHILD:
        status, out, err = run([SREPLAY, "replay", "--rank", "0/1", trace], SECONDS)
        return "" if not status and "0 divergences: exact" in err else "the child: %s %s" % (status, err)
    if wrong or case not in TOGETHER:
        return wrong
    status, out, err = run([SREPLAY, "dump", trace], SECONDS)
    return "" if b"filled" in out else "no pages were passed through together: %s" % err


if __name__ == "__main__":
    cases.main(PROGRAM, recorded_and_filled, lambda case, runs: runs)
