#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`record --stamps`: each call has the time at which its record was written, and that changes no replay.

    stamps.py [clock] [counter] [group_clock] [group_counter] [size]
"""

import ast
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from export import compare, record_group
from harness import SREPLAY, run, run_functions

SECONDS = 90
# Three writes, of which the last is later by so much, and when each of them was.
PAUSE = 0.3
PROGRAM = """
import os, time
def write(text):
    before = time.time()
    os.write(1, text)
    return before, time.time()
first, second = write(b'one\\n'), write(b'two\\n')
time.sleep(%g)
os.write(1, repr((first, second, write(b'three\\n'))).encode())
""" % PAUSE


def dumped(trace):
    _, out, err = run([SREPLAY, "dump", "--addresses", "--json", trace], SECONDS)
    return [json.loads(line) for line in out.splitlines()]


def threads_of(records):
    found = {}
    for r in records:
        if "call" in r:
            found.setdefault((r["rank"], r["thread"]), []).append(r)
    return found


def pause(tap, directory, tolerance, *options):
    trace = os.path.join(directory, "p.srec")
    before = time.time()
    status, out, err = run([SREPLAY, "record", "--stamps", *options, "--from-start", "-o", trace, "--", sys.executable, "-S", "-c", PROGRAM], SECONDS)
    after = time.time()
    tap.ok(status == 0 and out.startswith(b"one\ntwo\nthree\n((") and not err, "recorded with --stamps %s" % " ".join(options), (status, out, err))
    records = dumped(trace)
    times = [r["time"] / 1e9 for r in records if "call" in r]
    tap.ok(len(times) == sum("call" in r for r in records) and times == sorted(times), "each call has a time, none before that of the one in front")
    tap.ok(before - tolerance <= times[0] and times[-1] <= after + tolerance, "they are those of the recording",
           (before, times[0], times[-1], after))
    # The last write is that of the times.
    writes = [r["time"] / 1e9 for r in records if r.get("call") == "write"][-4:-1]
    known = ast.literal_eval(out.decode().splitlines()[3])
    tap.ok(all(b - tolerance <= w <= a + tolerance for w, (b, a) in zip(writes, known)) and writes[2] - writes[1] > PAUSE - tolerance,
           "each has the time of its call", (writes, known))
    _, text, _ = run([SREPLAY, "dump", "--addresses", trace], SECONDS)
    clocks = re.findall(r"^(\d\d:\d\d:\d\d\.\d{6}) +\d+  write\(", text.decode(errors="replace"), re.M)
    said = [time.strftime("%H:%M:%S", time.localtime(t)) + ".%06d" % (t % 1 * 1e6) for t in writes]
    tap.ok([c[:-1] for c in clocks[-4:-1]] == [s[:-1] for s in said] or len(clocks) >= 4 and clocks[-2][:12] == said[-1][:12], "dump has the time of day", (clocks, said))
    status, again, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(status == 0 and again == out and "exact" in err, "it replays", err)
    path = os.path.join(directory, "p.json")
    status, _, err = run([SREPLAY, "export", "-o", path, trace], SECONDS)
    with open(path) as f:
        exported = json.load(f)
    ends = [(e["ts"] + e["dur"]) / 1e6 for e in exported["traceEvents"] if e["ph"] == "X" and e["name"] == "write"][-4:-1]
    tap.ok(exported["otherData"]["axis"] == "time" and abs((ends[2] - ends[1]) - (writes[2] - writes[1])) < 0.001, "the exported axis is the time",
           (ends, writes))


def clock(tap, directory):
    pause(tap, directory, 0.012)


def counter(tap, directory):
    pause(tap, directory, 0.002, "--tsc=native")


def group(tap, directory, *options):
    trace, (status, _, err) = record_group(directory, "dht", 3, options="--stamps " + " ".join(options))
    tap.ok(status == 0, "dht on 3 ranks is recorded", err)
    threads = threads_of(dumped(trace))
    bad = [k for k, calls in threads.items() if any("time" not in c for c in calls) or any(a["time"] > b["time"] for a, b in zip(calls, calls[1:]))]
    tap.ok(len(threads) >= 3 and not bad, "each call of each thread has a time", bad)
    firsts, lasts = [c[0]["time"] for c in threads.values()], [c[-1]["time"] for c in threads.values()]
    tap.ok(max(firsts) < min(lasts), "the ranks ran at the same time", (firsts, lasts))
    status, _, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(status == 0 and "all 3 ranks ended as recorded" in err, "they replay together", err)
    p = compare(tap, directory, trace, "dht")
    length = max(s[1] for slices in p.slices.values() for s in slices) / 1e9
    wanted = (max(lasts) - min(firsts)) / 1e9
    tap.ok(wanted * 0.9 - 0.001 < length < wanted * 1.2 + 0.01, "the exported run is as long as the recorded one", (length, wanted))


def group_clock(tap, directory):
    group(tap, directory)


def group_counter(tap, directory):
    group(tap, directory, "--tsc=native")


def size(tap, directory):
    """Bytes of each stamp on disk: of calls that are alike, where nothing hides them."""
    stored, calls = {}, 0
    for name, options in (("without", []), ("counter", ["--stamps", "--tsc=native"]), ("clock", ["--stamps"])):
        trace = os.path.join(directory, name + ".srec")
        run([SREPLAY, "record", *options, "--from-start", "-o", trace, "--", "dd", "if=/dev/urandom", "of=/dev/null", "bs=1", "count=100000",
             "status=none"], SECONDS)
        _, out, _ = run([SREPLAY, "verify", "--json", trace], SECONDS)
        stream = json.loads(out)
        stored[name], calls = stream["bytes_on_disk"], stream["calls"]
    each = {k: (v - stored["without"]) / calls for k, v in stored.items()}
    tap.ok(calls > 200000 and 0 < each["counter"] <= 2, "a stamp of the counter takes at most 2 bytes: %.2f" % each["counter"], (each, calls))
    tap.ok(each["clock"] <= 0.2, "one of the coarse clock next to none: %.2f" % each["clock"], each)


run_functions([clock, counter, group_clock, group_counter, size])
