#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Words that peers have written are changed in place, many in a row: what each change found is in the trace."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, replay, run

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
RANKS, SECONDS = 8, 60


def main():
    """At its end guppie undoes the updates of its own words by `table[i] ^= number`; nearly all lie in one page."""
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        out, trace = fresh(os.path.join(directory, "out")), os.path.join(directory, "guppie.srec")
        status, _, err = run([os.path.join(ROOT, "ci", "softdev"), "--", os.path.join(PROGRAMS, "pgasrun"), "-n", str(RANKS), "-t", str(SECONDS),
                              "-o", out, "-w", "0,1", "%s record -o %s --rank %%r --group 0,1 --" % (SREPLAY, trace),
                              os.path.join(PROGRAMS, "guppie"), "12", "256"], SECONDS)
        tap.ok(status == 0, "guppie runs on %d ranks, two of them recorded" % RANKS, "%s\n%s" % (status, err))
        for rank in range(2):
            with open(os.path.join(out, "%d.out" % rank), "rb") as f:
                printed = f.read()
            status, said, err = replay(trace, rank)
            tap.ok(status == 0 and said == printed and "0 divergences: exact" in err, "rank %d replays exactly" % rank,
                   "%s\n%s\n%s\n%s" % (status, printed, said, err))
    tap.finish()


if __name__ == "__main__":
    main()
