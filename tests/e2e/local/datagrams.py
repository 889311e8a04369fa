#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Datagrams in groups (tests/programs/pgas/datagrams.c): which rank sent what came, and where. On the software device.

    datagrams.py [CASE...]
"""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, run, some
from order import SECONDS, exact, record

RANKS = 3
# In memory that peers may write; on a queue pair of its own, by a shared receive queue, built; some of them lost.
CASES = {"exposed": ["fetches", "datagrams"]}
CASES.update((name, ["datagrams", name]) for name in ("plain", "overlapping", "shared", "built", "lost"))


def entered(trace, group):
    """(the exit status, and of each rank: bytes from the group and from outside)"""
    status, _, err = run([SREPLAY, "replay", "--group", group, trace], SECONDS)
    counts = re.findall(r"(\d+) bytes entered from the group, (\d+) from outside", err)
    return status, [tuple(map(int, n)) for n in counts], err


def check(tap, directory, name, options):
    what = "%s %s" % (name, options or "by value")
    trace, outputs, problem = record(directory, (name + options).replace(" ", ""), RANKS, CASES[name], options)
    problem = problem or exact(directory, trace, outputs)
    status, counts, err = entered(trace, ",".join(map(str, range(RANKS))))
    whole = not status and len(counts) == RANKS and all(group and not outside for group, outside in counts)
    tap.ok(not problem and whole, "%s: all that came is from ranks" % what, "%s\n%s" % (problem, err))
    if options == "--order":
        return trace
    status, counts, err = entered(trace, "0,1")
    some = not status and len(counts) == 2 and all(group and outside for group, outside in counts)
    tap.ok(some, "%s: what the third one sends is from outside, when it is not replayed" % what, err)
    return trace


def explained(tap, trace):
    """Of each datagram that rank 1 got by its bytes: the rank and the line that sent it."""
    senders, wrong = set(), []
    entered(trace, "0,1,2")
    for line in subprocess.run([SREPLAY, "dump", "--json", "--rank", "1", trace], capture_output=True, text=True).stdout.splitlines():
        r = json.loads(line)
        found = (r.get("out") or {}).get("wc") if r.get("call") == "poll_cq" else None
        if not any(wc["opcode"] == 128 and wc["src_qp"] for wc in found or []):
            continue
        said = subprocess.run([SREPLAY, "explain", trace, "1:%d" % r["sn"]], capture_output=True, text=True).stdout
        senders.update(re.findall(r"sent by rank (\d).* post_send at \S+ \(datagrams\.c:\d+\)", said))
        wrong += [said] if "outside" in said or "sent by" not in said else []
    tap.ok(senders == {"0", "1", "2"} and not wrong, "explain names the sender of each datagram, and its line", "%s %s" % (senders, wrong))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        for name in sys.argv[1:] or some(CASES, 2):
            for options in ("--clocks", "") + (("--order",) if name in ("exposed", "plain") else ()):
                trace = check(tap, directory, name, options)
                if name == "plain" and options == "--clocks":
                    explained(tap, trace)
    tap.finish()


if __name__ == "__main__":
    main()
