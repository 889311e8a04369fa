#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a group's replay costs: hardly more CPU time than the replays of its ranks, each alone, whatever the ranks do to each
other. perftest, which does the same again and again with large buffers, on the software device. And programs that change the
same memory again and again: finding who did costs in proportion to how often.

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
from order import PROGRAMS as OURS
import roster

SECONDS = 300
MOST = 2.5 # times the ranks' own

PROGRAMS = {
    # Each WRITE brings 17 pages, the same ones: some 270,000 in all.
    "ib_write_bw": ["-s", "65536", "-n", "16000"],
}

# Ranks, the program, and how often: four times as often costs less than so many times as much. What each change costs more than
# the one before would be sixteen times.
GROWING = {"block-cleared": (2, "refetches", 20), "board": (3, "fetches", 800), "contended-wide": (3, "fetches", 800)}
GROWTH = 8


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


def cost_of_finding(tap, directory, name, times):
    """CPU seconds of a group's replay that find who brought what."""
    ranks, program, _ = GROWING[name]
    trace, everyone = os.path.join(directory, "%s-%d.srec" % (name, times)), "0-%d" % (ranks - 1)
    r = subprocess.run([roster.SOFTDEV[0], "--", os.path.join(OURS, "pgasrun"), "-n", str(ranks), "-w", everyone, "%s record -o %s --rank %%r --" %
                        (SREPLAY, trace), os.path.join(OURS, program), name, str(times)], capture_output=True, timeout=SECONDS)
    found, status, said = cpu_of_replay(trace)
    alone = cpu_of_replay("--transport", "none", trace)
    tap.ok(not r.returncode and not status and not alone[1] and "all %d ranks ended as recorded" % ranks in said,
           "%s, %d times: replays with producers and without" % (name, times), said or r.stderr.decode())
    return found - alone[0]


def test_growth(tap, name, directory):
    times = GROWING[name][2]
    few, many = cost_of_finding(tap, directory, name, times), cost_of_finding(tap, directory, name, 4 * times)
    tap.ok(many < GROWTH * few + 0.4, "%s: finding who brought what takes %.2f s of CPU time, four times as often %.2f" % (name, few, many))


def main():
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in sys.argv[1:] or [*PROGRAMS, *GROWING]:
            if name in GROWING:
                test_growth(tap, name, directory)
            elif shutil.which(name):
                test(tap, name, directory)
            else:
                tap.count += 1
                print("ok %d - %s # SKIP not installed here" % (tap.count, name))
    tap.finish()


if __name__ == "__main__":
    main()
