#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads that wait in calls, at locks and for input, beside memory that a peer writes (tests/programs/verbs/blocked_beside.c):
recorded, the program ends as it does alone, and its replay is exact. On the software device.

    blocked_beside.py [RUNS [CASE...]]
"""

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
from harness import BUILD, SREPLAY, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "blocked_beside")
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")
SECONDS = 60


def problem(options, directory, case, n):
    trace = os.path.join(directory, "%s-%d.srec" % (case, n))
    status, out, err = run([SOFTDEV, "--", SREPLAY, "record", "-q", "-o", trace] + options + ["--", PROGRAM, case], SECONDS)
    if status or not out:
        return "recorded: %s %s %s" % (status, out, err)
    status, again, err = run([SREPLAY, "replay", "--timeout", "20", "--rank", "0", trace], SECONDS)
    if status or again != out or "0 divergences: exact" not in err:
        return "replayed: %s %s (%s) %s" % (status, again, out, err)
    return ""


if __name__ == "__main__":
    cases.main(PROGRAM, functools.partial(problem, []))
