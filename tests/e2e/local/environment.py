#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What enters a process by libc calls comes back in its replay: records and replays here, no RDMA needed."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "environment")
RUNS = 5


def record(trace, *arguments):
    return subprocess.run([SREPLAY, "record", "-o", trace, "--"] + list(arguments), capture_output=True,
                          timeout=60)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        outputs = set()
        problems = []
        for run in range(RUNS):
            trace = os.path.join(directory, "%d.srec" % run)
            recorded = record(trace, PROGRAM, "20")
            status, out, err = replay(trace, 0)
            outputs.add(recorded.stdout)
            if (status, out) != (7, recorded.stdout) or recorded.returncode != 7:
                problems.append("%s %s\n%s%s" % (recorded.returncode, status, err, recorded.stderr.decode()))
        tap.ok(not problems, "%d recordings of what the environment gives, %d exact replays" % (RUNS, RUNS),
               "\n".join(problems))
        tap.ok(len(outputs) == RUNS, "each recording had printed something else")

        trace = os.path.join(directory, "0.srec")
        again = record(trace, PROGRAM)
        tap.ok(again.returncode == 125 and b"rank 0 of" in again.stderr and b"is recorded already" in again.stderr and not again.stdout,
               "a rank that the trace has already is not run, and that is said", again.stderr)

        trace = os.path.join(directory, "none.srec")
        inert = record(trace, "sh", "-c", "exit 3")
        tap.ok(inert.returncode == 3 and b"nothing was recorded" in inert.stderr and not os.path.exists(trace),
               "a program without libibverbs is left alone, and that is said", inert.stderr)

        trace = os.path.join(directory, "group.srec")
        outside = record(trace, "env", "SREPLAY_GROUP=1", PROGRAM)
        tap.ok(outside.returncode == 7 and not os.path.exists(trace), "a rank outside the group is not recorded",
               outside.stderr)

        missing = record(os.path.join(directory, "m.srec"), "/no/such/program")
        tap.ok(missing.returncode == 127 and b"/no/such/program" in missing.stderr,
               "a command that is not there gives 127", missing.stderr)
    tap.finish()


if __name__ == "__main__":
    main()
