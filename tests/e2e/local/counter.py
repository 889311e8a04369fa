#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The time-stamp counter and random numbers, read by instructions: recorded and replayed exactly, and without a trap in a steady state."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, read, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "counter")
WHAT = ["instructions", "registers", "threads", "signals", "library", "children", "clocks"]


def record(trace, *arguments, options=()):
    return subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, *options, "--", PROGRAM, *arguments],
                          capture_output=True, timeout=100)


def dump(trace):
    return subprocess.run([SREPLAY, "dump", "--addresses", trace], capture_output=True, text=True).stdout


def check(tap, directory, what, options=(), wanted=(), name=None):
    trace = os.path.join(directory, "%s%d.srec" % (what, len(options)))
    recorded = record(trace, what, options=options)
    status, out, err = replay(trace, 0)
    printed = recorded.stdout.decode()
    good = recorded.returncode == 0 and status == 0 and "exact" in err
    good = good and out == recorded.stdout
    if wanted:
        # What the recorder has done to the process, which a replay does otherwise.
        printed += record(trace + ".tell", what, "tell", options=options).stdout.decode()
    tap.ok(good and "FAILED" not in printed and all(w in printed for w in wanted), name or what,
           "%s %s\n%s%s\n--- recorded\n%s--- replayed\n%s" % (recorded.returncode, status, recorded.stderr.decode(), err,
                                                             printed, out.decode()))
    return trace, recorded.stdout


def draws(tap, directory, *options):
    trace = os.path.join(directory, "draws%d.srec" % len(options))
    program = [os.path.join(os.path.dirname(PROGRAM), name) for name in ("draws", "counter_module.so")]
    recorded = subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, *options, "--", *program], capture_output=True, timeout=100)
    status, out, err = replay(trace, 0)
    said = dump(trace).count(" rdrand(")
    good = recorded.returncode == status == 0 and "FAILED" not in out.decode() and " exact" in err and out == recorded.stdout
    tap.ok(good and said >= 1508, "random numbers that instructions draw: %s" % (options or "all forms"),
           "%d drawn, %s\n%s%s%s" % (said, status, err, recorded.stdout.decode(), out.decode()))


def is_quick_in_turn(tap, directory):
    """Both take the short way; the general one takes ten times as long."""
    said, took = "", {}
    for threads in ("parallel", "serial"):
        said = record(os.path.join(directory, threads + ".srec"), "quickly", "tell", options=["--threads=" + threads]).stdout.decode()
        took[threads] = int(said.split()[1]) if said.startswith("ps ") else None
    tap.ok(all(took.values()) and took["serial"] < 3 * took["parallel"], "where threads run one at a time, it is as quick",
           "%s\n%s" % (took, said))


def main():
    tap = Tap()
    can_trap = subprocess.run([PROGRAM, "can-trap"]).returncode == 0
    print("# rdtsc %s on this machine" % ("traps" if can_trap else "does not trap"))
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        wanted = {"registers": ["0 failures"], "children": ["child 0\nchild 0"], "clocks": ["trap off"], "library": ["jumps in the module: 3"]}
        traces = {what: check(tap, directory, what, wanted=wanted.get(what, []))[0] for what in WHAT}
        tap.ok(dump(traces["instructions"]).count(" rdtsc(") == 3 * 3000 + 3 * 100 + 3001, "each read has its record")
        tap.ok(" aux=" in dump(traces["instructions"]), "rdtscp's processor is in the record")
        check(tap, directory, "steady", wanted=["jumps 1 1 1, trap off"],
              name="in a steady state the instructions are jumps, and the trap is off")
        check(tap, directory, "replaced", wanted=["jumps 1 1 1, trap off"],
              name="... also if another library has replaced a function by its own")
        check(tap, directory, "threads", options=["--threads=serial"], name="one thread at a time")
        check(tap, directory, "quickly", name="beside a thread that sleeps")
        if " rdrand " in read("/proc/cpuinfo").decode():
            draws(tap, directory)
            draws(tap, directory, "--threads=serial")
        if can_trap:
            is_quick_in_turn(tap, directory)
            check(tap, directory, "steady", options=["--probes=off"], wanted=["jumps 0 0 0, trap on"],
                  name="--probes=off leaves the code as it is")
            check(tap, directory, "unclear", wanted=["before it is executed: trap off", "behind that: trap on"],
                  name="what looks like an instruction, and nobody knows, brings the trap back when it is executed")
            check(tap, directory, "jit", name="code that no file has traps")
    tap.finish()


if __name__ == "__main__":
    main()
