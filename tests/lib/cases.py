# SPDX-License-Identifier: BSD-2-Clause
"""Runs each case of a program of tests/programs several times. The program names its cases when it gets none.

The tests' arguments are [RUNS [CASE...]].
"""

import os
import subprocess
import sys
import tempfile

from harness import FULL, Tap


def names_of(tap, program, **options):
    """Its cases; a program without any tests nothing."""
    names = subprocess.run([program], capture_output=True, **options).stdout.decode().split()
    if not names:
        tap.ok(False, "%s names its cases" % program)
    return names


def main(program, problem, times=lambda case, runs: runs, more=()):
    """more: cases that the program does not have. problem(directory, case, N), N from 1: '' or what is wrong with one recording and its replay."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2 if FULL else 1
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for case in sys.argv[2:] or names_of(tap, program) + list(more):
            detail = ""
            for n in range(1, times(case, runs) + 1):
                detail = problem(directory, case, n)
                if detail:
                    detail = "%d: %s" % (n, detail)
                    break
            tap.ok(not detail, "%s: recorded and replayed %d times" % (case, times(case, runs)), detail)
    tap.finish()
