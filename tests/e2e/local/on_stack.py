#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
What is registered on the main thread's stack is compared at each call.  Frames of other functions that come to lie there are
as recorded in a replay, alone and of the group, among them the recorder's own around an operation on the heap.  So is thread-local memory, beside which libc and the recorder have theirs.
On the software device.

    on_stack.py [RUNS]
"""

import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay, run
from order import exact, record

RANKS = 3
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")


def problem(directory, run):
    trace, outputs, wrong = record(directory, "on-stack-%d" % run, RANKS, ["on_stack"], "")
    status, out, err = replay(trace, 0)
    if not wrong and (status != 0 or out != outputs[0] or "0 divergences: exact" not in err):
        wrong = "rank 0 alone: %s\n%s" % (status, err)
    return wrong or exact(directory, trace, outputs)


def alone(directory, name, said, times):
    """The problem of this program, which says that so often."""
    trace = os.path.join(directory, name + ".srec")
    program = os.path.join(BUILD, "tests", "programs", name)
    status, out, err = run([SOFTDEV, "--", SREPLAY, "record", "-o", trace, "--", program], 20)
    if status != 0 or out.count(said) != times:
        return "recorded: %s\n%s%s" % (status, out.decode(), err)
    status, again, err = run([SREPLAY, "replay", "--timeout", "10", "--rank", "0", trace], 60)
    return "" if status == 0 and again == out and "0 divergences: exact" in err else "replayed: %s\n%s" % (status, err)


def in_gdb(tap, trace):
    """gdb starts the process, with other random bytes than the recorded ones; frames have canaries and mangled pointers."""
    if not shutil.which("gdb"):
        return tap.skip("gdb, with an array on the stack", "no gdb")
    status, out, err = run([SREPLAY, "replay", "--gdb", "0", trace, "--", "-nx", "-batch", "-ex", "continue"], 60)
    tap.ok(status == 0 and b"joined" in out and "0 divergences: exact" in err, "gdb, with an array on the stack: exact", "%s\n%s%s" % (status, out.decode(), err))


def main():
    tap, runs = Tap(), int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        problems = [p for p in (problem(directory, n) for n in range(runs)) if p]
        tap.ok(not problems, "an array on the stack: %d recordings, all replays exact" % runs, "\n".join(problems))
        wrong = alone(directory, "thread_local", b"status 0", 3)
        tap.ok(not wrong, "thread-local memory: exact", wrong)
        if os.path.exists(os.path.join(BUILD, "tests", "programs", "stack_frames")):
            wrong = alone(directory, "stack_frames", b"joined", 1)
            tap.ok(not wrong, "frames of operations on the heap, with calls within them: exact", wrong)
            in_gdb(tap, os.path.join(directory, "stack_frames.srec"))
    tap.finish()


if __name__ == "__main__":
    main()
