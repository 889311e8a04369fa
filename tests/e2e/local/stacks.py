#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Stacks where nobody expects them: in memory that processes share, in blocks of malloc's on which arrays are registered, in a
registered pool.  All replays are exact, alone and of the group.  On the software device.

    stacks.py [RUNS]
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay, run
from order import exact, record

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "shared_stacks")
SHARED = ["coroutine", "coroutines", "handler", "thread", "clone"]
REGISTERED = ["heap", "buffers", "pool"]
RANKS = 3


def shared(directory, case, n):
    trace = os.path.join(directory, "%s-%d.srec" % (case, n))
    status, out, err = run([SREPLAY, "record", "--from-start", "-o", trace, "--", PROGRAM, case], 20)
    if status != 0:
        return "%s: recorded: %s\n%s" % (case, status, err)
    status, again, err = replay(trace, 0)
    good = status == 0 and again == out and "0 divergences: exact" in err
    return "" if good else "%s: replayed: %s\n%s" % (case, status, err)


def registered(directory, case, n):
    trace, outputs, wrong = record(directory, "%s-%d" % (case, n), RANKS, ["coroutines", case], "")
    for rank in range(RANKS):
        status, out, err = replay(trace, rank) if not wrong else (0, outputs[rank], "0 divergences: exact")
        if status != 0 or out != outputs[rank] or "0 divergences: exact" not in err:
            wrong = "%s: rank %d alone: %s\n%s" % (case, rank, status, err)
    return wrong or exact(directory, trace, outputs)


def main():
    tap, runs = Tap(), int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for where, cases, problem in (("shared memory", SHARED, shared), ("regions", REGISTERED, registered)):
            for case in cases:
                problems = [p for p in (problem(directory, case, n) for n in range(runs)) if p]
                tap.ok(not problems, "%s in %s: %d recordings, all replays exact" % (case, where, runs), "\n".join(problems))
    tap.finish()


if __name__ == "__main__":
    main()
