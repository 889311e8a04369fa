#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs do, recorded, what they do bare: perftest and rdmacm-utils over rxe (under ci/rxe).

    third_party.py OUTDIR

Whether their traces replay is not asked here: many of them read memory that peers write, or use
librdmacm, which is not recorded yet (docs/limits.md).
"""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import SREPLAY, Tap, fresh, kill_group, start, wait_for_listener

ADDRESS = "198.18.0.1"  # of rxe0 in the runner's machine
SECONDS = 60
PORT = 18515  # perftest's
PERFTEST = "-d rxe0 -x 1 -F -n 100 "

# name: (server, client)
PROGRAMS = {}
for test in ("send", "write", "read", "atomic"):
    for kind in ("lat", "bw"):
        program = "ib_%s_%s" % (test, kind)
        PROGRAMS[program] = (program + " " + PERFTEST, program + " " + PERFTEST + "127.0.0.1")
for name, options in {
    "ib_send_lat": "-e", "ib_send_bw": "-c UD", "ib_write_bw": "-c UC", "ib_read_bw": "-q 4",
}.items():
    command = "%s %s %s " % (name, PERFTEST, options)
    PROGRAMS["%s %s" % (name, options)] = (command, command + "127.0.0.1")
PROGRAMS["ib_send_bw -R"] = ("ib_send_bw %s -R" % PERFTEST, "ib_send_bw %s -R %s" % (PERFTEST, ADDRESS))
PROGRAMS["rping"] = ("rping -s -C 20 -a " + ADDRESS, "rping -c -C 20 -v -a " + ADDRESS)
PROGRAMS["ucmatose"] = ("ucmatose -b " + ADDRESS, "ucmatose -s " + ADDRESS)
PROGRAMS["udaddy"] = ("udaddy -b " + ADDRESS, "udaddy -s " + ADDRESS)
PROGRAMS["rstream"] = ("rstream -S 4096 -I 100 -b " + ADDRESS, "rstream -S 4096 -I 100 -s " + ADDRESS)


def wait_for_server(process):
    """Until it listens: at perftest's TCP port, or by librdmacm, which only the kernel's RDMA side shows."""
    end = time.time() + SECONDS
    while time.time() < end and process.poll() is None:
        ids = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True).stdout
        if "state LISTEN" in ids or wait_for_listener(PORT, process, 0.2):
            return


def run(commands, log):
    """Exit statuses of server and client, or 'hang'."""
    processes = []
    for side, command in enumerate(commands):
        out = open("%s.%d" % (log, side), "wb")
        processes.append(start(command, out, subprocess.STDOUT))
        if side == 0:
            wait_for_server(processes[0])
    result = []
    for process in processes:
        try:
            result.append(process.wait(SECONDS))
        except subprocess.TimeoutExpired:
            kill_group(process)
            result.append("hang")
    return result


def recording(trace, rank, command):
    return [SREPLAY, "record", "-o", trace, "--rank", str(rank), "--"] + command


def tails(log):
    return "\n".join(open("%s.%d" % (log, side), errors="replace").read()[-600:] for side in (0, 1))


def main():
    tap = Tap()
    directory = fresh(sys.argv[1])
    for name, commands in PROGRAMS.items():
        commands = [c.split() for c in commands]
        base = os.path.join(directory, name.replace(" ", "_"))
        bare = run(commands, base + ".bare")
        recorded = run([recording(base + ".srec", rank, c) for rank, c in enumerate(commands)], base + ".recorded")
        verified = subprocess.run([SREPLAY, "verify", base + ".srec"], capture_output=True, text=True)
        tap.ok(bare == recorded == [0, 0] and verified.returncode == 0, "%s: as bare, and its trace is whole" % name,
               "bare %s recorded %s\n%s\n%s" % (bare, recorded, verified.stderr, tails(base + ".recorded")))
    tap.finish()


if __name__ == "__main__":
    main()
