#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Records a ping-pong whose client is killed half-way (under ci/rxe); bad_traces.py replays it.

    record_killed.py OUTDIR
"""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import RECORD_SECONDS, Tap, kill_group, wait_for_listener
from record_pingpong import DEVICE, record

PORT = 18590


def find_program(parent):
    """The pid of the program that `sreplay record` (the parent) runs."""
    with open("/proc/%d/task/%d/children" % (parent, parent)) as f:
        children = f.read().split()
    return int(children[0]) if children else None


def main():
    tap = Tap()
    base = os.path.join(sys.argv[1], "killed")
    command = ["ibv_rc_pingpong"] + DEVICE + ["-p", str(PORT), "-n", "1000000"]
    server = record(base + ".srec", 0, command, base + ".0")
    wait_for_listener(PORT, server)
    client = record(base + ".srec", 1, command + ["127.0.0.1"], base + ".1")
    time.sleep(6)
    program = find_program(client.pid)
    if tap.ok(program, "the client runs"):
        os.kill(program, signal.SIGKILL)
        tap.ok(client.wait(RECORD_SECONDS) == 137, "sreplay record passes SIGKILL on as 137", client.returncode)
    # the server would wait for ever
    kill_group(server)
    tap.finish()


if __name__ == "__main__":
    main()
