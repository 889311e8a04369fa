#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Litmus tests of memory that two processes share by plain loads, stores and atomic instructions: no recorded process finds
what the processor forbids, each replays exactly alone, and both replay together.

    shared_litmus.py [ROUNDS [PATTERN...]]

With many rounds, each is replayed alone only.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "shared_litmus")
PATTERNS = "message", "buffering", "sequence", "spin", "ticket", "compare", "queue", "copies"
SECONDS = 3600
TOGETHER_MAX = 100000  # rounds


def check(tap, directory, pattern, rounds):
    trace, name = os.path.join(directory, pattern + ".srec"), "sreplay-litmus-%s-%d" % (pattern, os.getpid())
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "-o", trace, "--rank", str(rank), "--", PROGRAM, pattern,
                               name, str(rank), rounds], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
    said = [rank.communicate(timeout=SECONDS) for rank in ranks]
    os.unlink("/dev/shm/" + name)
    tap.ok(all(rank.returncode == 0 for rank in ranks), "%s, %s rounds: nothing forbidden" % (pattern, rounds), str(said))
    print("# " + "# ".join(out.decode() for out, _ in said), end="", flush=True)
    for rank in range(2):
        status, out, err = replay(trace, rank, timeout=SECONDS)
        tap.ok(status == 0 and out == said[rank][0] and "0 divergences: exact" in err, "%s: side %d replays exactly" %
               (pattern, rank), "%s\n%s\n%s\n%s" % (status, said[rank][0], out, err))
    if int(rounds) > TOGETHER_MAX:
        return
    status, out, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(status == 0 and "all 2 ranks ended as recorded" in err and "through memory shared" not in err,
           "%s: both replay together, and who stored each byte is found" % pattern, "%s\n%s" % (status, err))


def main():
    tap, rounds = Tap(), sys.argv[1] if len(sys.argv) > 1 else "4000"
    for pattern in sys.argv[2:] or PATTERNS:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
            check(tap, directory, pattern, rounds)
    tap.finish()


if __name__ == "__main__":
    main()
