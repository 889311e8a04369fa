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
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "apps", "signals")
RANDOM_RUNS = 50


def run(arguments):
    try:
        r = subprocess.run(arguments, capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
        return r.returncode, r.stdout, r.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        return "hang", e.stdout or b"", (e.stderr or b"").decode(errors="replace")


def first_difference(got, expected):
    got, expected = got.decode(errors="replace").splitlines(), expected.decode(errors="replace").splitlines()
    for n, (g, e) in enumerate(zip(got, expected)):
        if g != e:
            return "line %d: %s, not %s" % (n + 1, g, e)
    return "%d lines instead of %d" % (len(got), len(expected))


def problem(directory, case, seed):
    """'' or what is wrong with one recording and its replay."""
    trace = os.path.join(directory, "%s-%s.srec" % (case, seed))
    bare = run([PROGRAM, case, str(seed)])
    recorded = run([SREPLAY, "record", "-o", trace, "--", PROGRAM, case, str(seed)])
    if recorded[0] != bare[0] or recorded[2]:
        return "recorded exit status %s, bare %s\n%s" % (recorded[0], bare[0], recorded[2])
    status, out, err = replay(trace, 0, timeout=20)
    if status != recorded[0]:
        return "replayed exit status %s, not %s\n%s" % (status, recorded[0], err)
    if out != recorded[1]:
        return "replayed output\n" + first_difference(out, recorded[1])
    return ""


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
