#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What sreplay process, explain and graph find in recordings of real programs.

    plan.py record DIR     over rxe, with several ranks each (run it under ci/rxe)
    plan.py check DIR      on any machine
    plan.py alone          both with one process, on the stand-in for libibverbs
"""

import filecmp
import functools
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, some
from clocks import Pair

APPS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
PINGPONG = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100"]
CLOCKS = {"SREPLAY_CLOCKS": "1"}

WAIT = struct.Struct("<QQiIII")
CHECK = struct.Struct("<QQiIHHIII")
REQUEST = struct.Struct("<QQIHHiI")
PEER = struct.Struct("<QQIIQiI")
HEADER = 64
OUTSIDE = -1
EXACT = 16


def sreplay(*arguments):
    # what was never set is never 0 by luck
    r = subprocess.run([SREPLAY] + list(arguments), capture_output=True, text=True, timeout=120,
                       env=dict(os.environ, MALLOC_PERTURB_="165"))
    return r.returncode, r.stdout, r.stderr


def record(tap, directory):
    fresh(directory)
    os.environ["SREPLAY_SOCKET"] = "/tmp/sreplay-plan.sock"  # not below the directory that is brought out
    made = {
        "pingpong": Pair(directory, "pingpong", PINGPONG, ["127.0.0.1"]),
        "pingpong-clocks": Pair(directory, "pingpong-clocks", PINGPONG, ["127.0.0.1"], env=(CLOCKS, CLOCKS)),
        "send-cm": Pair(directory, "send-cm", ["ib_send_lat", "-R", "-d", "rxe0", "-x", "1", "-F", "-n", "50"],
                        ["198.18.0.1"]),
    }
    for name, pair in made.items():
        tap.ok(pair.status == [0, 0], "%s is recorded" % name, pair.detail())
    for name, ranks, members, arguments in (("shvar", 3, "0,1,2", ["40"]), ("uts", 3, "0,2", ["T1-7"])):
        trace = os.path.join(directory, name + ".srec")
        r = subprocess.run([os.path.join(APPS, "pgasrun"), "-n", str(ranks), "-w", ",".join(map(str, range(ranks))),
                            "%s record --clocks -o %s --rank %%r --group %s --" % (SREPLAY, trace, members),
                            os.path.join(APPS, name)] + arguments, capture_output=True, text=True, timeout=170)
        tap.ok(r.returncode == 0, "%s is recorded with clocks" % name, r.stdout + r.stderr)


def records(trace, rank, kind, form, thread=0):
    path = os.path.join(trace, "plan", "rank-%d" % rank, "thread-%d.%s" % (thread, kind))
    if not os.path.exists(path):
        return []
    with open(path, "rb") as f:
        data = f.read()[HEADER:]
    return list(form.iter_unpack(data))


def dumped(trace, rank):
    """Without polls in vain, which are ninety-nine lines of a hundred."""
    text = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), trace], capture_output=True).stdout
    return [json.loads(line) for line in text.splitlines() if b'"wc":null,"arrived":null' not in line]


def same(a, b):
    """The same files with the same content, below two directories."""
    c = filecmp.dircmp(a, b)
    if c.left_only or c.right_only or filecmp.cmpfiles(a, b, c.common_files, shallow=False)[1:] != ([], []):
        return False
    return all(same(os.path.join(a, d), os.path.join(b, d)) for d in c.common_dirs)


def is_repeatable(tap, trace, name):
    first = sreplay("process", trace)
    kept = trace + ".plan"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(os.path.join(trace, "plan"), kept)
    second = sreplay("process", trace)
    tap.ok(first[0] == 0 and not first[2] and first == second and same(kept, os.path.join(trace, "plan")),
           "%s: processed twice, the same files" % name, "%s\n%s" % (first, second))
    shutil.rmtree(kept, ignore_errors=True)


@functools.lru_cache(maxsize=None)
def posts_and_receives(trace, rank):
    """SNs of the sends, in their order, and of the receives' completions."""
    posts, receives = [], []
    for r in dumped(trace, rank):
        if r.get("call") == "post_send":
            posts += [r["sn"] for wr in r["in"]["wr"] if wr["opcode"] == 2]
        if r.get("call") == "poll_cq" and r["out"].get("wc"):
            receives += [r["sn"] for wc in r["out"]["wc"] if wc["opcode"] & 128]
    return posts, receives


def messages_are_matched(tap, trace, name):
    """Each receive is behind its send: the nth of each side, as the queue pairs keep order."""
    for me, other in ((0, 1), (1, 0)):
        posts, _ = posts_and_receives(trace, other)
        _, receives = posts_and_receives(trace, me)
        checks = {(c[1], c[5]): c[0] for c in records(trace, other, "check", CHECK) if c[6] & EXACT}
        exact = sorted(c[0] for c in records(trace, other, "check", CHECK) if c[6] & EXACT)
        behind = [max([w[1] for w in records(trace, me, "wait", WAIT) if w[0] <= sn] + [0]) for sn in receives]
        late = [(sn, b, p) for sn, b, p in zip(receives, behind, posts) if b < p]
        tap.ok(receives and not late and exact == sorted(posts[:len(receives)]) and len(checks) > 0,
               "%s: each of rank %d's %d receives waits for its send" % (name, me, len(receives)),
               "late %s\nposts %s\nchecks %s" % (late[:5], posts[:10], exact[:10]))


