#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A recorded program that uses verbs forks: its children are recorded, and each is replayed alone.  Needs no RDMA.

    forks.py [FUNCTION...]
"""

import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, run, run_functions

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
PROGRAM = os.path.join(PROGRAMS, "forks")
SECONDS = 60
# Which children each case has, and how they end.
CHILDREN = {
    "two": {"1": 5, "2": 6}, "nested": {"1": 8, "1/1": 7}, "threads-in-child": {"1": 9}, "threads-in-both": {"1": 10},
    "signals": {"1": 34}, "files": {"1": 11}, "killed": {"1": 123}, "executes": {"1": 123}, "without-handlers": {"1": 12},
    "shared": {"1": 13}, "shared-beside": {"1": 14}, "daemon": {"1": 0, "1/1": 15},
}


def record(place, case, *options):
    with open(os.path.join(place, "read"), "w") as f:
        f.write("".join("line %d\n" % i for i in range(1000)))
    trace = os.path.join(place, case + ".srec")
    shutil.rmtree(trace, ignore_errors=True)
    return trace, run([SREPLAY, "record", *options, "-o", trace, "--", PROGRAM, case], SECONDS, cwd=place)


def replay(trace, rank, *options, **settings):
    return run([SREPLAY, "replay", "--timeout", "10", "-r", rank, *options, trace], SECONDS, **settings)


def lines_of(out, name):
    return [line for line in out.decode().splitlines() if line.startswith(name + ":")]


def children(trace):
    """By name, the lines that info prints of them as JSON."""
    out = run([SREPLAY, "info", "--json", trace], SECONDS)[1].decode()
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["child"]: line for line in lines if "child" in line}


def problem(place, case, *options):
    trace, recorded = record(place, case, *options)
    found = sorted(children(trace))
    if recorded[0] != 4 or found != sorted(CHILDREN[case]):
        return "recorded %s, children %s" % (recorded, found)
    status, out, err = replay(trace, "0")
    if status != 4 or "0 divergences: exact" not in err or lines_of(out, "parent") != lines_of(recorded[1], "parent"):
        return "the parent: %s %s %s" % (status, out, err)
    for child, wanted in CHILDREN[case].items():
        status, out, err = replay(trace, "0/" + child)
        name = "child " + child
        if status != wanted or "sreplay: rank 0/%s: " % child not in err or "0 divergences: exact" not in err:
            return "%s: status %s\n%s" % (name, status, err)
        if lines_of(out, name) != lines_of(recorded[1], name):
            return "%s printed\n%s\nrecorded\n%s" % (name, out.decode(), recorded[1].decode())
    status, out, err = run([SREPLAY, "verify", trace], SECONDS)
    wrong = [c for c in CHILDREN[case] if b"rank 0/%s thread 0: whole" % c.encode() not in out]
    return "verify: %s %s" % (out, err) if wrong or status else ""


def each_case(tap, place):
    for case in CHILDREN:
        wrong = problem(place, case)
        tap.ok(not wrong, "%s: each process is replayed alone" % case, wrong)


def again_and_again(tap, place):
    """Threads interleave otherwise each time."""
    wrong = [p for p in (problem(place, "threads-in-both") for _ in range(5)) if p]
    tap.ok(not wrong, "threads-in-both, five times", "\n".join(wrong))


def traced_child(tap, place):
    trace, recorded = record(place, "traced")
    tap.ok(recorded[0] == 4, "a child that its parent traces goes on when it may", recorded)
    status, out, err = replay(trace, "0")
    tap.ok(status == 4 and "0 divergences: exact" in err and lines_of(out, "parent") == lines_of(recorded[1], "parent"),
           "... the parent is replayed", "%s %s %s" % (status, out, err))


def verbs_in_child(tap, place):
    """Queue pairs on the software device, made after the fork."""
    command = [os.path.join(PROGRAMS, "loopback"), "forked", "7", "3"]
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev"))
    bare = run(command, SECONDS, env=env)
    trace = os.path.join(place, "loopback.srec")
    recorded = run([SREPLAY, "record", "-o", trace, "--"] + command, SECONDS, env=env)
    status, out, err = replay(trace, "0/1", env=env)
    tap.ok(bare[0] == recorded[0] == status == 0 and out == recorded[1] and "rank 0/1: " in err and "exact" in err,
           "a child with queue pairs", "%s %s %s\n%s" % (bare[0], recorded[0], status, err))
    calls = children(trace)["1"]["calls_by_name"]
    tap.ok(calls.get("poll_cq", 0) > 10, "... its completions are recorded", calls)


def what_it_is_told(tap, place):
    trace, _ = record(place, "two")
    status, _, err = replay(trace, "0/9")
    tap.ok(status == 125 and "has no recorded process 0/9" in err, "a child that is not there", err)
    status, _, err = replay(trace, "0/x")
    tap.ok(status == 125 and "not a child of a rank" in err, "a name that is none", err)
    out = run([SREPLAY, "dump", "-r", "0/2", trace], SECONDS)[1].decode()
    tap.ok("getrandom" in out and "forked" not in out, "dump of a child", out)
    inner = os.path.join(trace, "rank-0", "child-1.srec")
    status, _, err = replay(inner, "0")
    tap.ok(status == 5 and "exact" in err, "the child's trace by its path", err)
    status, _, err = run([SREPLAY, "replay", "-g", "0,0/1", os.path.join(place, "two.srec")], SECONDS)
    tap.ok(status == 125 and "is replayed alone: by -r" in err, "a child without verbs in a replay of several ranks", err)
    alone = os.path.join(place, "alone.srec")
    shutil.copytree(inner, alone)
    status, _, err = replay(alone, "0")
    tap.ok(status == 125 and "belongs into the directory of its parent's rank" in err, "a child's trace without its parent's", err)
    copy = os.path.join(place, "copy.srec")
    run([SREPLAY, "collect", "-o", copy, os.path.join(place, "two.srec")], SECONDS)
    status, _, err = replay(copy, "0/1")
    tap.ok(status == 5 and "exact" in err and "sandbox" not in err, "collect takes the children along", err)
    trace, recorded = record(place, "signals")
    shutil.copytree(trace, os.path.join(place, "strangers.srec"))
    status, out, err = replay(os.path.join(place, "strangers.srec"), "0/1")
    tap.ok(status == 34 and "exact" in err and "sandbox" in err and lines_of(out, "child 1") == lines_of(recorded[1], "child 1"),
           "handlers of a child in the sandbox", "%s %s %s" % (status, out, err))
    trace, _ = record(place, "killed", "--threads=parallel")
    os.unlink(os.path.join(trace, "rank-0", "thread-0.srs"))
    status, _, err = replay(trace, "0/1")
    tap.ok(status != 1 and "exact" not in err, "a child without its parent's stream", "%s %s" % (status, err))


def not_of_shells(tap, place):
    """Children of programs without verbs are not worth their recording."""
    trace = os.path.join(place, "shell.srec")
    run([SREPLAY, "record", "--from-start", "-o", trace, "--", "sh", "-c", "(echo child); echo parent"], SECONDS)
    tap.ok(not children(trace), "a shell's children", children(trace))
    for how, wanted in (("on", ["1"]), ("off", [])):
        command = ["sh", "-c", "(date +%N); (echo child); echo parent"] if wanted else [PROGRAM, "two"]
        run([SREPLAY, "record", "--from-start", "--children", how, "-o", how + ".srec", "--"] + command, SECONDS, cwd=place)
        found = sorted(children(os.path.join(place, how + ".srec")))
        tap.ok(bool(found) == bool(wanted), "--children=%s" % how, found)


if __name__ == "__main__":
    run_functions([each_case, traced_child, again_and_again, verbs_in_child, what_it_is_told, not_of_shells])
