#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Terminals, descriptors and processes past the usual functions: recorded on a terminal, replayed without one.

    oddities.py [RUNS [CASE...]]

Each case of tests/programs/oddities writes what it saw into a file. The replay must write the same.
"""

import os
import pty
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import cases
from harness import BUILD, SREPLAY, read, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "oddities")
# What is neither recorded nor replayed: what the recorder says of it, and the verdict.
UNRECORDED = {"raw_thread": ("made a thread by clone itself", "made by clone"),
              "queue_thread": ("asked libc for a thread for each event", "made by clone"),
              "kernel_writes": ("sreplay knows nothing of system call", "not compared is what system calls do")}


# Its standard output is a file.
INTO_FILE = ["standard_output"]


def into_file(arguments, path):
    """As on_terminal."""
    with open(path, "w") as f:
        f.write("before\n")
        f.flush()
        r = subprocess.run(arguments, stdout=f, stderr=subprocess.PIPE, text=True)
    return r.returncode, r.stderr


def on_terminal(arguments):
    """(wait status, what it printed there) of a command in a session and on a terminal of its own."""
    child, fd = pty.fork()
    if not child:
        os.execv(arguments[0], arguments)
    printed = b""
    while True:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        printed += piece
    os.close(fd)
    return os.waitpid(child, 0)[1], printed.decode()


def problem(directory, case, n):
    trace, out = os.path.join(directory, "odd.srec"), os.path.join(directory, "out")
    shutil.rmtree(trace, ignore_errors=True)
    command = [SREPLAY, "record", "--from-start", "-o", trace, "--", PROGRAM, case, out]
    status, printed = into_file(command, out + ".stdout") if case in INTO_FILE else on_terminal(command)
    said = UNRECORDED[case][0] in printed if case in UNRECORDED else printed == ""
    recorded = read(out)
    if status or not said or not recorded:
        return "recorded: status %s, %s\n%s" % (status, recorded, printed)
    status, _, err = run([SREPLAY, "replay", "--live-files", "--timeout", "10", trace], 60)
    said = all((words in err) == (case in UNRECORDED and words == UNRECORDED[case][1]) for _, words in UNRECORDED.values())
    if status or not said or read(out) != recorded:
        return "replayed: status %s\n%s\n%s\n%s" % (status, recorded.decode(), read(out).decode(), err)
    return ""


if __name__ == "__main__":
    cases.main(PROGRAM, problem)
