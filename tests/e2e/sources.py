#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What enters a process past all wrappers comes back in its replay: a test program per source, no RDMA needed.

    sources.py [RUNS]
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "apps", "sources")
SOURCES = ["proc", "urandom", "stdin", "files", "events", "streams", "messages", "waiting", "network", "machine",
           "addresses", "masks", "counter", "threads", "numbers", "unknown"]
# What these print is the same in each run, or may be.
SAME = ["stdin", "streams", "messages", "waiting", "network", "addresses", "unknown"]
INPUT = b"one two\nthree four\n"


def record(trace, *arguments, options=()):
    return subprocess.run([SREPLAY, "record", "-o", trace, *options, "--", PROGRAM, *arguments], capture_output=True,
                          input=INPUT, timeout=60)


def dump(trace):
    return subprocess.run([SREPLAY, "dump", trace], capture_output=True, text=True).stdout


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for source in SOURCES:
            problems, outputs = [], set()
            for run in range(runs):
                trace = os.path.join(directory, "%s-%d.srec" % (source, run))
                recorded = record(trace, source)
                status, out, err = replay(trace, 0)
                outputs.add(recorded.stdout)
                if (recorded.returncode, status) != (5, 5) or out != recorded.stdout:
                    problems.append("%s %s\n%s%s\n--- recorded\n%s--- replayed\n%s" % (
                        recorded.returncode, status, recorded.stderr.decode(), err, recorded.stdout.decode(),
                        out.decode()))
            if source not in SAME and len(outputs) != runs:
                problems.append("the recordings printed the same")
            tap.ok(not problems, "%s: %d recordings, %d exact replays" % (source, runs, runs), "\n".join(problems))

        bare = subprocess.run([PROGRAM, "streams", "messages", "unknown"], capture_output=True)
        recorded = record(os.path.join(directory, "bare.srec"), "streams", "messages", "unknown")
        tap.ok([line.split()[0] for line in bare.stdout.splitlines()] ==
               [line.split()[0] for line in recorded.stdout.splitlines()], "what a program is told is as bare")
        tap.ok(recorded.stderr.count(b"system call 425") == 1, "a system call that is not known is named, once",
               recorded.stderr.decode())
        tap.ok("unknown_system_call(number=425)" in dump(os.path.join(directory, "bare.srec")),
               "and marked in the trace")

        trace = os.path.join(directory, "off.srec")
        recorded = record(trace, "machine", "counter", "masks", options=["--net=off"])
        tap.ok(recorded.returncode == 5 and "openat" not in dump(trace), "--net=off: nothing is caught",
               recorded.stderr.decode())
        trace = os.path.join(directory, "native.srec")
        recorded = record(trace, "counter", options=["--tsc=native"])
        tap.ok(recorded.returncode == 5 and "rdtsc" not in dump(trace), "--tsc=native: the counter is left alone",
               recorded.stderr.decode())
    tap.finish()


if __name__ == "__main__":
    main()
