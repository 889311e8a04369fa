#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a group's replay costs: hardly more CPU time than the replays of its ranks, each alone, whatever the ranks do to each
other. perftest, which does the same again and again with large buffers, on the software device.

    group_speed.py [NAME...]    prints the CPU times of those named, too
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "lib"))
sys.path.insert(0, HERE)
from harness import SREPLAY, Tap, free_port
import roster

SECONDS = 300
MOST = 2.5 # times the ranks' own

PROGRAMS = {
    # Each WRITE brings 17 pages, the same ones: some 270,000 in all.
    "ib_write_bw": ["-s", "65536", "-n", "16000"],
}


def inside(name, trace):
    """In the fabric: records both ranks."""
    pair = roster.perftest(name, "-n", "1")
    pair.server = [name, "-d", "soft0", "-x", "1", "-F", "-p", "PORT"] + PROGRAMS[name]
    pair.client = pair.server + ["127.0.0.1"]
    statuses, said = pair.go(lambda rank: [SREPLAY, "record", "-o", trace, "--rank", str(rank), "--"], True, free_port())
    print(said)
    sys.exit(any(statuses))


def cpu_of_replay(*arguments):
    """The CPU time; its verdict, and whether it is exact."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    r = subprocess.run([SREPLAY, "replay"] + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, timeout=SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, r.returncode, r.stderr.decode()


def test(tap, name, directory):
    trace = os.path.join(directory, name + ".srec")
    r = subprocess.run(roster.SOFTDEV + [sys.executable, os.path.realpath(__file__), "--inside", name, trace],
                       capture_output=True, timeout=SECONDS)
    tap.ok(not r.returncode, "%s: runs, recorded" % name, r.stdout.decode() + r.stderr.decode())
    alone = [cpu_of_replay("-r", rank, trace) for rank in ("0", "1")]
    together, status, said = cpu_of_replay(trace)
    sum_alone = sum(cpu for cpu, _, _ in alone)
    tap.ok(not status and "all 2 ranks ended as recorded" in said and " 0 from outside" in said and not any(a[1] for a in alone),
           "%s: replays, alone and together" % name, said)
    tap.ok(together < MOST * sum_alone + 0.2, "%s: together in %.2f s of CPU time, alone in %.2f" % (name, together, sum_alone))


def main():
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in sys.argv[1:] or PROGRAMS:
            if shutil.which(name):
                test(tap, name, directory)
            else:
                tap.count += 1
                print("ok %d - %s # SKIP not installed here" % (tap.count, name))
    tap.finish()


if __name__ == "__main__":
    main()
