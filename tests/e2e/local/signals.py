#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Handlers run in a replay where they ran in the recording: no RDMA needed.

    signals.py [RUNS [CASE...]]

Each case of tests/programs/signals is run bare, recorded, and replayed.
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
from harness import BUILD, FULL, SREPLAY, difference, replay, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "signals")
COMPUTING = ("spins", "spins_on", "counts_till_flag", "counts_digests", "reads_counter", "allocates", "ticks", "maps_files", "many_kinds",
             "nested_computing", "jumps_from_loops",
             "rows", "rows_left", "rows_fast", "threads_till_told", "spins_in_made_code", "spins_in_writable_code")
RANDOM_RUNS = 50 if FULL else 3
SECONDS = 30


def problem(directory, case, seed):
    """'' or what is wrong with one recording and its replay."""
    trace = os.path.join(directory, "%s-%s.srec" % (case, seed))
    bare = run([PROGRAM, case, str(seed)], SECONDS)
    recorded = run([SREPLAY, "record", "-o", trace, "--", PROGRAM, case, str(seed)], SECONDS)
    # By a signal: the status as a shell has it.
    status = bare[0] if bare[0] >= 0 else 128 - bare[0]
    if recorded[0] != status or recorded[2]:
        return "recorded exit status %s, bare %s\n%s" % (recorded[0], status, recorded[2])
    replayed = replay(trace, 0, timeout=20)
    return difference(replayed, recorded[0], recorded[1]) or verdict_problem(trace, case, replayed[2])


def verdict_problem(trace, case, verdict):
    """Where a handler ran in computing code is replayed; or the verdict says that it is not."""
    if case not in COMPUTING:
        return ""
    lines = run([SREPLAY, "info", "--json", trace], SECONDS)[1].splitlines()
    info = next(line for line in map(json.loads, lines) if "signals" in line)  # its children's lines come behind
    said = "not compared is where signals came in computing code" in verdict
    placed, between = info["signals_at_places"], info["signals_between_calls"]
    if case == "spins_in_writable_code":
        return "" if said and between and not placed else verdict + str(info)
    # Some make a child, to be sent signals by it.
    exact = re.search(r" 0 divergences: exact(, but not compared is what its child did)?$", verdict, re.M)
    return "" if exact and placed and not between else verdict + str(info)


def times(case, runs):
    return RANDOM_RUNS if case == "random" and runs <= 2 else runs


if __name__ == "__main__":
    cases.main(PROGRAM, problem, times)
