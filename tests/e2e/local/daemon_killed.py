#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sreplay-logd is killed again and again while a program is recorded: the program does not notice, the
next daemon goes on where the last one was, and the trace replays exactly.  Needs no RDMA."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "environment")
ROUNDS = "2000"
SEED = int(os.environ.get("SREPLAY_SEED", "1"))


def daemons(socket):
    """Pids of the daemons that listen at this socket."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"sreplay-logd") and socket.encode() in words:
            yield int(pid)


def main():
    tap = Tap()
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as directory:
        socket = os.path.join(directory, "logd.sock")
        os.environ["SREPLAY_SOCKET"] = socket
        trace = os.path.join(directory, "t.srec")
        with open(os.path.join(directory, "out"), "wb") as out, open(os.path.join(directory, "err"), "wb") as err:
            recording = subprocess.Popen([SREPLAY, "record", "-o", trace, "--", PROGRAM, ROUNDS], stdout=out, stderr=err)
            kills = 0
            while recording.poll() is None:
                time.sleep(chance.uniform(0.05, 0.6))
                for pid in daemons(socket):
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
        with open(os.path.join(directory, "out"), "rb") as f:
            recorded = f.read()
        with open(os.path.join(directory, "err")) as f:
            errors = f.read()
        tap.ok(recording.returncode == 7 and recorded.count(b"random") == int(ROUNDS),
               "the program ends as if nothing had been", "%s\n%s" % (recording.returncode, errors))
        tap.ok(kills >= 3, "the daemon was killed %d times" % kills)
        tap.ok("not recorded" not in errors, "the recording went on", errors)
        verified = subprocess.run([SREPLAY, "verify", trace], capture_output=True, text=True)
        tap.ok(verified.returncode == 0, "the trace is whole", verified.stdout + verified.stderr)
        status, stdout, stderr = replay(trace, 0)
        tap.ok((status, stdout) == (7, recorded), "it replays exactly", stderr)
        for pid in daemons(socket):
            os.kill(pid, signal.SIGTERM)
    tap.finish()


if __name__ == "__main__":
    main()