def wakes_are_waits(tap, trace, name, ranks):
    waits = sorted((me, w[0], w[2], w[1]) for me in ranks for w in records(trace, me, "wait", WAIT))
    wakes = sorted((w[2], w[1], me, w[0]) for me in ranks for w in records(trace, me, "wake", WAIT))
    tap.ok(waits and waits == wakes, "%s: %d waits, and as many wakes, the same" % (name, len(waits)),
           "%s\n%s" % (waits[:5], wakes[:5]))


def peers(trace, rank):
    return [(p[2], p[3], p[5]) for p in records(trace, rank, "peer", PEER)]


def check_pair(tap, directory, name):
    trace = os.path.join(directory, name + ".srec")
    is_repeatable(tap, trace, name)
    mine, theirs = peers(trace, 0), peers(trace, 1)
    tap.ok(mine and {p[2] for p in mine} == {1} and theirs == [(p[1], p[0], 0) for p in mine],
           "%s: the queue pairs are each other's other ends" % name, "%s %s" % (mine, theirs))
    messages_are_matched(tap, trace, name)
    wakes_are_waits(tap, trace, name, (0, 1))


def check_shvar(tap, directory):
    trace = os.path.join(directory, "shvar.srec")
    is_repeatable(tap, trace, "shvar")
    wakes_are_waits(tap, trace, "shvar", (0, 1, 2))
    fetched = [wr for r in dumped(trace, 2) if r.get("call") == "post_send" for wr in r["in"]["wr"] if wr["opcode"] == 4]
    requests = records(trace, 2, "request", REQUEST)
    tap.ok(len(requests) >= len(fetched) > 40 and all(r[5] in (0, 1) and r[1] > r[0] for r in requests),
           "shvar: of each READ the completion and the rank is known", "%s %s" % (len(fetched), requests[:5]))
    checks = records(trace, 0, "check", CHECK)
    tap.ok(any(c[2] == 2 and not c[6] & EXACT for c in checks),
           "shvar: rank 0's writes are to be compared with what rank 2 read", checks[:5])


def check_uts(tap, directory):
    trace = os.path.join(directory, "uts.srec")
    is_repeatable(tap, trace, "uts")
    wakes_are_waits(tap, trace, "uts", (0, 2))
    tap.ok({p[2] for p in peers(trace, 0)} >= {2, OUTSIDE}, "uts: queue pairs to a recorded rank and to one that is not",
           peers(trace, 0))


def explained(trace, place):
    status, out, err = sreplay("explain", trace, place)
    return out if status == 0 else "status %d\n%s" % (status, err)


def check_explain(tap, directory):
    trace = os.path.join(directory, "pingpong.srec")
    posts, _ = posts_and_receives(trace, 0)
    _, receives = posts_and_receives(trace, 1)
    wrong = [text for sn, post in list(zip(receives, posts))[::20] for text in [explained(trace, "1:%d" % sn)]
             if "sent by rank 0 at SN %d, post_send" % post not in text]
    tap.ok(receives and not wrong, "explain: a received message was sent by that post of rank 0", wrong[:1])
    trace = os.path.join(directory, "shvar.srec")
    values, wrong = [r for r in dumped(trace, 2) if r.get("call") == "poll_cq" and r["out"].get("arrived")], []
    for r in some(values, 4):
        text = explained(trace, "2:%d" % r["sn"])
        # the last write of one of the two that has these bytes, in the program's own source
        if not re.search(r"fetched by SN \d+, post_send at post.*\(transfer.c:\d+\),\n +from 0x\w+ of rank [01]\n"
                         r"    written by rank [012] at SN \d+, post_send .*, by its checksum",
                         text):
            wrong.append(text)
    # before the first of the writes it holds zeros
    tap.ok(len(values) > 40 and len(wrong) <= 1, "explain: values that were READ have a writer, with file and line",
           "\n".join(wrong))
    loads = [(rank, r["sn"]) for rank in (0, 1, 2) for r in dumped(trace, rank)
             if r.get("record") == "exposed" and any(v["length"] < 100 for v in r["values"])]
    texts = [explained(trace, "%d:%d" % place) for place in some(loads, 3)]
    unknown = [t for t in texts if not re.search(r"written by rank \d at SN \d+, .*, by its checksum", t)]
    tap.ok(len(loads) >= 10 and len(unknown) <= len(texts) // 5, "explain: of %d loads of flags, the writer of %d" %
           (len(texts), len(texts) - len(unknown)), "\n".join(unknown))
    text = explained(trace, "2:1")
    tap.ok("no value" in text, "explain: a call that brought nothing", text)
    tap.ok(sreplay("explain", trace, "7:1")[0] == 125 and sreplay("explain", trace, "2")[0] == 125,
           "explain: a rank that is not there, and a place that is none, are refused")


