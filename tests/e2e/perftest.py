#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified measuring programs over rxe, which take the time by the time-stamp counter and read /proc.

    perftest.py record OUTDIR [NAME...]     under ci/rxe
    perftest.py replay OUTDIR               here: each side alone, its output byte for byte
"""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import SREPLAY, Tap, fresh, kill_group, read, replay, start, wait_for_listener
from replay_pingpong import SIDES, exact

SECONDS = 60
IB = " -d rxe0 -x 1 -F -n 100 "
CM = IB + "-R "

# name: program with its options, where it listens, how a client names the server, options of record
PROGRAMS = {
    "send-lat": ("ib_send_lat" + IB, 18515, "127.0.0.1"),
    "send-lat-events": ("ib_send_lat -e" + IB, 18515, "127.0.0.1"),
    "read-lat": ("ib_read_lat" + IB, 18515, "127.0.0.1"),
    "atomic-lat": ("ib_atomic_lat" + IB, 18515, "127.0.0.1"),
    "send-bw": ("ib_send_bw" + IB, 18515, "127.0.0.1"),
    "send-bw-events": ("ib_send_bw -e" + IB, 18515, "127.0.0.1"),
    "read-bw": ("ib_read_bw" + IB, 18515, "127.0.0.1"),
    "write-bw": ("ib_write_bw" + IB, 18515, "127.0.0.1"),
    "atomic-bw": ("ib_atomic_bw" + IB, 18515, "127.0.0.1"),
    # They poll memory that the peer writes.
    "write-lat": ("ib_write_lat -s 2" + IB, 18515, "127.0.0.1"),
    "write-lat-64": ("ib_write_lat -s 64" + IB, 18515, "127.0.0.1"),
    "write-lat-8k": ("ib_write_lat -s 8192" + IB, 18515, "127.0.0.1"),
    "read-lat-cm": ("ib_read_lat" + CM, None, "198.18.0.1"),
    "send-bw-cm": ("ib_send_bw -e" + CM, None, "198.18.0.1"),
    "fi-pingpong": ("fi_pingpong -p verbs -e msg -I 20 -S 256 ", 47592, "198.18.0.1"),
    "ucx-am": ("ucx_perftest -d rxe0:1 -x rc_verbs -t am_lat -n 100 -w 10 -s 8 ", 13337, "127.0.0.1"),
}
NOT_YET = {("ucx-am", rank): "libc lies elsewhere" for rank in (0, 1)}
LATE = ("fi-pingpong", "ucx-am")  # load libibverbs when they run


def recording(name, trace, rank, command):
    options = ["--from-start"] if name in LATE else []
    return [SREPLAY, "record", "-o", trace, "--rank", str(rank)] + options + ["--"] + command


def run(name, base, command):
    """The exit status of each side."""
    program, port, address = PROGRAMS[name]
    sides, result = [program.split(), (program + address).split()], []
    processes = []
    for side in (0, 1):
        if side and port:
            wait_for_listener(port, processes[0], SECONDS)
        elif side:
            subprocess.run(["sh", "-c", "for i in $(seq 100); do rdma resource show cm_id | grep -q LISTEN && exit; "
                            "sleep 0.1; done"])
        processes.append(start(command(side, sides[side]), open("%s.%d.out" % (base, side), "wb"),
                               open("%s.%d.err" % (base, side), "wb")))
    for process in processes:
        try:
            result.append(process.wait(SECONDS))
        except subprocess.TimeoutExpired:
            kill_group(process)
            result.append("hang")
    return result


def tails(base):
    return "\n".join("--- %s\n%s" % (path, read(path)[-700:].decode(errors="replace"))
                     for path in sorted(glob.glob(base + ".[01].*")))


def record(tap, directory, names):
    directory = fresh(directory)
    for name in names or PROGRAMS:
        base = os.path.join(directory, name)
        bare = run(name, base + ".bare", lambda side, command: command)
        recorded = run(name, base, lambda side, command: recording(name, base + ".srec", side, command))
        tap.ok(bare == recorded == [0, 0], "%s: as bare" % name,
               "bare %s recorded %s\n%s\n%s" % (bare, recorded, tails(base + ".bare"), tails(base)))


def main():
    tap = Tap()
    what, directory, *names = sys.argv[1:]
    if what == "record":
        record(tap, directory, names)
        tap.finish()
    traces = sorted(glob.glob(os.path.join(directory, "*.srec")))
    tap.ok(traces, "there are recordings in %s" % directory)
    for trace in traces:
        for rank in (0, 1):
            name = os.path.basename(trace)[:-len(".srec")]
            if (name, rank) in NOT_YET:
                tap.ok(True, "%s, %s # SKIP %s" % (name, SIDES[rank], NOT_YET[name, rank]))
                continue
            problem = exact(trace, rank)
            tap.ok(not problem, "%s, %s: replayed exactly" % (name, SIDES[rank]), problem)
    tap.finish()


if __name__ == "__main__":
    main()
