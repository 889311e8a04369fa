#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replays what record_pingpong.py recorded, each side alone, on this machine (which needs no RDMA).

    replay_pingpong.py OUTDIR

Standard output must be that of the recording, byte for byte, and the verdict exact.
"""

import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import Tap, read, replay

SIDES = {0: "server", 1: "client"}


def exact(trace, rank):
    """None, or what is wrong with the replay of this rank."""
    expected = read("%s.%d.out" % (trace[:-len(".srec")], rank))
    status, out, err = replay(trace, rank)
    if out != expected:
        return "standard output differs\n--- recorded\n%s\n--- replayed\n%s\n%s" % (
            expected.decode(errors="replace"), out.decode(errors="replace"), err)
    if not re.search(r"rank %d: \d+ calls replayed, 0 divergences: exact$" % rank, err.strip(), re.M):
        return "verdict: status %s\n%s" % (status, err)
    return None


def main():
    tap = Tap()
    families = {}
    for trace in sorted(glob.glob(os.path.join(sys.argv[1], "*.srec"))):
        if os.path.basename(trace).startswith("killed"):
            continue
        family = re.sub(r"(-\d+)?\.srec$", "", os.path.basename(trace))
        families.setdefault(family, []).append(trace)
    tap.ok(families, "there are recordings in %s" % sys.argv[1])
    for family, traces in families.items():
        for rank, side in SIDES.items():
            problems = [p for p in (exact(t, rank) for t in traces) if p]
            tap.ok(not problems, "%s, %s: %d of %d replays exact" % (
                family, side, len(traces) - len(problems), len(traces)), "\n".join(problems))
    tap.finish()


if __name__ == "__main__":
    main()
