#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads meet at libc's own locks in a replay in the recorded order: recorded and replayed here.

    libc_order.py [RUNS [CASE...]]

Each case of tests/programs/libc_order is recorded and replayed, and the replay must print the same. Each case is recorded
in both ways in which threads run: at the same time, and one at a time.  Where they compute in between, both ways mix.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
from harness import BUILD, SREPLAY, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "libc_order")
# Threads that run at the same time may call a function of libc for the first time in another order, and ld.so looks it up where the
# first one is: that leaves something on the stack, which the program prints.
BOUND = dict(os.environ, LD_BIND_NOW="1")
WAYS = ["--threads=parallel", "--threads=serial"]
MIXED = {"symbols": ["--threads=auto"]}


def problem(directory, case, n):
    trace = os.path.join(directory, "libc.srec")
    for way in MIXED.get(case, WAYS):
        shutil.rmtree(trace, ignore_errors=True)
        recorded = subprocess.run([SREPLAY, "record", "--from-start", way, "-o", trace, "--", PROGRAM, case],
                                  capture_output=True, timeout=60, env=dict(BOUND, SREPLAY_SOCKET=os.environ["SREPLAY_SOCKET"]))
        if recorded.returncode or recorded.stderr:
            return "%s: recorded: status %s\n%s" % (way, recorded.returncode, recorded.stderr.decode())
        status, out, err = run([SREPLAY, "replay", "--timeout", "10", trace], 60)
        if status or out != recorded.stdout:
            return "%s: replayed: status %s, output %s\n%s" % (
                way, status, "equal" if out == recorded.stdout else "differs", err)
    return ""


if __name__ == "__main__":
    cases.main(PROGRAM, problem)
