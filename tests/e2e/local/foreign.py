#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A trace that a stranger made: opening it hangs nowhere, leaves it nowhere, fills no memory, and tells the terminal nothing.

    foreign.py [CASE...]

Each command has 2 GB of address space besides its libraries, and 20 seconds. Needs no RDMA.
"""

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, run, some  # noqa: E402

ROOT = os.path.realpath(BUILD)
PROGRAM = os.path.join(ROOT, "tests", "programs", "environment")
MEMORY = 2 << 30
SECONDS = 20
READERS = (["info"], ["dump"], ["dump", "--json"], ["verify"], ["orders"], ["graph"], ["process"], ["explain"])
CASES = []


def case(function):
    CASES.append(function)
    return function


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def read_with(command, trace):
    """(status, output, standard error), "hang" as a status"""
    return run([SREPLAY, *command, trace] + (["0:1"] if command == ["explain"] else []), SECONDS, preexec_fn=limited)


def good_end(status):
    """A word of its own, and neither a crash nor a hang."""
    return status in (0, 1, 125)


def copy(trace, place):
    target = os.path.join(place, "foreign.srec")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(trace, target)
    return target


def try_all(tap, what, trace, commands=READERS, also=lambda status, out, err: True):
    bad = []
    for command in commands:
        status, out, err = read_with(command, trace)
        if not good_end(status) or not also(status, out, err):
            bad.append("%s: status %s\n%s\n%s" % (" ".join(command), status, out[:300], err[-300:]))
    tap.ok(not bad, what, "\n".join(bad))


def edit_json(path, change):
    with open(path) as f:
        value = json.load(f)
    value = change(value) or value
    with open(path, "w") as f:
        json.dump(value, f)


@case
def odd_files(tap, place, trace):
    """In the place of each file of the trace."""
    names = ["manifest.json", "rank-0/process.json", "rank-0/schema.json", "rank-0/files.jsonl", "rank-0/streams",
             "rank-0/thread-0.srs", "rank-0", "plan", "files", "plan/plan.json"]
    secret = os.path.join(place, "secret")
    with open(secret, "w") as f:
        f.write("SECRET" * 100)
    kinds = (("a FIFO", os.mkfifo), ("a link", lambda p: os.symlink(secret, p)), ("a link to /dev/zero", lambda p: os.symlink("/dev/zero", p)),
             ("a directory", os.mkdir), ("a terabyte of nothing", lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_WRONLY) and p, 1 << 40)))
    for kind, make in kinds:
        for name in names:
            target = copy(trace, place)
            path = os.path.join(target, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.remove(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            make(path)
            try_all(tap, "%s as %s" % (kind, name), target, [["info"], ["dump"], ["verify"], ["graph"], ["explain"]],
                    lambda status, out, err: b"SECRET" not in out and "SECRET" not in err)
    with open(secret) as f:
        tap.ok(f.read() == "SECRET" * 100, "what a link leads to is as it was")


@case
def outside(tap, place, trace):
    """A plan is made in the trace, and nowhere else."""
    target, elsewhere = copy(trace, place), os.path.join(place, "elsewhere")
    os.makedirs(os.path.join(elsewhere, "rank-0"))
    os.symlink(elsewhere, os.path.join(target, "plan"))
    read_with(["process"], target)
    read_with(["graph"], target)
    tap.ok(os.listdir(elsewhere) == ["rank-0"] and not os.listdir(os.path.join(elsewhere, "rank-0")),
           "no plan is written where a link leads", os.listdir(elsewhere))
    os.mkdir(os.path.join(place, "rank-9"))
    os.symlink(os.path.join(trace, "rank-0"), os.path.join(target, "rank-1"))
    status, out, err = read_with(["info"], target)
    tap.ok(status == 125 and "rank-1 is not a directory" in err, "a rank that is a link is refused", err)


@case
def schemas(tap, place, trace):
    """What a schema asks for is bounded, whatever it says."""
    def every_call(fields):
        def change(schema):
            for call in schema["calls"]:
                call["in"], call["out"] = fields, fields
        return change

    def struct_of(count, name):
        return [{"name": "f%d" % i, "type": name} for i in range(count)]

    def nest(schema):
        schema["structs"] = {"s%d" % i: struct_of(100, "s%d" % (i + 1)) for i in range(7)}
        schema["structs"]["s7"] = []
        every_call([{"name": "a", "type": "s0"}])(schema)

    def empty(schema):
        schema["structs"]["nothing"] = []
        every_call([{"name": "a", "type": "nothing[]"}, {"name": "b", "type": "nothing[]"}])(schema)

    def renamed(schema):
        for call in schema["calls"]:
            for fields in call["in"], call["out"]:
                for f in [f for f in fields if f["type"] in ("i32", "u32", "u64", "i64", "ptr", "x64")][:1]:
                    f["name"] = "hex"

    changes = {
        "an integer called hex": renamed,
        "hex of an integer": every_call([{"name": "hex", "type": "u8"}, {"name": "b", "type": "u8"}]),
        "hex of bytes": every_call([{"name": "hex", "type": "u64"}, {"name": "hex", "type": "bytes"}]),
        "arrays of empty structs": empty,
        "structs in structs in structs": nest,
        "bytes in arrays of arrays": every_call([{"name": "a", "type": "u8[][][]"}]),
        "a type that is itself": lambda s: (s["structs"].update(x=[{"name": "x", "type": "x"}]), every_call([{"name": "a", "type": "x[]"}])(s)) and None,
        "raw of a negative size": every_call([{"name": "a", "type": "raw-1"}, {"name": "b", "type": "raw18446744073709551615"}]),
        "calls that are none": lambda s: dict(s, calls=[5, None, "x", [], {}] * 100),
        "types that are none": every_call([{"name": 5, "type": {}}]),
        "names with control characters": lambda s: [c.update(name="\x1b]0;x\x07\x9b31m" + c["name"]) for c in s["calls"]] and None,
        "a list": lambda s: [],
    }
    for what, change in some(changes.items(), 4):
        target = copy(trace, place)
        edit_json(os.path.join(target, "rank-0", "schema.json"), change)
        try_all(tap, "a schema with %s" % what, target)
    for what, text in (("a million brackets", "[" * 1000000), ("forty million values", "[" + "0," * 40000000 + "0]"),
                       ("a name of 6 MB", json.dumps({"structs": {}, "calls": [{"name": "n" * 6000000}] * 1}))):
        for name in some(("schema.json", "process.json"), 2):
            target = copy(trace, place)
            with open(os.path.join(target, "rank-0", name), "w") as f:
                f.write(text)
            try_all(tap, "%s: %s" % (name, what), target, [["info"], ["dump"], ["verify"]])


@case
def terminals(tap, place, trace):
    """No control character gets through, from whatever place of the trace."""
    evil = "\x1b]0;owned\x07\x1b[31m\x9b2J\x08\x0d"

    def poison(value):
        if isinstance(value, str):
            return evil + value
        if isinstance(value, list):
            return [poison(v) for v in value]
        return {k: v if k in ("process", "xxh3", "build_id", "kept", "file") else poison(v) for k, v in value.items()} if isinstance(value, dict) else value

    def clean(status, out, err):
        text = out.decode(errors="replace") + err
        return not any((ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0 for c in text)

    target = copy(trace, place)
    edit_json(os.path.join(target, "rank-0", "process.json"), poison)
    try_all(tap, "control characters in process.json", target, also=clean)
    target = copy(trace, place)
    edit_json(os.path.join(target, "rank-0", "schema.json"),
              lambda s: dict(s, calls=[dict(c, name=evil + c["name"]) for c in s["calls"]]))
    try_all(tap, "control characters in names of calls", target, also=clean)
    for name in ("manifest.json", "rank-0/process.json", "rank-0/files.jsonl"):
        target = copy(trace, place)
        with open(os.path.join(target, name), "w") as f:
            f.write(evil + '{"%s' % evil)
        try_all(tap, "%s of control characters" % name, target, also=clean)
    status, out, err = run([SREPLAY, "replay", copy(trace, place)], SECONDS, env=dict(os.environ))
    target = copy(trace, place)
    edit_json(os.path.join(target, "rank-0", "process.json"), lambda p: dict(p, executable="/none" + evil))
    status, out, err = run([SREPLAY, "replay", target], SECONDS)
    tap.ok(status == 125 and clean(status, out, err), "a replay's own lines have none", repr(err))
    status, out, err = read_with(["dump", "--json"], target)
    tap.ok(status == 0 and all(json.loads(line) for line in out.splitlines()), "dump --json is JSON all the same", err)


@case
def bombs(tap, place, trace):
    """A few bytes that stand for many."""
    target = copy(trace, place)
    stream = os.path.join(target, "rank-0", "thread-0.srs")
    with open(stream, "r+b") as f:
        f.truncate(1 << 42)
    try_all(tap, "a stream with four terabytes of nothing behind it", target, [["info"], ["dump"], ["verify"]])
    target = copy(trace, place)
    for name in ("rank-0/files.jsonl", "rank-0/streams"):
        with open(os.path.join(target, name), "a") as f:
            f.write("x" * 50000000)
    try_all(tap, "lines of 50 MB", target, [["info"], ["dump"], ["verify"]])
    target = copy(trace, place)
    with open(os.path.join(target, "rank-0", "streams"), "w") as f:
        f.write("".join("%d\n" % n for n in range(100000)) + "-1\n18446744073709551616\n")
    try_all(tap, "a list of streams that is none", target, [["verify"]])


@case
def objects(tap, place, trace):
    """Files that a trace names as the program's are opened for their symbols: only regular ones."""
    fifo = os.path.join(place, "fifo")
    os.mkfifo(fifo)
    for path in some((fifo, "/proc/kcore", "/dev/zero", "/proc/kmsg", place, "/dev/tty"), 2):
        def change(process):
            for o in process["objects"]:
                o["path"] = path
                o.pop("build_id", None)
                o["xxh3"] = "0" * 16
            process["executable"] = path
        target = copy(trace, place)
        edit_json(os.path.join(target, "rank-0", "process.json"), change)
        try_all(tap, "objects that are %s" % os.path.basename(path), target, [["info"], ["dump"], ["explain"]])
        status, out, err = run([SREPLAY, "replay", target], SECONDS)
        tap.ok(status == 125, "... and no replay of them", "%s %s" % (status, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as place:
        place = os.path.realpath(place)
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        trace = os.path.join(place, "good.srec")
        status, out, err = run([SREPLAY, "record", "-o", trace, "--", PROGRAM], 60)
        for command in READERS:
            status, out, err = read_with(command, trace)
            tap.ok(status == 0, "%s reads a good trace within these limits" % " ".join(command), "%s %s" % (status, err))
        shutil.rmtree(os.path.join(trace, "plan"), ignore_errors=True)
        for function in CASES:
            if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
                continue
            with tempfile.TemporaryDirectory(dir=place) as own:
                function(tap, own, trace)
    tap.finish()


if __name__ == "__main__":
    main()
