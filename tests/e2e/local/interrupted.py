#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Signals in loops of accesses to exposed memory (tests/programs/verbs/interrupted.c): each handler runs at a place that the
replay finds again, behind as many accesses.  Needs no RDMA.

    interrupted.py [RUNS [CASE...]]
"""

import json
import os

from pollers import ENVIRONMENT, PROGRAMS, SECONDS
import cases
from harness import SREPLAY, run

PROGRAM = os.path.join(PROGRAMS, "interrupted")


def problem(directory, case, n):
    trace = os.path.join(directory, "%s-%d.srec" % (case, n))
    recorded = run([SREPLAY, "record", "-q", "--clocks", "-o", trace, "--", PROGRAM, case], SECONDS, env=ENVIRONMENT)
    if recorded[0] or not recorded[1]:
        return "recorded: %s %s %s" % recorded
    lines = run([SREPLAY, "info", "--json", trace], SECONDS)[1].splitlines()
    info = next(line for line in map(json.loads, lines) if "signals" in line)
    if not info["signals_at_places"] or info["signals_between_calls"]:
        return "not all at places: %s" % info
    status, out, err = run([SREPLAY, "replay", "--timeout", "20", "--rank", "0", trace], SECONDS)
    if status or out != recorded[1] or " 0 divergences: exact" not in err:
        return "replayed: %s %s (%s) %s" % (status, out, recorded[1], err)
    return ""


if __name__ == "__main__":
    cases.main(PROGRAM, problem, lambda case, runs: 2 * runs)
