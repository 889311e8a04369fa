#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads that make random verbs calls (tests/programs/fuzz_verbs.c) on the stand-in for libibverbs: no RDMA needed.

    fuzz_verbs.py [SEEDS [FIRST [STEPS]]]

For each seed the program runs recorded, and is replayed: with objects of each thread's own, when it must be the same
bare; with objects that all threads use at once; and with clocks, with requests executed by chance and by a thread of
the device's, where that may be.
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, first_difference, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "fuzz_verbs")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
RUN_SECONDS = 60
# A device that reports at arming what came before may report a completion of the recorder's own (limits.md, Verbs): events differ.
ARMING = {"SOFTDEV_ARMING": "later"}
WAYS = (
    ("apart", {}),
    ("together", {}),
    ("apart", {"SOFTDEV_FAULTS": "seed"}),
    ("together", {"SOFTDEV_FAULTS": "seed"}),
    ("together", {"SOFTDEV_SEED": "time"}),
    ("together", {"SOFTDEV_THREAD": "time"}),
    ("apart", {"SREPLAY_CLOCKS": "2", **ARMING}),
    ("together", {"SREPLAY_CLOCKS": "2", "SOFTDEV_SEED": "time"}),
    ("together", {"SREPLAY_CLOCKS": "2", "SOFTDEV_FAULTS": "seed", "SOFTDEV_SEED": "time"}),
    ("together", {"SREPLAY_CLOCKS": "2", "SOFTDEV_FAULTS": "seed", "SOFTDEV_THREAD": "time"}),
)

# Seeds that failed once, by the ways above: of a CLOCK for a request that the provider refuses, the program saw an
# event, or had its failure taken; a READER that was refused took the completion of its request with it.
FOUND = {6: [1029, 1099, 1117, 20036, 20066], 8: [100, 101], 9: [101, 102]}


def run(command, environment):
    try:
        return subprocess.run(command, env=environment, capture_output=True, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(e.cmd, "hang", e.stdout or b"", e.stderr or b"")


def difference(directory, seed, steps, way, settings):
    """'' if all is as it must be, else what is not."""
    command = [PROGRAM, str(seed), way, str(steps)]
    environment = dict(os.environ, LD_LIBRARY_PATH=SOFTDEV)
    environment.update({name: str(seed) if value == "seed" else value for name, value in settings.items()})
    trace = os.path.join(directory, "fuzz.srec")
    shutil.rmtree(trace, ignore_errors=True)
    recorded = run([SREPLAY, "record", "-o", trace, "--"] + command, environment)
    if recorded.returncode or recorded.stderr:
        return "recorded: exit status %s\n%s%s" % (recorded.returncode, recorded.stdout.decode()[-400:],
                                                  recorded.stderr.decode(errors="replace"))
    if way == "apart":
        bare = run(command, environment)
        if bare.stdout != recorded.stdout:
            return "recorded output\n" + first_difference(recorded.stdout, bare.stdout)
    status, out, err = replay(trace, 0)
    if status or out != recorded.stdout or "0 divergences: exact" not in err:
        return "replayed: exit status %s\n%s\n%s" % (status, first_difference(out, recorded.stdout), err)
    if way == "apart":
        # Queue pairs that are reset, renewed and connected to others: what each received is what its peer sent.
        compared = run([SREPLAY, "replay", "--timeout", "20", "--transport", "shm", trace], os.environ)
        if compared.returncode:
            return "replayed with its requests compared: %s\n%s" % (compared.returncode, compared.stderr.decode())
    return ""


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5 if FULL else 1
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for number, (way, settings) in enumerate(WAYS):
            bad = []
            tried = list(range(first, first + seeds)) + (FOUND.get(number, []) if steps == 300 else [])
            for seed in tried:
                detail = difference(directory, seed, steps, way, settings)
                if detail:
                    bad.append("seed %d: %s" % (seed, detail))
            tap.ok(not bad, "%d seeds, threads %s%s" % (len(tried), way, "".join(" %s=%s" % s for s in settings.items())),
                   "%d of %d\n" % (len(bad), len(tried)) + "\n".join(bad))
    tap.finish()


if __name__ == "__main__":
    main()
