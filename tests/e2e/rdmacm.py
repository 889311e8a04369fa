#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs of librdmacm, unmodified, over rxe (run it under ci/rxe): bare, then recorded with the same result.

    rdmacm.py OUTDIR [NAME...]

Each recording is a server (rank 0) and a client (rank 1); their standard output is kept beside the
trace.  replay_rdmacm.py replays them.
"""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import SREPLAY, Tap, fresh, kill_group, start

ADDRESS = "198.18.0.1"  # of rxe0 in the runner's machine
GROUP = "239.1.2.3"
SECONDS = 60
PERFTEST = " -R -d rxe0 -F -n 100 "

# name: (server, client, what exit statuses a bare run has)
PROGRAMS = {
    "rping": ("rping -s -C 20 -V -v -a " + ADDRESS, "rping -c -C 20 -V -v -a " + ADDRESS),
    "rping-own-qp": ("rping -s -q -C 5 -a " + ADDRESS, "rping -c -q -C 5 -v -a " + ADDRESS),
    "ucmatose": ("ucmatose -c 3 -b " + ADDRESS, "ucmatose -c 3 -s " + ADDRESS),
    "ucmatose-migrate": ("ucmatose -m -b " + ADDRESS, "ucmatose -m -s " + ADDRESS),
    "udaddy": ("udaddy -b " + ADDRESS, "udaddy -s " + ADDRESS),
    "mckey": ("mckey -m %s -b %s" % (GROUP, ADDRESS), "mckey -s -m %s -b %s" % (GROUP, ADDRESS)),
    "rdma-server": ("rdma_server", "rdma_client -s " + ADDRESS),
    "rdma-xserver": ("rdma_xserver -c r", "rdma_xclient -c r -s " + ADDRESS),
    "rdma-xserver-xrc": ("rdma_xserver -c x", "rdma_xclient -c x -s " + ADDRESS),
    "cmtime": ("cmtime -c 20 -b " + ADDRESS, "cmtime -c 20 -s " + ADDRESS),
    "rstream": ("rstream -S 4096 -I 50 -b " + ADDRESS, "rstream -S 4096 -I 50 -s " + ADDRESS),
    "rstream-async": ("rstream -T a -T v -S 1000 -I 20 -b " + ADDRESS, "rstream -T a -T v -S 1000 -I 20 -s " + ADDRESS),
    "rstream-blocking": ("rstream -T b -T r -S 1000 -I 20 -b " + ADDRESS, "rstream -T b -T r -S 1000 -I 20 -s " + ADDRESS),
    "riostream": ("riostream -S 4096 -I 50 -b " + ADDRESS, "riostream -S 4096 -I 50 -s " + ADDRESS),
    "send-lat": ("ib_send_lat" + PERFTEST, "ib_send_lat" + PERFTEST + ADDRESS),
    "send-bw": ("ib_send_bw" + PERFTEST, "ib_send_bw" + PERFTEST + ADDRESS),
    "send-bw-events": ("ib_send_bw -e" + PERFTEST, "ib_send_bw -e" + PERFTEST + ADDRESS),
}


def wait_for_server(process):
    """Until it listens, which only the kernel's RDMA side shows, or has joined a multicast group."""
    end = time.time() + SECONDS
    while time.time() < end and process.poll() is None:
        shown = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True).stdout
        joined = subprocess.run(["ip", "maddr", "show"], capture_output=True, text=True).stdout
        if "state LISTEN" in shown or "01:00:5e:01:02:03" in joined:
            return
        time.sleep(0.1)


def run(commands, base):
    """Exit statuses of server and client, or 'hang'."""
    processes = []
    for side, command in enumerate(commands):
        processes.append(start(command, open("%s.%d.out" % (base, side), "wb"), open("%s.%d.err" % (base, side), "wb")))
        if side == 0:
            wait_for_server(processes[0])
    result = []
    end = time.time() + SECONDS
    for process in processes:
        try:
            result.append(process.wait(max(1, end - time.time())))
        except subprocess.TimeoutExpired:
            kill_group(process)
            result.append("hang")
    return result


def recording(trace, rank, command):
    return [SREPLAY, "record", "-o", trace, "--rank", str(rank), "--"] + command


def tails(base):
    return "\n".join("--- %s\n%s" % (name, open(base + name, errors="replace").read()[-500:])
                     for name in (".0.out", ".0.err", ".1.out", ".1.err"))


def main():
    tap = Tap()
    directory = fresh(sys.argv[1])
    for name in sys.argv[2:] or PROGRAMS:
        commands = [c.split() for c in PROGRAMS[name]]
        base = os.path.join(directory, name)
        bare = run(commands, base + ".bare")
        recorded = run([recording(base + ".srec", rank, c) for rank, c in enumerate(commands)], base)
        verified = subprocess.run([SREPLAY, "verify", base + ".srec"], capture_output=True, text=True)
        tap.ok(bare == recorded and verified.returncode == 0, "%s: recorded as bare (%s)" % (name, bare),
               "recorded %s\n%s\nbare%s\nrecorded%s" % (recorded, verified.stderr, tails(base + ".bare"), tails(base)))
    tap.finish()


if __name__ == "__main__":
    main()