def check_graph(tap, directory):
    trace = os.path.join(directory, "pingpong.srec")
    status, out, err = sreplay("graph", trace)
    tap.ok(status == 0 and "rank 0 to rank 1: 100 sends (409600 bytes)" in out and "rank 1 to rank 0: 100 sends" in out,
           "graph: counts and bytes of a ping-pong", out + err)
    status, out, err = sreplay("graph", "--format", "dot", trace)
    tap.ok(status == 0 and re.search(r'n0 -> n1 \[label="100 sends \(409600 bytes\)"\];', out), "graph: for Graphviz",
           out + err)
    picture = os.path.join(directory, "graph.svg")
    status = sreplay("graph", "-o", picture, trace)[0]
    root = xml.etree.ElementTree.parse(picture).getroot()
    titles = sorted(t.text for t in root.iter("{http://www.w3.org/2000/svg}title"))
    tap.ok(status == 0 and titles == ["100 sends (409600 bytes)"] * 2, "graph: a picture with an arrow each way", titles)


def check_damage(tap, directory):
    """A plan that was touched is refused; one of a trace that has changed is made again."""
    trace = os.path.join(directory, "pingpong.srec")
    path = os.path.join(trace, "plan", "rank-0", "thread-0.wait")
    with open(path, "r+b") as f:
        f.seek(100)
        byte = f.read(1)
        f.seek(100)
        f.write(bytes([byte[0] ^ 1]))
    again = sreplay("process", trace)
    tap.ok(again[0] == 0, "process replaces a damaged plan", again)
    with open(path, "rb") as f:
        f.seek(100)
        tap.ok(f.read(1) == byte, "and what it writes is whole")
    with open(os.path.join(trace, "plan", "plan.json"), "w") as f:
        f.write("{}")
    status, _, err = sreplay("graph", trace)
    tap.ok(status == 125 and "sreplay process" in err, "a damaged summary is refused, with the remedy", err)
    sreplay("process", trace)


def check_group(tap, directory):
    trace = os.path.join(directory, "shvar.srec")
    all_ranks = records(trace, 2, "wait", WAIT)
    status, out, err = sreplay("process", "--group", "0,2", trace)
    waits = records(trace, 2, "wait", WAIT)
    tap.ok(status == 0 and not os.path.exists(os.path.join(trace, "plan", "rank-1")) and
           {w[2] for w in waits} <= {0} and {w[2] for w in all_ranks} == {0, 1},
           "a plan for a part of the ranks names no other", "%s %s" % (out + err, waits[:5]))
    tap.ok(sreplay("process", "--group", "0,7", trace)[0] == 125, "a group with a rank that is not there is refused")


def check(tap, directory):
    for name in ("pingpong", "pingpong-clocks", "send-cm"):
        check_pair(tap, directory, name)
    check_shvar(tap, directory)
    check_uts(tap, directory)
    check_explain(tap, directory)
    check_graph(tap, directory)
    check_damage(tap, directory)
    check_group(tap, directory)


def proven(segments):
    """Without those of requests that ended without success, in front of which is one without an address."""
    return list(itertools.takewhile(lambda s: int(str(s["addr"]), 0), segments))


def alone(tap):
    with tempfile.TemporaryDirectory() as directory:
        trace = os.path.join(directory, "loopback.srec")
        r = subprocess.run([SREPLAY, "record", "-o", trace, "--", os.path.join(APPS, "loopback"), "3", "10"],
                           env=dict(os.environ, LD_LIBRARY_PATH=SOFTDEV), capture_output=True, timeout=60)
        tap.ok(r.returncode == 0, "a process that talks to itself is recorded", r.stderr.decode())
        is_repeatable(tap, trace, "loopback")
        text = sreplay("process", trace)[1]
        values = re.search(r"(\d+) values", text)
        arrived = sum(len(proven(c["out"]["arrived"])) for c in dumped(trace, 0)
                      if c.get("call") in ("poll_cq", "start_poll", "next_poll") and c["out"].get("arrived"))
        arrived += sum(len(r.get("values", [])) for r in dumped(trace, 0) if r.get("record") == "exposed")
        tap.ok(values and int(values[1]) == arrived > 100, "every value of the trace is told once, %d" % arrived, text)


def main():
    tap = Tap()
    if sys.argv[1:2] == ["record"]:
        record(tap, os.path.realpath(sys.argv[2]))
    elif sys.argv[1:2] == ["check"]:
        check(tap, sys.argv[2])
    else:
        alone(tap)
    tap.finish()


if __name__ == "__main__":
    main()
