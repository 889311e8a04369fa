#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs of librdmacm, unmodified, over rxe (run it under ci/rxe): bare, then recorded with the same result.

    rdmacm.py OUTDIR [NAME...]

Each recording is a server (rank 0) and a client (rank 1), or tests/programs/rdmacm, which is both; their
standard output is kept beside the trace.  replay_rdmacm.py replays them.

Not here: rdma_xserver and rdma_xclient with -c x, since rxe has no XRC (rdma_create_ep: EOPNOTSUPP);
rstream -T a, whose side that ends last fails if the other has hung up before its last rpoll.
"""

import glob
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, kill_group, start

ADDRESS = "198.18.0.1"  # of rxe0 in the runner's machine
GROUP = "239.1.2.3"
GROUP_MAC = "01:00:5e:01:02:03"
SECONDS = 150  # riostream alone takes 26 on a quiet host, 60 and more on a slow one
PERFTEST = " -R -d rxe0 -F -n 100 "

# name: (server, client), or (program,)
PROGRAMS = {
    "calls": (os.path.join(os.path.realpath(BUILD), "tests", "programs", "rdmacm ") + ADDRESS,),
    "rping": ("rping -s -C 20 -V -v -a " + ADDRESS, "rping -c -C 20 -V -v -a " + ADDRESS),
    "rping-own-qp": ("rping -s -q -C 5 -a " + ADDRESS, "rping -c -q -C 5 -v -a " + ADDRESS),
    "ucmatose": ("ucmatose -c 3 -b " + ADDRESS, "ucmatose -c 3 -s " + ADDRESS),
    "ucmatose-migrate": ("ucmatose -m -b " + ADDRESS, "ucmatose -m -s " + ADDRESS),
    "udaddy": ("udaddy -b " + ADDRESS, "udaddy -s " + ADDRESS),
    "mckey": ("mckey -m %s -b %s" % (GROUP, ADDRESS), "mckey -s -m %s -b %s" % (GROUP, ADDRESS)),
    "rdma-server": ("rdma_server", "rdma_client -s " + ADDRESS),
    "rdma-xserver": ("rdma_xserver -c r", "rdma_xclient -c r -s " + ADDRESS),
    "cmtime": ("cmtime -c 10 -b " + ADDRESS, "cmtime -c 10 -s " + ADDRESS),
    "rstream": ("rstream -S 4096 -C 100 -I 50 -b " + ADDRESS, "rstream -S 4096 -C 100 -I 50 -s " + ADDRESS),
    "rstream-verify": ("rstream -T v -S 1000 -C 100 -I 20 -b " + ADDRESS,
                       "rstream -T v -S 1000 -C 100 -I 20 -s " + ADDRESS),
    "rstream-blocking": ("rstream -T b -T r -S 1000 -C 100 -I 20 -b " + ADDRESS,
                         "rstream -T b -T r -S 1000 -C 100 -I 20 -s " + ADDRESS),
    "riostream": ("riostream -S 1000 -C 10 -I 20 -b " + ADDRESS, "riostream -S 1000 -C 10 -I 20 -s " + ADDRESS),
    "send-lat": ("ib_send_lat" + PERFTEST, "ib_send_lat" + PERFTEST + ADDRESS),
    "send-bw": ("ib_send_bw" + PERFTEST, "ib_send_bw" + PERFTEST + ADDRESS),
    "send-bw-events": ("ib_send_bw -e" + PERFTEST, "ib_send_bw -e" + PERFTEST + ADDRESS),
}
# Their servers do not end; that the client is done shows in what it prints.
ENDLESS = {"cmtime": "\ndestroy  "}


# rping closes its event channel while a thread of it waits there; what that thread finds is chance, bare as well.
RPINGS_OWN_END = (255, "rdma_get_cm_event: Bad file descriptor")


def is_own_end(name, status, base, side):
    own, words = RPINGS_OWN_END
    return name == "rping" and status == own and words in open("%s.%d.err" % (base, side), errors="replace").read()


def wait_for_server(process):
    """Until it listens, which only the kernel's RDMA side shows, or has joined a multicast group."""
    end = time.time() + SECONDS
    while time.time() < end and process.poll() is None:
        shown = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True).stdout
        joined = subprocess.run(["ip", "maddr", "show"], capture_output=True, text=True).stdout
        if "state LISTEN" in shown or GROUP_MAC in joined:
            return
        time.sleep(0.1)


def wait_for_words(words, path, process):
    """`sreplay record` of the client waits for the other rank of its trace, so that its end tells nothing."""
    end = time.time() + SECONDS
    while time.time() < end and process.poll() is None and words not in open(path, errors="replace").read():
        time.sleep(0.1)


def run(name, commands, base):
    """The exit status of each command: 'hang' if it did not end, 'killed' if it never does."""
    processes = []
    for side, command in enumerate(commands):
        if side:
            wait_for_server(processes[0])
        processes.append(start(command, open("%s.%d.out" % (base, side), "wb"), open("%s.%d.err" % (base, side), "wb")))
    if name in ENDLESS:
        wait_for_words(ENDLESS[name], base + ".1.out", processes[1])
        kill_group(processes[0])
    result = []
    for process in processes:
        try:
            status = process.wait(SECONDS)
            result.append("killed" if status == -signal.SIGKILL else status)
        except subprocess.TimeoutExpired:
            kill_group(process)
            result.append("hang")
    return [0 if is_own_end(name, status, base, side) else status for side, status in enumerate(result)]


def recording(trace, rank, command):
    return [SREPLAY, "record", "-o", trace, "--rank", str(rank), "--"] + command


def tails(base):
    return "\n".join("--- %s\n%s" % (path, open(path, errors="replace").read()[-500:])
                     for path in sorted(glob.glob(base + ".[01].*")))


def main():
    tap = Tap()
    directory = fresh(sys.argv[1])
    for name in sys.argv[2:] or PROGRAMS:
        commands = [c.split() for c in PROGRAMS[name]]
        base = os.path.join(directory, name)
        bare = run(name, commands, base + ".bare")
        recorded = run(name, [recording(base + ".srec", rank, c) for rank, c in enumerate(commands)], base)
        verified = subprocess.run([SREPLAY, "verify", base + ".srec"], capture_output=True, text=True)
        tap.ok(bare == recorded and set(bare) <= {0, "killed"} and verified.returncode == 0,
               "%s: as bare, and its trace is whole" % name,
               "bare %s recorded %s\n%s\nbare%s\nrecorded%s" % (
                   bare, recorded, verified.stderr, tails(base + ".bare"), tails(base)))
    tap.finish()


if __name__ == "__main__":
    main()
