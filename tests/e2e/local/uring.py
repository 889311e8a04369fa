#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""io_uring: requests of all kinds, and all ways in which a program learns that they have ended.

    uring.py [RUNS [CASE...]]

Each case of tests/programs/uring and uring_newer is recorded, and replayed without the files; see tests/lib/asynchronous.py.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import asynchronous
import cases
from harness import BUILD

PROGRAM, NEWER = (os.path.join(os.path.realpath(BUILD), "tests", "programs", name) for name in ("uring", "uring_newer"))
FIO = {"fio": [], "fio_registered": ["--fixedbufs", "--registerfiles"]}
OF_NEWER = subprocess.run([NEWER], capture_output=True).stdout.decode().split()


def problem(directory, case, n):
    if case in FIO:
        return asynchronous.problem_of_fio(directory, "io_uring", FIO[case])
    # A child that is not recorded cannot use the ring.
    os.environ["SREPLAY_CHILDREN"] = "off" if case == "refused" else "auto"
    return asynchronous.problem(directory, NEWER if case in OF_NEWER else PROGRAM, case, "io_uring_enter")


if __name__ == "__main__":
    cases.main(PROGRAM, problem, more=OF_NEWER + (list(FIO) if shutil.which("fio") else []))
