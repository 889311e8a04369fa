#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs tests one after the other where RDMA devices are; ci/rxe starts it, for machine.py.

    there.py JOBS

JOBS is a JSON file: a list of {"name", "out": directory for both machines, "commands": [[argument, ...], ...],
"environment", "seconds"}, where the argument TMP stands for a directory of the test's own. Standard output tells what
happens, a line each: `begin NAME`, and `end NAME SECONDS CPU`. Each command's output is out/there-N.log and its status
out/there-N.status.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import running


def tell(*words):
    print(*words, flush=True)


def run_job(job):
    """The CPU seconds that it took. After a command that fails the next one runs all the same: it has cases of its own."""
    end = time.monotonic() + job["seconds"]
    cpu = 0.0
    with tempfile.TemporaryDirectory(prefix="srt.", ignore_cleanup_errors=True) as scratch:
        for n, command in enumerate(job["commands"]):
            command = [scratch if word == "TMP" else word for word in command]
            base = os.path.join(job["out"], "there-%d" % n)
            with open(base + ".log", "wb") as log:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                           env=dict(os.environ, TMPDIR=scratch, **job["environment"]), start_new_session=True)
                status, used = running.wait(process, max(1, end - time.monotonic()))
            cpu += used.ru_utime + used.ru_stime
            with open(base + ".status", "w") as f:
                json.dump(status, f)
        running.end_left_behind(scratch)
    return cpu


def main():
    with open(sys.argv[1]) as f:
        jobs = json.load(f)
    for job in jobs:
        tell("begin", job["name"])
        begin = time.monotonic()
        cpu = run_job(job)
        tell("end", job["name"], "%.1f" % (time.monotonic() - begin), "%.1f" % cpu)


if __name__ == "__main__":
    main()
