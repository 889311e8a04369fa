#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Traces with changed records, whose checksums are right: no command crashes, hangs, or takes much memory.

    mutated_traces.py [COUNT [SEED [READER]]]

READER: the sreplay that reads them, of a build with sanitizers for instance. What a seed finds it finds again in the
same recordings; a trace that a command fails on is kept, and named. On the software device.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, run
from order import PROGRAMS, record

MUTATE = os.path.join(os.path.realpath(BUILD), "tests", "unit", "logd", "mutate_stream")
SECONDS = 60
MOST_MEMORY = 2 << 30  # of a reader with sanitizers, too
SANITIZER = b"Sanitizer"
COMMANDS = [["info"], ["info", "--order"], ["dump"], ["dump", "--json"], ["verify"], ["process"], ["orders"], ["graph"], ["suggest"],
            ["ps"], ["export", "-o", "EXPORTED"], ["report", "-o", "REPORTED"], ["races", "--local=none"], ["races", "--local=recorded", "--sc"]]
# These run the program that was recorded, with what the trace says of it.
REPLAYS = [["replay", "-t", "5", "-r", "0"], ["replay", "-t", "5"], ["replay", "-t", "5", "-r", "0", "--no-sandbox"]]


JOBS = [("values", 2, ["dht"], ""), ("clocks", 2, ["laplace"], "--clocks"), ("order", 3, ["blocks", "30"], "--order"),
        ("messages", 2, ["messages", "60"], "--order"), ("locks", 3, ["patterns", "ticket"], "")]
ALONE = [["threads", "-t", "3", "-n", "50"], ["execs", "chain"], ["shared_memory"], ["signals", "many_kinds"]]


def recordings(directory):
    for name, ranks, program, options in JOBS:
        trace, _, problem = record(directory, name, ranks, program, options)
        if problem:
            raise SystemExit("%s\n%s" % (name, problem))
        yield trace
    for program in ALONE:
        trace = os.path.join(directory, program[0] + ".srec")
        run([SREPLAY, "record", "--from-start", "-o", trace, "--", os.path.join(PROGRAMS, program[0])] + program[1:], SECONDS)
        yield trace


def files_of(trace):
    """The streams, each as often as all other files together."""
    found = [os.path.join(d, f) for d, _, files in os.walk(trace) for f in sorted(files)]
    streams = [f for f in found if f.endswith(".srs")]
    return streams * max(1, len(found) // max(1, len(streams))) + [f for f in found if f not in streams]


def problem_of(reader, command, trace, place):
    words = [os.path.join(place, word.lower()) if word.isupper() else word for word in command[1:]]
    arguments = [reader, command[0]] + words + [trace]
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=place,
                               start_new_session=True)
    try:
        err = process.communicate(timeout=SECONDS)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "%s: hang" % " ".join(command)
    if process.returncode < 0 or SANITIZER in err:
        return "%s: status %d\n%s" % (" ".join(command), process.returncode, err.decode(errors="replace")[:3000])
    return ""


def peak():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10


def keep(mutated, number):
    kept = os.path.join(os.path.realpath(BUILD), "mutated-%d.srec" % number)  # a test's own place is removed
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(mutated, kept)
    return kept


def one(draw, traces, number, reader, place):
    mutated = os.path.join(place, "mutated.srec")
    shutil.rmtree(mutated, ignore_errors=True)
    shutil.copytree(draw.choice(traces), mutated)
    for path in draw.sample(files_of(mutated), draw.choice([1, 1, 2])):
        if os.path.getsize(path) and run([MUTATE, path, str(draw.getrandbits(60))], SECONDS)[0]:
            return "mutate_stream failed on %s" % path
    commands = draw.sample(COMMANDS, 4)
    problems = [p for p in (problem_of(reader, c, mutated, place) for c in commands) if p]
    if not number % 8:
        replay_problem = problem_of(SREPLAY, draw.choice(REPLAYS), mutated, place)
        problems += [replay_problem] if replay_problem else []
    if peak() > MOST_MEMORY:
        problems.append("%d bytes of memory" % peak())
    return "%s\n%s" % (keep(mutated, number), "\n".join(problems)) if problems else ""


def main():
    tap = Tap()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    reader = sys.argv[3] if len(sys.argv) > 3 else SREPLAY
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        traces = list(recordings(place))
        problems = [p for p in (one(draw, traces, n, reader, place) for n in range(count)) if p]
    tap.ok(not problems, "%d traces with changed records, seed %d: %d of them make a command crash or hang" % (count, seed, len(problems)),
           "\n".join(problems))
    tap.finish()


if __name__ == "__main__":
    main()
