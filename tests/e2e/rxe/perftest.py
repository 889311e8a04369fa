#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified measuring programs over rxe, which take the time by the time-stamp counter and read /proc.

    perftest.py record OUTDIR [--no-bare] [NAME...]   under ci/rxe; without names all of them, in some eight minutes
    perftest.py replay OUTDIR [--times N]             here: each side alone, its output byte for byte
"""

import argparse
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, fresh, kill_group, read, start, wait_for_listener
from replay_pingpong import SIDES, exact

SECONDS = 60
IB = " -d rxe0 -x 1 -F -n 100 "
# All of perftest's over RC but ib_write_lat, which has sizes.
MEASURING = ["send-lat", "read-lat", "atomic-lat", "send-bw", "read-bw", "write-bw", "atomic-bw"]
# How the ends meet, and wait: how a client names the server.
WAYS = {"": ("", 18515, "127.0.0.1"), "-events": ("-e ", 18515, "127.0.0.1"),
        "-cm": ("-R ", None, "198.18.0.1"), "-cm-events": ("-R -e ", None, "198.18.0.1")}
UCX = "ucx_perftest -d rxe0:1 -x rc_verbs -n 50 -w 5 -s 8 -t "
UCX_TESTS = ["am_lat", "am_bw", "put_lat", "put_bw", "get -D zcopy -s 4096", "add_lat", "fadd", "cswap"] # rxe has no swap (third_party.py)

# name: program with its options, where it listens, how a client names the server
PROGRAMS = {program + way: ("ib_" + program.replace("-", "_") + IB + options, port, address)
            for way, (options, port, address) in WAYS.items() for program in MEASURING
            if program != "write-bw" or "-e" not in options}   # perftest has no events for WRITE
# They poll memory that the peer writes.
PROGRAMS.update({"write-lat-" + size: ("ib_write_lat -s " + size + IB, 18515, "127.0.0.1")
                 for size in ("2", "64", "8192")})
# By hand only: its client does not end in one run of some hundred, recorded or bare.
PROGRAMS["fi-pingpong"] = ("fi_pingpong -p verbs -e msg -I 20 -S 256 ", 47592, "198.18.0.1")
PROGRAMS.update({"ucx-" + test.split()[0]: (UCX + test + " ", 13337, "127.0.0.1") for test in UCX_TESTS})


def recording(name, trace, rank, command):
    # These load libibverbs when they run.
    options = ["--from-start"] if name.startswith(("fi-", "ucx-")) else []
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


def record(tap, directory, names, with_bare):
    directory = fresh(directory)
    for name in names or PROGRAMS:
        base = os.path.join(directory, name)
        bare = run(name, base + ".bare", lambda side, command: command) if with_bare else [0, 0]
        recorded = run(name, base, lambda side, command: recording(name, base + ".srec", side, command))
        tap.ok(bare == recorded == [0, 0], "%s: as bare" % name,
               "bare %s recorded %s\n%s\n%s" % (bare, recorded, tails(base + ".bare"), tails(base)))


def check(tap, trace, rank, times):
    name = os.path.basename(trace)[:-len(".srec")]
    problems = [problem for problem in (exact(trace, rank) for _ in range(times)) if problem]
    tap.ok(not problems, "%s, %s: %d of %d replays exact" % (name, SIDES[rank], times - len(problems), times),
           problems[0] if problems else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["record", "replay"])
    parser.add_argument("directory")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--no-bare", action="store_true")
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_intermixed_args()
    tap = Tap()
    if options.what == "record":
        record(tap, options.directory, options.names, not options.no_bare)
        tap.finish()
    traces = sorted(glob.glob(os.path.join(options.directory, "*.srec")))
    tap.ok(traces, "there are recordings in %s" % options.directory)
    for trace in traces:
        for rank in (0, 1):
            check(tap, trace, rank, options.times)
    tap.finish()


if __name__ == "__main__":
    main()
