#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads that poll exposed memory without a call (tests/programs/verbs/pollers.c): what they find, and in which order, is
replayed.  Needs no RDMA.

    pollers.py [RUNS [CASE...]]
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
from harness import BUILD, SREPLAY, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "pollers")
SECONDS = 60
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev"))


def problem(directory, case, n):
    trace = os.path.join(directory, "%s-%d.srec" % (case, n))
    recorded = run([SREPLAY, "record", "-q", "-o", trace, "--", PROGRAM, case], SECONDS, env=ENVIRONMENT)
    if recorded[0] or not recorded[1].startswith(b"polled"):
        return "recorded: %s %s %s" % recorded
    status, out, err = run([SREPLAY, "replay", "--timeout", "20", trace], SECONDS)
    if status or out != recorded[1] or "0 divergences: exact" not in err:
        return "replayed: %s %s (%s) %s" % (status, out, recorded[1], err)
    return ""


if __name__ == "__main__":
    cases.main(PROGRAM, problem, lambda case, runs: 3 * runs)
