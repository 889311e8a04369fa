#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
A server clears a whole page of exposed memory and then waits there for requests, with no call in between: it must not be
passed through for its many stores, as the loads behind them would not be seen.  On the software device.

    requests.py [RUNS]
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import Tap, replay
from order import record

RANKS, ROUNDS = 3, 25


def problem(directory, pattern, run, rounds, options):
    trace, outputs, wrong = record(directory, "requests-%d" % run, RANKS, ["patterns", pattern, str(rounds)], options)
    for rank, output in enumerate(outputs):
        status, out, err = replay(trace, rank)
        if not wrong and (status != 0 or out != output or "0 divergences: exact" not in err):
            wrong = "rank %d: %s\n%s" % (rank, status, err)
    return wrong


def main():
    tap, runs = Tap(), int(sys.argv[1]) if len(sys.argv) > 1 else 2
    for pattern in "requests", "vectors":
        for name, options in ("by jump", ""), ("by fault", "--probes=off"):
            with tempfile.TemporaryDirectory() as directory:
                os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
                problems = [p for p in (problem(directory, pattern, n, ROUNDS, options) for n in range(runs)) if p]
                what = "%s, %s: %d recordings, all replays exact" % (pattern, name, runs)
                tap.ok(not problems, what, "\n".join(problems))
    tap.finish()


if __name__ == "__main__":
    main()
