#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Asynchronous reads and writes by the kernel (io_submit): recorded, and replayed without the file.

    aio.py [RUNS [CASE...]]

Each case of tests/programs/aio is recorded, and replayed without the files; see tests/lib/asynchronous.py.
"""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import asynchronous
import cases
from harness import BUILD

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "aio")
FIO = {"fio": ["--numjobs=2"]}


def problem(directory, case, n):
    if case in FIO:
        return asynchronous.problem_of_fio(directory, "libaio", FIO[case])
    return asynchronous.problem(directory, PROGRAM, case, "io_submit")


if __name__ == "__main__":
    cases.main(PROGRAM, problem, more=list(FIO) if shutil.which("fio") else [])
