#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The software device between processes (tests/lib/softdev): it does what a card does, and programs replay that were
recorded on it.

    softdev.py [NAME...]

Each case of tests/programs/between; then one-sided programs of several ranks, recorded, whose group replays exactly,
with all of their regions protected; what the driver process costs when there is nothing to do; and what is left.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from cases import names_of
from harness import BUILD, SREPLAY, Tap, free_port, fresh, read, run, until_listens

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")
SECONDS = 60
LARGE_SECONDS = 200
# Arguments, ranks, and which of them are recorded.
GROUPS = {
    "uts": (["T1-5"], 2, "0,1"), "dht": ([], 2, "0,1"), "is": (["14"], 4, "0,2"), "laplace": ([], 4, "0,1,2,3"),
    "fib": ([], 8, "0,3"),
}

INFINIBAND = ["infiniband-rc", "infiniband-ud"]


def between(tap, name):
    status, out, err = run([SOFTDEV, "-n", "2", "--", os.path.join(PROGRAMS, "between"), name], SECONDS)
    killed = name == "gone" and status == 128 + 9
    tap.ok((status == 0 or killed) and out.strip() == b"right", "between processes: " + name, out.decode() + err)


def group(tap, directory, name):
    arguments, ranks, recorded = GROUPS[name]
    out, trace = fresh(os.path.join(directory, name)), os.path.join(directory, name + ".srec")
    command = [os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", str(SECONDS), "-o", out, "-w", recorded,
               "%s record -o %s --rank %%r --group %s --" % (SREPLAY, trace, recorded), os.path.join(PROGRAMS, name)]
    status, _, err = run([SOFTDEV, "--"] + command + arguments, SECONDS)
    detail = "recorded: %s\n%s" % (status, err)
    again = os.path.join(directory, name + "-replayed")
    if status == 0:
        status, _, err = run([SREPLAY, "replay", "-o", again, trace], SECONDS)
        detail = "replayed: %s\n%s" % (status, err)
    exact = status == 0 and len(re.findall("0 divergences: exact", err)) == len(recorded.split(","))
    same = exact and all(read("%s/%s.out" % (out, r)) == read("%s/rank-%s.out" % (again, r)) for r in recorded.split(","))
    tap.ok(same, "%s, %s of %d ranks recorded: the group replays exactly" % (name, recorded, ranks), detail)
    info = subprocess.run([SREPLAY, "info", trace], capture_output=True, text=True).stdout
    tap.ok("protected" in info and "compared" not in info, "%s: all of its regions are protected" % name, info)


def both(side, port):
    """A script: the server, which listens there, and its client."""
    return "%s & %s; %s 127.0.0.1; wait" % (side % 0, until_listens(port), side % 1)


def large_message(tap, directory):
    """Over 1 GiB, which makes a record of that size."""
    trace, size, port = os.path.join(directory, "large.srec"), "1100000000", free_port()
    side = "%s record -q -o %s --rank %%d -- ibv_rc_pingpong -d soft0 -g 0 -p %d -s %s -n 1 -r 1" % (SREPLAY, trace, port, size)
    status, out, err = run([SOFTDEV, "--", "sh", "-c", both(side, port)], LARGE_SECONDS)
    tap.ok(status == 0, "a message of over 1 GiB is recorded", "%s\n%s" % (out.decode(), err))
    for rank in "0", "1":
        status, _, err = run([SREPLAY, "replay", "-r", rank, trace], LARGE_SECONDS)
        tap.ok(status == 0 and "0 divergences: exact" in err, "... and replayed: rank " + rank, err)


def over_infiniband(tap, directory, transport):
    """Its queue pairs have LIDs for addresses, and no GIDs: their group replays, too."""
    trace, port = os.path.join(directory, transport + ".srec"), free_port()
    side = "%s record -q -o %s --rank %%d -- ibv_%s_pingpong -d soft0 -p %d -n 100" % (SREPLAY, trace, transport, port)
    status, out, err = run([SOFTDEV, "-l", "infiniband", "--", "sh", "-c", both(side, port)], SECONDS)
    tap.ok(status == 0 and b"LID 0x0001" in out and b"GID ::" in out, "%s over InfiniBand is recorded" % transport,
           "%s\n%s" % (out.decode(), err))
    status, _, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(status == 0 and err.count("0 divergences: exact") == 2 and err.count("bytes entered from the group, 0 from outside") == 2,
           "... and its group replays exactly", err)


def flushes(tap, directory):
    """ibv_wr_flush is recorded as other builders are."""
    trace = os.path.join(directory, "flushes.srec")
    status, out, err = run([SOFTDEV, "--", SREPLAY, "record", "-q", "-o", trace, "--", os.path.join(PROGRAMS, "flushes"), "soft0"], SECONDS)
    if status == 77:
        tap.count += 1
        print("ok %d - flushes # SKIP libibverbs has none here" % tap.count)
        return
    flushed = len(re.findall(rb"opcode 8, status 0", out))
    tap.ok(status == 0 and flushed == 3 and b"8: opcode -1, status 10" in out, "flushes are recorded", out.decode() + err)
    dump = subprocess.run([SREPLAY, "dump", trace], capture_output=True, text=True).stdout
    tap.ok(len(re.findall(r" wr_flush\(", dump)) == 4, "... each of them", dump[-2000:])
    status, again, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(status == 0 and again == out and "0 divergences: exact" in err, "... and replayed", err)


def idle(tap):
    status, _, err = run([SOFTDEV, "-v", "--", "sleep", "2"], SECONDS)
    used = re.search(r"which used ([\d.]+) s of CPU", err)
    tap.ok(status == 0 and used and float(used.group(1)) < 0.1, "the driver process sleeps when there is nothing to do", err)


def main():
    tap = Tap()
    before = set(glob.glob("/dev/shm/softdev-*"))
    names = sys.argv[1:] or names_of(tap, os.path.join(PROGRAMS, "between")) + list(GROUPS) + INFINIBAND + ["flushes"]
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in names:
            if name == "large-message":
                large_message(tap, directory)
            elif name.startswith("infiniband-"):
                over_infiniband(tap, directory, name[len("infiniband-"):])
            elif name == "flushes":
                flushes(tap, directory)
            elif name in GROUPS:
                group(tap, directory, name)
            else:
                between(tap, name)
        idle(tap)
    status, _, err = run([SOFTDEV, "--", "sh", "-c", "exit 3"], SECONDS)
    tap.ok(status == 3, "the command's exit status is the result", "%s %s" % (status, err))
    left = [d for d in set(glob.glob("/dev/shm/softdev-*")) - before if not os.path.exists("%s/softdev.memory" % d)]
    tap.ok(not left, "nothing is left", left)
    tap.finish()


if __name__ == "__main__":
    main()
