#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A daemon's socket that is named by a relative path: command, daemon and recorded process mean the same.
Needs no RDMA."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay

LOGD = os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd")


def stop(directory):
    """Ends the daemon; the lock file next to its socket has its number."""
    with open(os.path.join(directory, "logd.lock")) as f:
        os.kill(int(f.read()), 15)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = "logd"
        command = [SREPLAY, "record", "--from-start", "-o", "t.srec", "--", "sh", "-c", "cd / && echo done"]
        r = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        tap.ok((r.returncode, r.stdout) == (0, "done\n"), "a relative path: the daemon is started and found", r.stderr)
        tap.ok(os.path.exists(os.path.join(directory, "logd")), "its socket is in the command's directory",
               os.listdir(directory))
        status, out, err = replay(os.path.join(directory, "t.srec"), 0)
        tap.ok((status, out) == (0, b"done\n"), "the recording replays", err)
        r = subprocess.run([LOGD, "--status", "--socket", "logd"], cwd=directory, capture_output=True, text=True)
        tap.ok(r.returncode == 0, "sreplay-logd --socket means the same", r.stderr)
        stop(directory)
    tap.finish()


if __name__ == "__main__":
    main()
