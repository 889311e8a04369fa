#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The connection manager of the software device (tests/lib/softdev/cm), under the distribution's librdmacm.

    softdev_cm.py [CASE...]

Each case of tests/programs/softdev_cm runs bare, in a fabric of its own.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from cases import names_of
from harness import BUILD, Tap, run

BUILD = os.path.realpath(BUILD)
PROGRAMS = os.path.join(BUILD, "tests", "programs")
CASES = os.path.join(PROGRAMS, "softdev_cm")
LIBRARY = os.path.join(BUILD, "tests", "lib", "softdev", "cm", "softdev_cm_alone.so")
SECONDS = 30


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        # Processes of one fabric reach each other, and nobody else does.
        env = dict(os.environ, SOFTDEV_FABRIC=directory, LD_PRELOAD=LIBRARY,
                   LD_LIBRARY_PATH=os.path.join(BUILD, "tests", "lib", "device"))
        for case in sys.argv[1:] or names_of(tap, CASES):
            status, out, err = run([CASES, case], SECONDS, env=env)
            tap.ok(status == 0, case.replace("_", " "), "exit status %s\n%s%s" % (status, out.decode(), err))
    tap.finish()


if __name__ == "__main__":
    main()
