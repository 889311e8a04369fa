#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Asynchronous reads and writes, by the kernel (io_submit) and as POSIX has them (aio_read): recorded, and replayed without the file.

    aio.py [RUNS [CASE...]]

Each case of tests/programs/aio and posix_aio (there: posix-CASE) is recorded, and replayed without the files; see tests/lib/asynchronous.py.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import asynchronous
import cases
from harness import BUILD

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
PROGRAM, POSIX = (os.path.join(PROGRAMS, name) for name in ("aio", "posix_aio"))
FIO = {"fio": ("libaio", ["--numjobs=2"]), "posix-fio": ("posixaio", ["--size=1m"])}
OF_POSIX = "posix-"


def problem(directory, case, n):
    if case in FIO:
        return asynchronous.problem_of_fio(directory, *FIO[case])
    if case.startswith(OF_POSIX):
        return asynchronous.problem(directory, POSIX, case[len(OF_POSIX):], "pwrite64")
    return asynchronous.problem(directory, PROGRAM, case, "io_submit")


def posix_cases():
    return [OF_POSIX + case for case in subprocess.check_output([POSIX], text=True).split()]


if __name__ == "__main__":
    cases.main(PROGRAM, problem, more=posix_cases() + (list(FIO) if shutil.which("fio") else []))
