#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Registered memory as a buffer of io_uring and libaio: what comes there and goes out is replayed.  Needs no RDMA.

    exposed_uring.py [RUNS [CASE...]]

Each case of tests/programs/verbs/exposed_uring.c is a process alone; those of tests/programs/pgas/storage.c are jobs, which are
replayed as a group: what the kernel brought is no other rank's.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
import pollers
from order import exact, record

ALONE, JOBS = (os.path.join(pollers.PROGRAMS, name) for name in ("exposed_uring", "storage"))
OF_JOBS = subprocess.run([JOBS], capture_output=True, text=True).stdout.split()


def problem(directory, case, n):
    if case not in OF_JOBS:
        return pollers.problem(ALONE, directory, case, n)
    trace, outputs, wrong = record(directory, "%s-%d" % (case, n), 2, ["storage", case], "" if n % 2 else "--order")
    return wrong or exact(directory, trace, outputs)


if __name__ == "__main__":
    cases.main(ALONE, problem, lambda case, runs: runs if case in OF_JOBS else 3 * runs, more=OF_JOBS)
