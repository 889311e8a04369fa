#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay export`: what an independent reader of each format finds is what `dump` and the plan say of the trace.

    export.py [one_sided] [messages] [threads] [images] [refused]

Perfetto's messages are read by protoc, which knows nothing of our writer.
"""

import collections
import json
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, fresh, read, run, run_functions

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
SOFTDEV = os.path.join(ROOT, "ci", "softdev")
SECONDS = 60
BEGIN, END, COUNTER = 1, 2, 4
BY_MESSAGE = 4

PINGPONG = """
out=$1; shift
"$@" -o $out --rank 0 -- ibv_rc_pingpong -d soft0 -g 0 -p 18611 -n 20 &
i=0; until grep -q ":48B3 00000000:0000 0A" /proc/net/tcp /proc/net/tcp6; do i=$((i + 1)); [ $i -lt 1000 ] || exit 9; sleep 0.02; done
"$@" -o $out --rank 1 -- ibv_rc_pingpong -d soft0 -g 0 -p 18611 -n 20 localhost && wait
"""


def record_group(directory, name, ranks, *arguments, options=""):
    trace, everyone = os.path.join(directory, name + ".srec"), ",".join(map(str, range(ranks)))
    out = fresh(os.path.join(directory, name))
    command = [os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", str(SECONDS), "-o", out, "-w", everyone,
               "%s record --clocks %s -o %s --rank %%r --" % (SREPLAY, options, trace), os.path.join(PROGRAMS, name)]
    return trace, run([SOFTDEV, "--"] + command + list(arguments), SECONDS)


def called(trace):
    """(rank, thread): the names of its calls, as `dump` has them."""
    found = collections.defaultdict(list)
    _, out, _ = run([SREPLAY, "dump", "--addresses", "--json", trace], SECONDS)
    for line in out.splitlines():
        record = json.loads(line)
        if "in" in record:
            found[record["rank"], record["thread"]].append((record["sn"], record["call"]))
    return found


def arrows(trace):
    """(orders by clocks, messages): of the plan's files, and of what `process` says."""
    _, out, err = run([SREPLAY, "process", trace], SECONDS)
    orders = 0
    for folder, _, names in os.walk(os.path.join(trace, "plan")):
        for name in names:
            if name.endswith(".wait"):
                data = read(os.path.join(folder, name))[64:]
                flags = [struct.unpack_from("<QQiIII", data, at)[4] for at in range(0, len(data), 32)]
                orders += sum(not f & BY_MESSAGE for f in flags)
    return orders, int(re.search(r"(\d+) messages", (out.decode() + err)).group(1))


def parse_raw(text):
    """What `protoc --decode_raw` prints: a message is a list of (field, value)."""
    stack = [[]]
    for line in text.splitlines():
        line = line.strip()
        if line == "}":
            stack.pop()
        elif line.endswith("{"):
            inner = []
            stack[-1].append((int(line[:-1]), inner))
            stack.append(inner)
        elif line:
            field, value = line.split(": ", 1)
            stack[-1].append((int(field), value if value.startswith('"') else int(value, 0)))
    return stack[0]


def first(message, field):
    return next((value for number, value in message if number == field), None)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return value, at


def fields(data):
    """The fields of a message, with their values as bytes: `protoc --decode_raw` takes some strings for messages (uname)."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7:
            size, at = varint(data, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            value, at = data[at:at + size], at + size
        else:
            value, at = varint(data, at)
        yield key >> 3, value


class Perfetto:
    """Slices by track, flows, and the counters' last values."""

    def __init__(self, path):
        data = read(path)
        r = subprocess.run(["protoc", "--decode_raw"], input=data, capture_output=True, timeout=SECONDS)
        self.error = r.stderr.decode()
        self.slices, self.begun, self.ended = collections.defaultdict(list), {}, {}
        self.threads, self.ranks, self.left, self.names = {}, {}, {}, {}
        for _, packet in fields(data):
            for interned in (part for field, part in fields(packet) if field == 12):
                self.take_names(interned)
        for _, packet in parse_raw(r.stdout.decode()):
            if first(packet, 60):
                self.describe(first(packet, 60))
            if first(packet, 11):
                self.take(first(packet, 8), first(packet, 11))

    def take_names(self, interned):
        for name in (dict(fields(part)) for field, part in fields(interned) if field == 2):
            self.names[name[1]] = name[2].decode()

    def describe(self, track):
        if first(track, 3):
            self.ranks[first(track, 1)] = first(first(track, 3), 1) - 1
        if first(track, 4):
            number = int(re.search(r"thread (\d+)", first(first(track, 4), 5)).group(1))
            self.threads[first(track, 1)] = self.ranks[first(track, 5)], number

    def take(self, time, event):
        kind, track = first(event, 9), first(event, 11)
        if kind == COUNTER:
            self.left[track] = first(event, 30)
            return
        if kind == BEGIN:
            sn = next(first(a, 3) for f, a in event if f == 4 and first(a, 1) == 1)
            self.slices[self.threads[track]].append([time, None, sn, self.names[first(event, 10)]])
        else:
            self.slices[self.threads[track]][-1][1] = time
        for field, flow in event:
            if field == 47:
                self.begun[flow] = time
            if field == 48:
                self.ended[flow] = time


