#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Progress is shown on a terminal only, and not with --quiet. (tests/unit/analysis/test_progress.c: how it looks.)

    progress.py
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, run, run_functions
from oddities import on_terminal

SECONDS = 90
BAR = r"\rsreplay: %s \[#* *\] +\d+ %%, [\d.]+ .?B/s"


def on(command):
    return on_terminal(["/bin/sh", "-c", command])


def bars(tap, directory):
    """Each byte of a file is a record, so that the replay takes seconds."""
    trace = os.path.join(directory, "dd.srec")
    status, _, err = run([SREPLAY, "record", "--from-start", "-o", trace, "--", "dd", "if=/dev/urandom", "of=/dev/null", "bs=1",
                          "count=250000", "status=none"], SECONDS)
    status, said = on("exec %s replay %s > /dev/null" % (SREPLAY, trace))
    tap.ok(status == 0 and re.search(BAR % "replaying", said) and re.search(r"\r\x1b\[Ksreplay: rank 0: .* exact\r\n$", said),
           "a replay has one, which is gone at the end", (err, said))
    status, said = on("exec %s replay --quiet %s > /dev/null" % (SREPLAY, trace))
    tap.ok(status == 0 and re.fullmatch(r"sreplay: rank 0: .* exact\r\n", said), "... not with --quiet", said)
    status, said = on("exec %s replay %s" % (SREPLAY, trace))
    tap.ok(status == 0 and "\r\x1b" not in said, "... nor where the program prints to the terminal itself", said)
    status, out, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(status == 0 and re.fullmatch(r"sreplay: rank 0: .* exact\n", err), "... nor in a pipe", err)
    for command in ("verify", "process", "report -o %s/r.html" % directory, "export -o %s/e.json" % directory, "collect -o %s/c.srec" % directory):
        status, said = on("exec %s %s --quiet %s > /dev/null" % (SREPLAY, command, trace))
        tap.ok(status == 0 and said == "", "sreplay %s --quiet says nothing" % command.split()[0], said)


if __name__ == "__main__":
    run_functions([bars])
