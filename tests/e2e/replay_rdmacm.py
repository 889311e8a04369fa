#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replays what rdmacm.py recorded, each side alone, on this machine (which needs no RDMA).

    replay_rdmacm.py OUTDIR

Standard output must be that of the recording, byte for byte, and the verdict exact.
"""

import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import Tap
from replay_pingpong import SIDES, exact


def main():
    tap = Tap()
    traces = sorted(glob.glob(os.path.join(sys.argv[1], "*.srec")))
    tap.ok(traces, "there are recordings in %s" % sys.argv[1])
    for trace in traces:
        name = os.path.basename(trace)[:-len(".srec")]
        for rank, side in SIDES.items():
            problem = exact(trace, rank)
            tap.ok(not problem, "%s, %s: replayed exactly" % (name, side), problem)
    tap.finish()


if __name__ == "__main__":
    main()
