#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Two processes of one to four threads do random things to memory that they share: each replays exactly alone.

    shared_random.py [COUNT [FIRST_SEED [STEPS]]]
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "shared_random")
SECONDS = 100


def try_seed(directory, seed, steps):
    """'' or what went wrong."""
    threads = 1 + seed % 4
    trace, name = os.path.join(directory, "%d.srec" % seed), "sreplay-random-%d-%d" % (os.getpid(), seed)
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "-o", trace, "--rank", str(rank), "--", PROGRAM, name, str(rank),
                               str(threads), str(steps), str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
    said = [rank.communicate(timeout=SECONDS) for rank in ranks]
    os.unlink("/dev/shm/" + name)
    if any(rank.returncode for rank in ranks):
        return "seed %d: recorded: %s" % (seed, said)
    for rank in range(2):
        status, out, err = replay(trace, rank)
        if status != 0 or out != said[rank][0] or "0 divergences: exact" not in err:
            return "seed %d, rank %d: %s\n%s" % (seed, rank, status, err)
    return ""


def main():
    tap = Tap()
    count, first, steps = (int(sys.argv[i]) if len(sys.argv) > i else n for i, n in ((1, 12), (2, 1), (3, 1000)))
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        problems = [p for p in (try_seed(directory, seed, steps) for seed in range(first, first + count)) if p]
    tap.ok(not problems, "%d random programs, recorded and replayed exactly" % count, "\n".join(problems))
    tap.finish()


if __name__ == "__main__":
    main()
