#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Random programs of threads that decide by plain atomics, spins and futexes replay exactly, or the verdict says that not.

    random_atomics.py [COUNT [FIRST_SEED [THREADS]]]

Each seed is a program (tests/programs/random_atomics) of 8 threads, which is recorded with --threads=serial and replayed.
What each thread found is printed and compared. A replay that is said to be exact and printed something else is a failure;
999 of 1000 must be exact, and of fewer all but one. JOBS=N runs so many at a time. KEEP=DIR keeps the traces that were not.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "random_atomics")
SECONDS = 120


def try_seed(directory, seed, threads):
    """(kind, detail): 'exact', 'reported' or 'lied'."""
    trace = os.path.join(directory, "%d.srec" % seed)
    recorded = subprocess.run([SREPLAY, "record", "--from-start", "--threads=serial", "-o", trace, "--", PROGRAM,
                               str(seed), str(threads)], capture_output=True, timeout=SECONDS)
    if recorded.returncode:
        return "lied", "seed %d: recorded: status %d\n%s" % (seed, recorded.returncode, recorded.stderr.decode())
    status, output, err = run([SREPLAY, "replay", "--timeout", "30", trace], SECONDS)
    kind = "reported"
    if " 0 divergences: exact\n" in err and status == 0:
        kind = "exact" if output == recorded.stdout else "lied"
    if kind != "exact" and os.environ.get("KEEP"):
        shutil.copytree(trace, os.path.join(os.environ["KEEP"], "%d.srec" % seed), dirs_exist_ok=True)
    shutil.rmtree(trace)
    return kind, "" if kind == "exact" else "seed %d: status %s\n%s" % (seed, status, err)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
            results = list(pool.map(lambda seed: try_seed(directory, seed, threads), range(first, first + count)))
    lied = [detail for kind, detail in results if kind == "lied"]
    reported = [detail for kind, detail in results if kind == "reported"]
    print("# %d programs: %d exact, %d reported as not exact, %d otherwise" % (
        count, count - len(lied) - len(reported), len(reported), len(lied)), flush=True)
    tap.ok(not lied, "%d random programs of %d threads: none is said to be exact that is not" % (count, threads), "\n".join(lied))
    tap.ok(len(reported) <= max(1, count // 1000), "of %d programs nearly all replay exactly" % count, "\n".join(reported))
    tap.finish()


if __name__ == "__main__":
    main()
