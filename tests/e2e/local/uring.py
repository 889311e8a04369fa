#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""io_uring: requests of all kinds, and all ways in which a program learns that they have ended.

    uring.py [RUNS [CASE...]]

Each case of tests/programs/uring, uring_newer and uring_order is recorded, and replayed without the files; see tests/lib/asynchronous.py.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import asynchronous
import cases
from harness import BUILD

PROGRAM, *OTHERS = (os.path.join(os.path.realpath(BUILD), "tests", "programs", name) for name in ("uring", "uring_newer", "uring_order"))
FIO = {"fio": [], "fio_registered": ["--fixedbufs", "--registerfiles"]}
OF_OTHERS = {case: program for program in OTHERS for case in subprocess.run([program], capture_output=True).stdout.decode().split()}


def problem(directory, case, n):
    if case in FIO:
        return asynchronous.problem_of_fio(directory, "io_uring", FIO[case])
    # A child that is not recorded cannot use the ring.
    os.environ["SREPLAY_CHILDREN"] = "off" if case == "refused" else "auto"
    return asynchronous.problem(directory, OF_OTHERS.get(case, PROGRAM), case, "io_uring_enter")


if __name__ == "__main__":
    cases.main(PROGRAM, problem, more=list(OF_OTHERS) + (list(FIO) if shutil.which("fio") else []))
