#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What enters a process past all wrappers comes back in its replay: a test program per source, no RDMA needed.

    sources.py [RUNS]
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "sources")
SOURCES = ["proc", "urandom", "stdin", "files", "events", "streams", "messages", "waiting", "network", "machine",
           "addresses", "masks", "counter", "threads", "numbers", "unknown", "processor", "segments", "libc",
           "visitor", "runtime", "vdso"]
# What these print is the same in each run, or may be.
SAME = ["stdin", "streams", "messages", "waiting", "network", "addresses", "unknown", "processor", "libc",
        "visitor"]
INPUT = b"one two\nthree four\n"


def on_one_processor():
    """cpuid tells which one it is."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def record(trace, *arguments, options=()):
    return subprocess.run([SREPLAY, "record", "-o", trace, *options, "--", PROGRAM, *arguments], capture_output=True,
                          input=INPUT, timeout=60, preexec_fn=on_one_processor)


def on_another_processor():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def test_noted_processor(tap, directory):
    """Where a thread runs, which the kernel writes into its memory: a replay elsewhere."""
    trace = os.path.join(directory, "noted.srec")
    recorded = record(trace, "rseq", options=["--from-start"])
    status, out, err = replay(trace, 0, preexec_fn=on_another_processor)
    tap.ok((status, out) == (recorded.returncode, recorded.stdout), "rseq names the same processor on another one",
           "%s %s %s" % (recorded, out, err))


def test_visited_processors(tap, directory):
    """hwloc puts its thread on each CPU, and asks that one: a replay that may use one of them is told the numbers of all."""
    trace = os.path.join(directory, "visited.srec")
    recorded = subprocess.run([SREPLAY, "record", "-o", trace, "--", PROGRAM, "visitor"], capture_output=True, timeout=60)
    status, out, err = replay(trace, 0, preexec_fn=on_another_processor)
    tap.ok((status, out) == (recorded.returncode, recorded.stdout) and b"cpuid 00000001" in out,
           "each processor has its number in a replay on one", "%s %s %s" % (recorded, out, err))


def dump(trace):
    return subprocess.run([SREPLAY, "dump", trace], capture_output=True, text=True).stdout


def test_vector(tap, directory):
    """The auxiliary vector is found behind the environment, also where variables of ours were there."""
    pages = b"pages of %d bytes" % os.sysconf("SC_PAGESIZE")
    for what, options, command in (("--from-start", ["--from-start"], [PROGRAM, "runtime"]),
                                   ("exec", ["--from-start"], ["sh", "-c", "exec %s runtime" % PROGRAM]),
                                   ("exec with a setting that is gone", ["--from-start"],
                                    ["sh", "-c", "unset SREPLAY_TRACE; exec %s runtime" % PROGRAM])):
        trace = os.path.join(directory, "vector-%s.srec" % what.replace(" ", "-"))
        recorded = subprocess.run([SREPLAY, "record", "-o", trace, *options, "--"] + command, capture_output=True, timeout=60)
        status, out, err = replay(trace, 0)
        tap.ok(recorded.stdout.splitlines()[:1] == [pages] and (status, out) == (5, recorded.stdout),
               "the auxiliary vector stands behind the environment: %s" % what, "%s %s %s" % (recorded, out, err))


RANDOM_DEVICE = """#include <cstdio>
#include <random>
int main() {
	std::random_device any, file("/dev/urandom");
	std::mt19937 g(any());
	std::printf("%u %u %u\\n", unsigned(g()), any(), file());
}
"""


def test_random_device(tap, directory):
    """C++'s source of seeds is an instruction, which nothing traps."""
    program, trace = os.path.join(directory, "random_device"), os.path.join(directory, "random_device.srec")
    subprocess.run(["g++", "-x", "c++", "-o", program, "-"], input=RANDOM_DEVICE.encode(), check=True)
    recorded = subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, "--", program], capture_output=True, timeout=60)
    status, out, err = replay(trace, 0)
    tap.ok(not recorded.returncode and status == 0 and out == recorded.stdout, "std::random_device", err)


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

        test_vector(tap, directory)
        test_noted_processor(tap, directory)
        test_visited_processors(tap, directory)
        test_random_device(tap, directory)
        bare = subprocess.run([PROGRAM, "streams", "messages", "unknown"], capture_output=True)
        recorded = record(os.path.join(directory, "bare.srec"), "streams", "messages", "unknown")
        tap.ok([line.split()[0] for line in bare.stdout.splitlines()] ==
               [line.split()[0] for line in recorded.stdout.splitlines()], "what a program is told is as bare")
        tap.ok(recorded.stderr.count(b"system call 298") == 1, "a system call that is not known is named, once",
               recorded.stderr.decode())
        tap.ok("unknown_system_call(number=298)" in dump(os.path.join(directory, "bare.srec")),
               "and marked in the trace")

        trace = os.path.join(directory, "off.srec")
        recorded = record(trace, "machine", "counter", "masks", options=["--syscall-trap=off"])
        tap.ok(recorded.returncode == 5 and " openat(" not in dump(trace), "--syscall-trap=off: nothing is caught",
               recorded.stderr.decode())
        trace = os.path.join(directory, "native.srec")
        recorded = record(trace, "counter", options=["--tsc=native"])
        tap.ok(recorded.returncode == 5 and " rdtsc(" not in dump(trace), "--tsc=native: the counter is left alone",
               recorded.stderr.decode())
    tap.finish()


if __name__ == "__main__":
    main()
