#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads that poll exposed memory without a call (tests/programs/verbs/pollers.c): what they find, and in which order, is
replayed.  Needs no RDMA.

    pollers.py [RUNS [CASE...]]
"""

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
from harness import BUILD, SREPLAY, run

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SECONDS = 60
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev"))


def problem(program, directory, case, n):
    trace = os.path.join(directory, "%s-%d.srec" % (case, n))
    recorded = run([SREPLAY, "record", "-q", "-o", trace, "--", program, case], SECONDS, env=ENVIRONMENT)
    if recorded[0] or not recorded[1]:
        return "recorded: %s %s %s" % recorded
    status, out, err = run([SREPLAY, "replay", "--timeout", "20", "--rank", "0", trace], SECONDS)
    if status or out != recorded[1] or "0 divergences: exact" not in err:
        return "replayed: %s %s (%s) %s" % (status, out, recorded[1], err)
    return ""


def main(name):
    program = os.path.join(PROGRAMS, name)
    cases.main(program, functools.partial(problem, program), lambda case, runs: 3 * runs)


if __name__ == "__main__":
    main("pollers")
