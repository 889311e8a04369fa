#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replays what rdmacm.py recorded, each side alone, on this machine (which needs no RDMA).

    replay_rdmacm.py OUTDIR [TIMES]

Standard output must be that of the recording, byte for byte, and the verdict exact; for a server that
never ends, up to where it was killed.  What cannot be so yet is named below, with the reason.
"""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import Tap, replay
from rdmacm import ENDLESS
from replay_pingpong import SIDES, exact

# What these sides of programs need is not recorded yet.
PEER_WRITES = "memory that its peer writes"
NOT_YET = {
    ("riostream", 0): PEER_WRITES,
    ("riostream", 1): PEER_WRITES,
}


def up_to_the_kill(trace, rank):
    status, _, err = replay(trace, rank)
    if status == 123 and "0 divergences: exact, up to where the recorded program was killed" in err:
        return None
    return "status %s\n%s" % (status, err)


def check_of(name, rank):
    return up_to_the_kill if name in ENDLESS and rank == 0 else exact


def ranks(trace):
    return [rank for rank in SIDES if os.path.isdir(os.path.join(trace, "rank-%d" % rank))]


def main():
    tap = Tap()
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    traces = sorted(glob.glob(os.path.join(sys.argv[1], "*.srec")))
    tap.ok(traces, "there are recordings in %s" % sys.argv[1])
    for trace in traces:
        name = os.path.basename(trace)[:-len(".srec")]
        for rank in ranks(trace):
            if (name, rank) in NOT_YET:
                tap.ok(True, "%s, %s # SKIP %s" % (name, SIDES[rank], NOT_YET[name, rank]))
                continue
            problems = [p for p in (check_of(name, rank)(trace, rank) for _ in range(times)) if p]
            tap.ok(not problems, "%s, %s: %d of %d replays exact" % (name, SIDES[rank], times - len(problems), times),
                   problems[0] if problems else "")
    tap.finish()


if __name__ == "__main__":
    main()
