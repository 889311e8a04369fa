#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the ranks have forked and uses verbs is replayed with them, as members of the group: a server that forks for each of
its clients, and fio. On the software device.

    group_children.py [FUNCTION...]
"""

import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, free_port, run, run_functions, until_listens

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "forking_server")
SOFTDEV = [os.path.join(ROOT, "ci", "softdev"), "--"]
SECONDS = 90
WORDS = ("alpha", "omega")


def record_all(trace, commands, *options, wait="true"):
    """Each command as a rank of its own, all on one device; the first is the server, and behind it comes wait."""
    shutil.rmtree(trace, ignore_errors=True)
    script = ["%s record -q %s --rank %d -o %s -- %s > %s.%d 2>&1 &" % (SREPLAY, " ".join(options), i, trace, c, trace, i)
              for i, c in enumerate(commands)]
    status, _, err = run(SOFTDEV + ["sh", "-c", "\n".join(script[:1] + [wait] + script[1:] + ["wait"])], SECONDS)
    said = [open("%s.%d" % (trace, i)).read() for i in range(len(commands))]
    return status, said, err


def record_server(place, *options, how="serve"):
    """One trace serves all who only read it."""
    trace = os.path.join(place, "%s%s.srec" % (how, "".join(options)))
    port = free_port()
    commands = ["%s %s %d %d" % (PROGRAM, how, port, len(WORDS))] + ["%s ask %d %s" % (PROGRAM, port, w) for w in WORDS]
    status, said, err = record_all(trace, commands, *options)
    return trace, said, "%s %s %s" % (status, said, err)


def replay(trace, *options):
    status, out, err = run([SREPLAY, "replay", "-q", "--transport", "shm", *options, trace], SECONDS)
    return status, sorted(out.decode().splitlines()), err


def members(err):
    """The ranks that were replayed, and were exact."""
    return sorted(re.findall(r"sreplay: rank (\S+): \d+ calls replayed, 0 divergences: exact$", err, re.M))


def entered(trace, name):
    """What `explain` says of all values that entered this process."""
    out = run([SREPLAY, "dump", "--json", "-r", name, trace], SECONDS)[1].decode()
    sns = {line["sn"] for line in map(json.loads, out.splitlines()) if line.get("record") == "exposed" and line["values"]}
    return "".join(run([SREPLAY, "explain", trace, "%s:%d" % (name, sn)], SECONDS)[1].decode() for sn in sorted(sns))


def server(tap, place):
    trace, said, how = record_server(place)
    printed = sorted("[rank %d] %s" % (i, line) for i, text in enumerate(said) for line in text.splitlines()
                     if not line.startswith("served"))
    status, out, err = replay(trace)
    tap.ok(status == 0 and members(err) == ["0", "0/1", "0/2", "1", "2"], "by default the children belong to the group", how + err)
    children = [line for line in out if line.startswith("[rank 0/")]
    tap.ok(sorted(set(out) - set(children)) == printed and sorted(line.split("] ")[1] for line in children) == ["served " + w for w in WORDS],
           "... all print what they printed", "%s\nrecorded %s" % (out, said))
    tap.ok(not re.search(r"[1-9]\d* from outside", err) and "was not started again" not in err, "... nothing came from outside", err)
    for child in ("0/1", "0/2"):
        text = entered(trace, child)
        tap.ok(re.search(r"written by rank [12] at SN \d+, post_send at post\S* \(forking_server.c:\d+\)", text),
               "what entered %s is explained by its producer" % child, text)
    text = entered(trace, "1")
    tap.ok(re.search(r"written by rank 0/[12] at SN \d+, post_send at post\S* \(forking_server.c:\d+\)", text), "a SEND of a child, too", text)
    text = entered(trace, "0")
    tap.ok(re.search(r"stored by the CPU of rank 0/[12] after SN \d+", text), "what children store into shared memory, too", text)
    text = run([SREPLAY, "graph", trace], SECONDS)[1].decode()
    tap.ok("rank 0/1 to rank " in text and "produced" in text, "graph knows them", text)


def chosen(tap, place):
    trace, _, how = record_server(place)
    for group, wanted in (("0", ["0", "0/1", "0/2"]), ("1,0/1", ["0/1", "1"]), ("0/2,2,1", ["0/2", "1", "2"])):
        status, _, err = replay(trace, "-g", group)
        tap.ok(status == 0 and members(err) == wanted, "-g %s" % group, "%s %s" % (how, err))
    status, _, err = replay(trace, "-r", "0")
    tap.ok(status == 0 and "2 children of the program were not started again" in err, "-r 0 is the rank alone", err)
    status, _, err = replay(trace, "-g", "1,0/7")
    tap.ok(status == 125 and "has not all of the ranks 1,0/7" in err and "0/1" in err, "a child that is not there", err)
    status, _, err = replay(trace, "-g", "1,0/")
    tap.ok(status == 125 and "as in 3/1" in err, "no name of a child", err)


def kept(tap, place):
    trace, _, how = record_server(place)
    out = os.path.join(place, "kept")
    status, _, err = replay(trace, "-o", out, "--json", os.path.join(place, "verdicts"))
    text = open(os.path.join(out, "rank-0.child-1.out")).read()
    tap.ok(status == 0 and text.startswith("served "), "-o has what each printed", "%s %s %s" % (how, sorted(os.listdir(out)), err))
    with open(os.path.join(place, "verdicts")) as f:
        lines = [json.loads(line) for line in f]
    tap.ok(sorted((v["rank"], v.get("child", "")) for v in lines) == [(0, ""), (0, "1"), (0, "2"), (1, ""), (2, "")],
           "the verdicts name them", lines)


def clocks(tap, place):
    trace, _, how = record_server(place, "--clocks")
    status, _, err = replay(trace)
    tap.ok(status == 0 and members(err) == ["0", "0/1", "0/2", "1", "2"], "recorded with clocks", how + err)


def parent_too(tap, place):
    """A child has a clock of its own, and is not taken for its parent."""
    trace, _, how = record_server(place, "--clocks", how="host")
    status, _, err = replay(trace)
    tap.ok(status == 0 and members(err) == ["0", "0/1", "1", "2"], "the parent transfers, too, with clocks", how + err)
    texts = [entered(trace, client) for client in "12"]
    senders = sorted(re.findall(r"written by rank (0\S*) at SN", "".join(texts)))
    tap.ok(senders == ["0", "0/1"], "one was sent by it, one by its child", "\n".join(texts))
    with open(os.path.join(trace, "rank-0", "child-1.srec", "rank-0", "process.json")) as f:
        tap.ok(json.load(f)["extra"]["member"] == 63, "the child has a number of its own among the clocks")
    text = run([SREPLAY, "orders", trace], SECONDS)[1].decode()
    tap.ok(re.search("^rank 0/1 before rank [12]: ", text, re.M) and "rank -1" not in text, "orders, too", text)
    text = run([SREPLAY, "graph", trace], SECONDS)[1].decode()
    tap.ok("rank 0 to rank " in text and "rank 0/1 to rank " in text, "graph knows both", text)


def debugger(tap, place):
    if not shutil.which("gdb"):
        return
    trace, _, how = record_server(place)
    status, out, err = run([SREPLAY, "replay", "-q", "--transport", "shm", "--gdb", "0/1", trace, "--", "-batch", "-ex", "break serve_one",
                            "-ex", "continue", "-ex", "next", "-ex", "sreplay sn", "-ex", "kill"], SECONDS)
    text = out.decode(errors="replace")
    tap.ok("serve_one (" in text and "rank 0/1 thread 0 SN" in text, "--gdb 0/1 stops in the child", "%s\n%s\n%s" % (how, text, err))


def fio(tap, place):
    if not shutil.which("fio"):
        return
    trace = os.path.join(place, "fio.srec")
    port = free_port()
    common = "--ioengine=rdma --port=%d --bs=4k --size=64k --iodepth=4" % port
    status, said, err = record_all(trace, ["fio --name=s --rw=read " + common, "fio --name=c --rw=write --ioengine=rdma "
                                           "--hostname=127.0.0.1 --verb=write " + common], wait=until_listens(port))
    how = "%s %s %s" % (status, said, err)
    status, _, err = replay(trace)
    exact = members(err)
    tap.ok(status == 0 and exact == ["0", "0/1", "1", "1/1"], "fio without --thread: its workers are members", how + err)
    wide = [int(n) for n in re.findall(r"rank \d/1: (\d+) bytes entered from the group, 0 from outside", err)]
    tap.ok(len(wide) == 2 and all(n > 8000 for n in wide), "... what they sent each other came from the group", err)


if __name__ == "__main__":
    run_functions([server, chosen, kept, clocks, parent_too, debugger, fio])