def compare(tap, directory, trace, name, expected_messages=None):
    calls, (orders, messages) = called(trace), arrows(trace)
    path = os.path.join(directory, name)
    for suffix in (".perfetto-trace", ".json", ".dot"):
        status, _, err = run([SREPLAY, "export", "-o", path + suffix, trace], SECONDS)
        tap.ok(status == 0 and not err, "%s: written as %s" % (name, suffix), err)
    p = Perfetto(path + ".perfetto-trace")
    got = {track: [(s[2], s[3]) for s in slices] for track, slices in p.slices.items()}
    tap.ok(got == dict(calls) and not p.error, "%s: the %d slices that protoc reads are the calls of dump, in their order"
           % (name, sum(map(len, calls.values()))), p.error or [(k, len(v), len(got.get(k, ()))) for k, v in calls.items()])
    tap.ok(len(p.begun) == orders + messages and p.begun.keys() == p.ended.keys() and orders + messages > 0,
           "%s: %d flows are its orders, %d its messages" % (name, orders, messages), (len(p.begun), len(p.ended)))
    if expected_messages is not None:
        tap.ok(messages == expected_messages, "%s: there are as many messages as the program sends" % name, messages)
    bad = [f for f in p.begun if p.begun[f] >= p.ended.get(f, 0)]
    tap.ok(not bad, "%s: no flow points backwards" % name, bad)
    bad = [(t, a, b) for t, slices in p.slices.items() for a, b in zip(slices, slices[1:]) if not a[0] < a[1] <= b[0]]
    tap.ok(not bad, "%s: the slices of a thread follow each other" % name, bad[:5])
    compare_json(tap, path + ".json", name, calls, orders, messages)
    return p


def compare_json(tap, path, name, calls, orders, messages):
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    slices = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            slices[e["pid"], e["tid"]].append((e["args"]["SN"], e["name"]))
    ends = collections.Counter((e["ph"], e["cat"]) for e in events if e["ph"] in "sf")
    wanted = {("s", "order"): orders, ("f", "order"): orders, ("s", "message"): messages, ("f", "message"): messages}
    tap.ok(slices == calls and all(ends[k] == wanted[k] for k in wanted), "%s: JSON has the same slices and flows" % name,
           (ends, wanted))


def one_sided(tap, directory):
    trace, (status, _, err) = record_group(directory, "uts", 4, "T1-5")
    if tap.ok(status == 0, "uts on 4 ranks is recorded", err):
        p = compare(tap, directory, trace, "uts")
        tap.ok(len(p.left) == 4, "uts: each rank has a counter of its requests", p.left)
        with open(os.path.join(directory, "uts.dot")) as f:
            text = f.read()
        orders, messages = arrows(trace)
        lines = len(re.findall(r"color=", text))
        tap.ok(lines == orders + messages, "uts: Graphviz has the same arrows", lines)


def messages(tap, directory):
    trace = os.path.join(directory, "pingpong.srec")
    status, _, err = run([SOFTDEV, "--", "sh", "-c", PINGPONG, "sh", trace, SREPLAY, "record", "--clocks"], SECONDS)
    if tap.ok(status == 0, "ibv_rc_pingpong is recorded", err):
        p = compare(tap, directory, trace, "pingpong", 40)
        tap.ok(set(p.left.values()) == {0}, "pingpong: no request is outstanding at its end", p.left)


def threads(tap, directory):
    """A thread's calls begin after the one that has started it."""
    trace = os.path.join(directory, "threads.srec")
    status, _, err = run([SREPLAY, "record", "--from-start", "-o", trace, "--", "xz", "-T2", "--block-size=4096", "-c", SREPLAY],
                         SECONDS)
    path = os.path.join(directory, "threads.perfetto-trace")
    exported, _, err2 = run([SREPLAY, "export", "-o", path, trace], SECONDS)
    p = Perfetto(path)
    created = [s[0] for s in p.slices[0, 0] if s[3] == "pthread_create"]
    others = [slices[0][0] for (_, thread), slices in p.slices.items() if thread]
    tap.ok(status == exported == 0 and others and min(others) > min(created), "threads begin after their creation",
           (err, err2, created, others))


