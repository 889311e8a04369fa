#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs do, recorded, what they do bare: over rxe (under ci/rxe).

    third_party.py [--bare] [--full] [--part I/N] OUTDIR [NAME...]

Without --full a part of the list: one program of each kind.  --part runs one of N parts of what is chosen, --bare
only asks what runs at all.
What rxe itself cannot run is in the list with the reason, and is run as well, to notice when that
changes: bare and recorded it must fail alike.

Whether the traces replay is not asked here: perftest.py and replay_rdmacm.py do so of some.
"""

import argparse
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, kill_group, replay, start, wait_for_listener

ADDRESS = "198.18.0.1"  # of rxe0 in the runner's machine
SECONDS = 60
ALL_SIZES_SECONDS = 200     # ib_*_lat -a: 50 to 60 s bare where two pollers share two busy CPUs with rxe
# Where a server shows that it listens: its TCP port, librdmacm, or words that it prints.
PERFTEST_PORT, LIBFABRIC_PORT, UCX_PORT = 18515, 47592, 13337
CM = "by librdmacm"


class Program:
    def __init__(self, name, server, client, listens=PERFTEST_PORT, cannot=None, in_short=False):
        self.name, self.commands, self.listens = name, (server.split(), client.split()), listens
        self.cannot, self.in_short = cannot, in_short


def perftest(short, program, options="", cannot=None, count=100):
    """One of perftest's programs; with -R they find each other by librdmacm."""
    command = "%s -d rxe0 -x 1 -F %s" % (program, options)
    if "-D" not in options:
        command += " -n %d" % count
    by_cm = "-R" in options.split()
    return Program(("%s %s" % (program, options)).strip(), command, "%s %s" % (command, ADDRESS if by_cm else "127.0.0.1"),
                   CM if by_cm else PERFTEST_PORT, cannot, short)


def every_perftest():
    transports = {"send": ("RC", "UC", "UD"), "write": ("RC", "UC"), "read": ("RC",), "atomic": ("RC",)}
    for test, kinds in transports.items():
        for program in ("ib_%s_lat" % test, "ib_%s_bw" % test):
            bandwidth = program.endswith("bw")
            yield perftest(True, program)
            for kind in kinds[1:]:
                yield perftest(program == "ib_send_bw", program, "-c " + kind)
            if not (test == "write" and not bandwidth):    # a poll of memory has no event
                yield perftest(program == "ib_send_lat", program, "-e",
                               "perftest has no events for WRITE" if test == "write" else None)
            yield perftest(program == "ib_send_bw", program, "-R")
            if test in ("send", "write"):
                for size in (1, 64, 236):
                    yield perftest(size == 64 and program == "ib_write_lat", program, "-s %d -I %d" % (size, size))
            if bandwidth:
                yield perftest(program == "ib_read_bw", program, "-q 4")
            if test != "atomic":
                yield perftest(False, program, "-a", count=5)
    yield perftest(False, "ib_atomic_bw", "-A CMP_AND_SWAP")
    yield perftest(False, "ib_atomic_lat", "-A CMP_AND_SWAP")
    yield perftest(False, "ib_send_bw", "-b")
    yield perftest(False, "ib_write_bw", "-b")
    yield perftest(False, "ib_send_bw", "-r 64 --use-srq -q 4")


def pingpongs():
    for kind, cannot in (("rc", None), ("uc", None), ("ud", None), ("srq", None),
                         ("xsrq", "rxe has no XRC queue pairs")):
        command = "ibv_%s_pingpong -d rxe0 -g 1 -n 100" % kind
        yield Program("ibv_%s_pingpong" % kind, command, command + " 127.0.0.1", cannot=cannot, in_short=kind in ("srq", "xsrq"))
    command = "ibv_rc_pingpong -d rxe0 -g 1 -n 100 -e"
    yield Program("ibv_rc_pingpong -e", command, command + " 127.0.0.1")


def rdmacm_programs():
    yield Program("rping", "rping -s -C 20 -a " + ADDRESS, "rping -c -C 20 -v -a " + ADDRESS, CM, in_short=True)
    yield Program("ucmatose", "ucmatose -b " + ADDRESS, "ucmatose -s " + ADDRESS, CM, in_short=True)
    yield Program("udaddy", "udaddy -b " + ADDRESS, "udaddy -s " + ADDRESS, CM, in_short=True)
    mckey = "mckey -m 239.1.2.3 -b %s" % ADDRESS
    yield Program("mckey", mckey, mckey + " -s", "receiving data transfers", in_short=True)
    for name in ("rstream", "riostream"):
        yield Program(name, "%s -S 4096 -I 10 -C 200 -b %s" % (name, ADDRESS), "%s -S 4096 -I 10 -C 200 -s %s" % (name, ADDRESS),
                      CM, in_short=name == "riostream")


def libfabric_and_ucx():
    yield Program("fi_pingpong", "fi_pingpong -p verbs -e msg -I 10 -S 4096", "fi_pingpong -p verbs -e msg -I 10 -S 4096 " + ADDRESS,
                  LIBFABRIC_PORT, in_short=True)
    ucx = "ucx_perftest -d rxe0:1 -x rc_verbs"
    no_swap = "a swap of 64 bits is a masked atomic, which rxe does not have"
    for test, cannot in (("am_lat", None), ("am_bw", None), ("am_bw -D bcopy -s 2048", None), ("am_bw -D zcopy -s 2048", None),
                         ("put_lat", None), ("put_bw", None), ("put_bw -D bcopy -s 2048", None),
                         ("put_bw -D zcopy -s 4096", None), ("get -D bcopy", None), ("get -D zcopy -s 4096", None),
                         ("add_lat", None), ("add_mr", None), ("fadd", None), ("cswap", None), ("swap", no_swap)):
        size = "" if "-s" in test else " -s 8"
        yield Program("ucx_perftest -t " + test, ucx, "%s -t %s -n 100 -w 10%s 127.0.0.1" % (ucx, test, size), UCX_PORT,
                      cannot, test in ("am_lat", "put_bw", "fadd"))


