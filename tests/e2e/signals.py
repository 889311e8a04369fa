#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Handlers run in a replay where they ran in the recording: no RDMA needed.

    signals.py [RUNS [CASE...]]

Each case of tests/apps/signals is run bare, recorded, and replayed.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import BUILD, SREPLAY, Tap, replay_problem, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "apps", "signals")
RANDOM_RUNS = 50
SECONDS = 30


def problem(directory, case, seed):
    """'' or what is wrong with one recording and its replay."""
    trace = os.path.join(directory, "%s-%s.srec" % (case, seed))
    bare = run([PROGRAM, case, str(seed)], SECONDS)
    recorded = run([SREPLAY, "record", "-o", trace, "--", PROGRAM, case, str(seed)], SECONDS)
    if recorded[0] != bare[0] or recorded[2]:
        return "recorded exit status %s, bare %s\n%s" % (recorded[0], bare[0], recorded[2])
    return replay_problem(trace, recorded[0], recorded[1], timeout=20)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    names = sys.argv[2:] or subprocess.run([PROGRAM], capture_output=True).stdout.decode().split()
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for case in names:
            times = RANDOM_RUNS if case == "random" and runs <= 2 else runs
            detail = ""
            for seed in range(1, times + 1):
                detail = problem(directory, case, seed)
                if detail:
                    detail = "seed %d: %s" % (seed, detail)
                    break
            tap.ok(not detail, "%s: recorded and replayed %d times" % (case, times), detail)
    tap.finish()


if __name__ == "__main__":
    main()