def images(tap, directory):
    """A program that executes another one is shown as both: `exec_after` posts in the first, and the second has other functions."""
    trace = os.path.join(directory, "images.srec")
    device = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev"))
    program = os.path.join(PROGRAMS, "exec_after")
    status, _, err = run([SREPLAY, "record", "--clocks", "--from-start", "-o", trace, "--", program, "sh", "-c", "read l < $0; exec $1",
                          __file__, program], SECONDS, env=device)
    tap.ok(status == 0, "three images are recorded", err)
    calls = called(trace)[0, 0]
    p, path = None, os.path.join(directory, "images")
    for suffix in (".perfetto-trace", ".json"):
        status, _, err = run([SREPLAY, "export", "-o", path + suffix, trace], SECONDS)
        tap.ok(status == 0 and not err, "export writes them without a word (%s)" % suffix, err)
    p = Perfetto(path + ".perfetto-trace")
    tap.ok([(s[2], s[3]) for s in p.slices[0, 0]] == calls, "the slices are the calls of all images, in their order", (len(calls), len(p.slices[0, 0])))
    tap.ok(sum(name == "post_send" for _, name in calls) == 40, "... 20 posts of each of two", collections.Counter(n for _, n in calls))
    with open(path + ".json") as f:
        events = json.load(f)["traceEvents"]
    sites = [e["args"]["site"] for e in events if e["ph"] == "X" and e["name"] == "post_send" and "site" in e["args"]]
    tap.ok(len(sites) == 40 and all("exec_after.c" in s for s in sites), "sites are found in the executable of their image", sites[:3])
    messages = collections.Counter(e["ph"] for e in events if e["ph"] in "sf" and e["cat"] == "message")
    tap.ok(messages == {"s": 40, "f": 40}, "and so are the messages of both", messages)
    status, out, err = run([SREPLAY, "graph", "--json", trace], SECONDS)
    edges = json.loads(out)["edges"] if status == 0 else err
    tap.ok([(e["from"], e["to"], e["sends"], e["send_bytes"]) for e in edges] == [(0, 0, 40, 320)], "graph counts the requests of both", edges)
    polls = [sn for sn, name in calls if name == "poll_cq"]
    status, out, err = run([SREPLAY, "explain", "--json", trace, "0:%d" % polls[0]], SECONDS)
    first = json.loads(out) if status == 0 else {}
    status, out, err2 = run([SREPLAY, "explain", "--json", trace, "0:%d" % polls[-1]], SECONDS)
    last = json.loads(out) if status == 0 else {}
    tap.ok(first.get("image") == 0 and last.get("image") == 2 and "exec_after.c" in first["call"] and "exec_after.c" in last["call"],
           "explain takes the image with that SN", (first, last, err, err2))
    brought = [v for sn in polls[:4] for v in json.loads(run([SREPLAY, "explain", "--json", trace, "0:%d" % sn], SECONDS)[1])["values"]]
    tap.ok(brought and brought[0]["via"] == "message" and int.from_bytes(bytes.fromhex(brought[0]["data"]), "little") == 1,
           "... and says what entered there", brought[:2])
    page = os.path.join(directory, "images.html")
    status, _, err = run([SREPLAY, "report", "-q", "-o", page, trace], SECONDS)
    text = read(page).decode()
    shown = int(re.search(r'"calls":(\d+),"tracks"', text).group(1))
    tap.ok(status == 0 and shown == len(calls) and "executed 3 programs in turn: values" in text, "the page has all calls", (err, shown, len(calls)))


def refused(tap, directory):
    trace = os.path.join(directory, "true.srec")
    run([SREPLAY, "record", "--from-start", "-o", trace, "--", "true"], SECONDS)
    status, _, err = run([SREPLAY, "export", "--format", "xml", trace], SECONDS)
    tap.ok(status == 125 and "expected perfetto, json or dot" in err, "an unknown format is refused", err)
    status, _, err = run([SREPLAY, "export", "-o", os.path.join(directory, "no", "file"), trace], SECONDS)
    tap.ok(status == 125 and "cannot write" in err, "a file that cannot be written is named", err)
    status, out, err = run([SREPLAY, "export", trace], SECONDS)
    tap.ok(status == 0 and out.startswith(b"\n") and not err, "in a pipe it goes to standard output", err)
    status, out, err = run(["sh", "-c", '"$0" export "$1" > /dev/full', SREPLAY, trace], SECONDS)
    tap.ok(status == 125 and "not complete" in err, "a full disk is said", err)


if __name__ == "__main__":
    run_functions([one_sided, messages, threads, images, refused])
