#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A recorded program makes processes: they are left alone, and a replay has none. No RDMA needed.

    children.py [RUNS [CASE...]]
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
from harness import BUILD, SREPLAY, replay, replay_problem, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "children")
SECONDS = 60


def files(directory):
    """What the children wrote, by file."""
    found = {}
    for name in os.listdir(directory):
        with open(os.path.join(directory, name)) as f:
            found[name] = f.read().replace("\n", "")
        os.unlink(os.path.join(directory, name))
    return found


def problem(directory, case, n):
    """'' or what is wrong with one recording and its replay."""
    trace = os.path.join(directory, "%s-%d.srec" % (case, n))
    where = os.path.join(directory, "files")
    os.makedirs(where, exist_ok=True)
    bare = run([PROGRAM, case], SECONDS, cwd=where)
    bare_files = files(where)
    # Those that are recorded are tested by forks.py; sixty at once, as here, keep a busy disk for more than a second.
    recorded = run([SREPLAY, "record", "--children=off", "-o", trace, "--", PROGRAM, case], SECONDS, cwd=where)
    recorded_files = files(where)
    if recorded[0] != bare[0] or recorded[2]:
        return "recorded exit status %s, bare %s\n%s" % (recorded[0], bare[0], recorded[2])
    if recorded_files != bare_files:
        return "the children wrote %s, bare %s" % (recorded_files, bare_files)
    different = replay_problem(trace, recorded[0], recorded[1], timeout=30, cwd=where)
    if different:
        return different
    if files(where):
        return "the replay had children"
    return ""


if __name__ == "__main__":
    cases.main(PROGRAM, problem)
