#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A program that does on purpose, at a known call, something else than recorded: the report of the
replay names rank, thread, SN, both calls, and both sites by function, file and line.  Needs no RDMA."""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "diverge")
SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "programs", "process", "diverge.c")


def site(tag, function):
    """'turn (diverge.c:57)' of the line that ends with the comment."""
    with open(SOURCE) as f:
        for number, line in enumerate(f, 1):
            if line.rstrip().endswith("/* %s */" % tag):
                return "%s (diverge.c:%d)" % (function, number)
    raise LookupError(tag)


def change_mode(trace, mode):
    path = os.path.join(trace, "rank-0", "process.json")
    with open(path) as f:
        process = json.load(f)
    process["arguments"][1] = mode
    with open(path, "w") as f:
        json.dump(process, f)


def dump(trace, *options):
    r = subprocess.run([SREPLAY, "dump", *options, trace], capture_output=True, text=True)
    return [json.loads(line) for line in r.stdout.splitlines()] if "--json" in options else r.stdout.splitlines()


def run(trace, mode):
    change_mode(trace, mode)
    return replay(trace, 0)


def missing(text, *patterns):
    """What does not occur, as words for the user."""
    lost = [p for p in patterns if not re.search(p, text, re.M)]
    return "missing: %s\n%s" % (lost, text) if lost else ""


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        trace = os.path.join(directory, "t.srec")
        r = subprocess.run([SREPLAY, "record", "-o", trace, "--", PROGRAM, "same"], capture_output=True, text=True)
        tap.ok(r.returncode == 7, "a program is recorded", r.stderr)

        calls = [c for c in dump(trace, "--thread", "0", "--json") if "call" in c]
        turn = next(c for c in calls if c["call"] == "send")
        last = calls[-1]["sn"]
        # Where the process ended before the thread's sem_post() returned, that call is not in the trace.
        end = [c for c in dump(trace, "--thread", "1", "--json") if "call" in c][-1]
        sn = turn["sn"]
        tap.ok(turn.get("at") == site("turn", "turn"), "dump names function, file and line of a call", turn)
        line = next(l for l in dump(trace) if " send(" in l)
        tap.ok(line.endswith("@%s %s" % (turn["site"], site("turn", "turn"))), "in lines too", line)
        line = next(l for l in dump(trace, "--addresses") if " send(" in l)
        tap.ok(line.endswith("@" + turn["site"]), "or the address alone", line)

        status, _, err = run(trace, "same")
        tap.ok(status == 7 and "exact" in err, "it replays", err)

        here = r"rank 0 thread 0 SN %d: " % sn
        before = [r"^sreplay: the last calls of thread 0:$"] + \
                 [r"^sreplay: +%d  getrandom\(.*main \(diverge\.c:\d+\)$" % n for n in range(sn - 10, sn)]

        status, _, err = run(trace, "call")
        lost = missing(err, here + "the program called getrandom where the recording has send$",
                       r"recorded: send\(.*\) @%s %s$" % (turn["site"], re.escape(site("turn", "turn"))),
                       r"now: +getrandom\(.*\) @0x\w+ %s$" % re.escape(site("call", "turn")), *before)
        tap.ok(status == 124 and not lost, "another call: both are named with their sites, and the ten before", lost)
        tap.ok(not re.search(r"^sreplay: +%d  " % (sn - 11), err, re.M), "not the eleventh", err)

        status, _, err = run(trace, "heap")
        lost = missing(err, here + "the program called send where the recording has a heap operation$",
                       r"now: +send\(.*\) @%s %s$" % (turn["site"], re.escape(site("turn", "turn"))), *before)
        tap.ok(status == 124 and not lost, "no heap operation where there was one: named in its place", lost)

        status, _, err = run(trace, "args")
        lost = missing(err, here + "send writes other bytes than recorded$", r"recorded: send\(", r"now: +send\(",
                       r"recorded: only a checksum", r"now: +\"", *before)
        tap.ok(status == 124 and not lost, "other bytes: both calls are shown, and the block that differs", lost)

        status, _, err = run(trace, "stop")
        lost = missing(err, here + r"the program ended with status 3 where the recording has send @%s %s$" %
                       (turn["site"], re.escape(site("turn", "turn"))), *before)
        tap.ok(status == 124 and not lost, "an early end: what should have come is named", lost)

        status, _, err = run(trace, "more")
        lost = missing(err, r"rank 0 thread 0 SN %d: the program called getrandom where the recording ends" % (last + 1),
                       r"now: +@0x\w+ %s$" % re.escape(site("more", "main")), r"^sreplay: +%d  getrandom" % last)
        tap.ok(status == 124 and not lost, "a call behind the end is named", lost)

        change_mode(trace, "hang")
        r = subprocess.run([SREPLAY, "replay", "--timeout", "2", trace], capture_output=True, text=True, timeout=60)
        lost = missing(r.stderr, r"rank 0 made no recorded call for 2 s: stopped", here + "this call did not come",
                       r"^sreplay: +%d  send\(.*%s$" % (sn, re.escape(site("turn", "turn"))),
                       r"thread 0 is at:$", r"wait_for_ever \(diverge\.c:\d+\)$",
                       re.escape(site("hang", "turn")) + "$", r"main \(diverge\.c:\d+\)$", *before)
        other = r.stderr[r.stderr.find("rank 0 thread 1"):]
        # Where the thread ran again only after the turn, its last call is under way when the replay hangs.
        if end.get("order", [0])[-1] > turn["order"][0]:
            state = [r"rank 0 thread 1 SN %d: this call is under way; the recording has:$" % end["sn"]]
        else:
            state = [r"rank 0 thread 1 SN %d: this call did not come" % (end["sn"] + 1), r"no more calls of this thread$"]
        lost = lost or missing(other, *state,
                               r"^sreplay: +%d  %s\(.* other_thread \(diverge\.c:\d+\)$" % (end["sn"], end["call"]),
                               r"thread 1 is at:$", r"other_thread \(diverge\.c:\d+\)$")
        tap.ok(r.returncode == 124 and not lost,
               "a replay that hangs is stopped: what should come is named, and where it hangs", lost)
    tap.finish()


if __name__ == "__main__":
    main()