PROGRAMS = list(every_perftest()) + list(pingpongs()) + list(rdmacm_programs()) + list(libfabric_and_ucx())


def said(path, words):
    with open(path, errors="replace") as f:
        return words in f.read()


def wait_for_server(process, listens, out):
    end = time.time() + SECONDS
    while time.time() < end and process.poll() is None:
        if isinstance(listens, int):
            ready = wait_for_listener(listens, process, 0.2)
        elif listens == CM:     # only the kernel's RDMA side shows it
            ids = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True).stdout
            ready = "state LISTEN" in ids
        else:
            ready = said(out, listens)
        if ready:
            return
        time.sleep(0.05)


def run(program, commands, log):
    """Exit statuses of server and client, or 'hang'."""
    seconds = ALL_SIZES_SECONDS if "-a" in program.name.split() else SECONDS
    processes = []
    for side, command in enumerate(commands):
        path = "%s.%d" % (log, side)
        # output that is looked for must not wait in a buffer
        line_wise = ["stdbuf", "-oL"] if isinstance(program.listens, str) and program.listens != CM else []
        processes.append(start(line_wise + command, open(path, "wb"), subprocess.STDOUT))
        if side == 0:
            wait_for_server(processes[0], program.listens, path)
    result = []
    for process in reversed(processes):     # a server whose client is gone may wait for ever
        try:
            result.insert(0, process.wait(seconds if process is processes[1] or result[0] == 0 else 2))
        except subprocess.TimeoutExpired:
            kill_group(process)
            process.wait()
            result.insert(0, "hang")
    return result


def recording(trace, rank, command):
    return [SREPLAY, "record", "-o", trace, "--rank", str(rank), "--"] + command


def tails(log):
    return "\n".join(open("%s.%d" % (log, side), errors="replace").read()[-600:] for side in (0, 1))


def compare(tap, program, base):
    begin = time.time()
    bare = run(program, program.commands, base + ".bare")
    between = time.time()
    recorded = run(program, [recording(base + ".srec", rank, c) for rank, c in enumerate(program.commands)],
                   base + ".recorded")
    print("# %.1f s bare, %.1f s recorded" % (between - begin, time.time() - between))
    verified = subprocess.run([SREPLAY, "verify", base + ".srec"], capture_output=True, text=True)
    expected = bare == [0, 0] if not program.cannot else bare != [0, 0]
    tap.ok(expected and bare == recorded and verified.returncode == 0,
           "%s: as bare%s, and its trace is whole" % (program.name, " (cannot run: %s)" % program.cannot
                                                      if program.cannot else ""),
           "bare %s recorded %s\n%s\n%s" % (bare, recorded, verified.stderr, tails(base + ".recorded")))


def old_verbs(tap, base):
    """A program that is linked to libibverbs's functions of 2006 (ibv_x@IBVERBS_1.0)."""
    program = [os.path.join(os.path.realpath(BUILD), "tests", "programs", "old_verbs")]
    bare = subprocess.run(program, capture_output=True, timeout=SECONDS)
    recorded = subprocess.run(recording(base + ".srec", 0, program), capture_output=True, timeout=SECONDS)
    dump = subprocess.run([SREPLAY, "dump", base + ".srec"], capture_output=True).stdout
    tap.ok(bare.returncode == recorded.returncode == 3 and bare.stdout == recorded.stdout
           and b"received: from 2006" in bare.stdout, "built for verbs of 2006: as bare", "%s\n%s" % (bare, recorded))
    if recorded.stderr:     # a libibverbs that keeps its old functions to itself
        tap.ok(recorded.stderr.count(b"\n") == 1 and b"older than IBVERBS_1.1" in recorded.stderr, "... not recorded, and says so",
               recorded.stderr)
        return
    status, out, err = replay(base + ".srec", 0)
    tap.ok(b"ibv_create_qp" in dump and b"post_send" in dump and status == 3 and out == recorded.stdout and "exact" in err,
           "... recorded below libibverbs's translation, and replayed", "%s\n%s\n%s" % (err, out, dump.decode()))


def only_bare(program, base):
    begin = time.time()
    result = run(program, program.commands, base + ".bare")
    print("%s %s %.1f s%s" % (result, program.name, time.time() - begin,
                              "" if result == [0, 0] else "\n" + tails(base + ".bare")), flush=True)


def main():
    parser = argparse.ArgumentParser(description="unmodified programs over rxe, bare and recorded")
    parser.add_argument("directory", metavar="OUTDIR")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only programs whose name has this in it")
    parser.add_argument("--full", action="store_true", help="all, not only one of each kind")
    parser.add_argument("--part", metavar="I/N", default="1/1", help="the I-th of N parts of the list")
    parser.add_argument("--bare", action="store_true", help="only run them without sreplay, and say how they end")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    directory = fresh(options.directory)
    chosen = [p for p in PROGRAMS if any(n in p.name for n in options.names)
              or not options.names and (options.full or p.in_short)][part - 1::parts]
    tap = Tap()
    for program in chosen:
        base = os.path.join(directory, program.name.replace(" ", "_").replace("/", "_"))
        if options.bare:
            only_bare(program, base)
        else:
            compare(tap, program, base)
    if not options.bare:
        if not options.names and part == 1:
            old_verbs(tap, os.path.join(directory, "old_verbs"))
        tap.finish()


if __name__ == "__main__":
    main()
