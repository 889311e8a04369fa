#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Records ping-pongs over rxe (run it under ci/rxe); replay_pingpong.py replays them.

    record_pingpong.py OUTDIR RUNS [NAME...]

Each run is a server (rank 0) and a client (rank 1), recorded into one trace by
two `sreplay record` at the same time; their standard output is kept beside it.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import RECORD_SECONDS, SREPLAY, Tap, fresh, kill_group, start, wait_for_listener

DEVICE = ["-d", "rxe0", "-g", "1"]

# name: (program, options)
CONFIGURATIONS = {
    "rc-poll": ("ibv_rc_pingpong", ["-n", "100"]),
    "rc-events": ("ibv_rc_pingpong", ["-n", "100", "-e"]),
    "srq-poll": ("ibv_srq_pingpong", ["-n", "100"]),
    "srq-events": ("ibv_srq_pingpong", ["-n", "100", "-e"]),
}

# Recorded once each: other options, sizes and transports.
ONCE = {
    "rc-new-send": ("ibv_rc_pingpong", ["-n", "50", "-N"]),
    "rc-check": ("ibv_rc_pingpong", ["-n", "50", "-c"]),
    "rc-large": ("ibv_rc_pingpong", ["-n", "10", "-s", "1000000", "-m", "4096"]),
    "rc-inline": ("ibv_rc_pingpong", ["-n", "50", "-s", "16"]),
    "rc-no-timestamps": ("ibv_rc_pingpong", ["-n", "50", "-t"]),
    "rc-no-odp": ("ibv_rc_pingpong", ["-n", "50", "-o"]),
    "srq-many-qps": ("ibv_srq_pingpong", ["-n", "50", "-q", "32", "-s", "64"]),
    "uc-poll": ("ibv_uc_pingpong", ["-n", "50"]),
    "ud-poll": ("ibv_ud_pingpong", ["-n", "50", "-s", "1024"]),
}


def record(trace, rank, command, out):
    return start([SREPLAY, "record", "-o", trace, "--rank", str(rank), "--"] + command,
                 open(out + ".out", "wb"), open(out + ".err", "wb"))


def run_pair(directory, name, program, options, port):
    """One recording; (server's status, client's status)."""
    base = os.path.join(directory, name)
    command = [program] + DEVICE + ["-p", str(port)] + options
    server = record(base + ".srec", 0, command, base + ".0")
    client = None
    try:
        # a server that ends at once (an option the device does not have) never listens
        wait_for_listener(port, server)
        client = record(base + ".srec", 1, command + ["127.0.0.1"], base + ".1")
        return server.wait(RECORD_SECONDS), client.wait(RECORD_SECONDS)
    except subprocess.TimeoutExpired:
        for process in (server, client):
            if process:
                kill_group(process)
        return "hang", "hang"


def main():
    tap = Tap()
    directory, runs, names = fresh(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(CONFIGURATIONS) + list(ONCE)
    port = 18600
    for name in [name for name in CONFIGURATIONS if name in names]:
        program, options = CONFIGURATIONS[name]
        for run in range(runs):
            port += 1
            status = run_pair(directory, "%s-%d" % (name, run), program, options, port)
            if status != (0, 0):
                break
        tap.ok(status == (0, 0), "%s: %d recordings in a row" % (name, run + 1), status)
    for name in [name for name in ONCE if name in names]:
        program, options = ONCE[name]
        port += 1
        status = run_pair(directory, name, program, options, port)
        # what rxe does not have fails bare as well, and is recorded and replayed failing
        expected = (1, 1) if "-no-" in name else (0, 0)
        tap.ok(status == expected, "%s: recorded" % name, status)
    tap.finish()


if __name__ == "__main__":
    main()
