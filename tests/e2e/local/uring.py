#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""io_uring: requests of all kinds, and all ways in which a program learns that they have ended.

    uring.py [RUNS [CASE...]]

Each case of tests/programs/uring is recorded, and replayed without the files; see tests/lib/asynchronous.py.
"""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import asynchronous
import cases
from harness import BUILD

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "uring")
FIO = {"fio": [], "fio_registered": ["--fixedbufs", "--registerfiles"]}


def problem(directory, case, n):
    if case in FIO:
        return asynchronous.problem_of_fio(directory, "io_uring", FIO[case])
    return asynchronous.problem(directory, PROGRAM, case, "io_uring_enter")


if __name__ == "__main__":
    cases.main(PROGRAM, problem, more=list(FIO) if shutil.which("fio") else [])
