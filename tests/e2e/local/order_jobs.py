#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that are recorded with --order, whole or killed: replayed whole, then each rank extracted, and replayed alone. On the
software device.

    order_jobs.py [full]                                                  the test; full: each program on 16 ranks, each kind of kill
    order_jobs.py [--ranks N] [--kill HOW] [--runs N] [--keep DIR] all|NAME...    a table, of the programs of table 2

--kill one: SIGKILL to one rank, where the launcher ends the others as soon as it sees that; all: to all ranks at once; node: to
the daemon and all ranks, so that each rank's trace ends somewhere else; cut: to none, but each trace is cut short somewhere.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, fresh, kill_group, read, run, start
from order import PROGRAMS, SOFTDEV
from programs import named

SECONDS = 100
CUT = 123


def processes(place):
    """Of the ranks: {rank: pid}, of those that have begun to print into this directory."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            out = os.readlink("/proc/%s/fd/1" % pid)
        except OSError:
            continue
        if os.path.dirname(out) == place and out.endswith(".out"):
            found[int(os.path.basename(out)[:-4])] = int(pid)
    return found


def has_records(trace, ranks, size):
    """Has so much of each rank been written out?"""
    def of(r):
        path = "%s/rank-%d/thread-0.srs" % (trace, r)
        return os.path.getsize(path) if os.path.exists(path) else 0
    return all(of(r) >= size for r in range(ranks))


def kill(job, place, trace, ranks, how, delay):
    """Once all ranks are recorded, and a time after that."""
    while job.poll() is None and not has_records(trace, ranks, 1):
        time.sleep(0.005)
    time.sleep(delay)
    pids = processes(place)
    victims = [random.choice(sorted(pids.values()))] if how == "one" and pids else list(pids.values())
    for pid in ([daemon()] if how == "node" else []) + victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def daemon():
    """The one with this test's socket."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"sreplay-logd" in read("/proc/%s/cmdline" % pid) and os.environ["SREPLAY_SOCKET"].encode() in read("/proc/%s/environ" % pid):
                return int(pid)
        except OSError:
            pass
    raise SystemExit("no daemon")


def cut(trace, ranks):
    for r in range(ranks):
        stream = "%s/rank-%d/thread-0.srs" % (trace, r)
        os.truncate(stream, random.randrange(64, os.path.getsize(stream) + 1))


def record(directory, name, ranks, program, how=None, delay=0):
    """(trace, the recorded outputs, status, CPU seconds, what was said)"""
    out, trace = fresh(os.path.join(directory, name)), os.path.join(directory, name + ".srec")
    shutil.rmtree(trace, ignore_errors=True)
    everyone = "0-%d" % (ranks - 1)
    command = [SOFTDEV, "--", os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", str(SECONDS), "-o", out, "-w", everyone,
               "%s record --order -o %s --rank %%r --group %s --" % (SREPLAY, trace, everyone), os.path.join(PROGRAMS, program[0])] + program[1:]
    said = os.path.join(out, "launcher")
    with open(said, "wb") as log:
        job = start(command, log, log)
    try:
        if how and how != "cut":
            kill(job, out, trace, ranks, how, delay)
        status = job.wait(SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(job)
        status = "hang"
    if how == "cut":
        cut(trace, ranks)
    elif how != "node":
        wait_written(trace)
    return trace, [read("%s/%d.out" % (out, r)) for r in range(ranks)], status, read(said).decode(errors="replace")


def wait_written(trace):
    """The daemon writes what a killed process has left in its rings."""
    for _ in range(200):
        if run([SREPLAY, "verify", trace], SECONDS)[0] == 0:
            return
        time.sleep(0.05)


def replayed(err):
    """{rank: calls} of those that were exact as far as they got"""
    return {int(r): int(n) for r, n in re.findall(r"rank (\d+): (\d+) calls replayed, 0 divergences: exact", err)}


def recorded_calls(trace):
    lines = subprocess.run([SREPLAY, "info", "--json", trace], capture_output=True, text=True).stdout.splitlines()
    return {r["rank"]: r["calls"] for r in map(json.loads, lines) if "rank" in r and "calls" in r}


def is_beginning(outputs, again):
    return all(o.startswith(a) for o, a in zip(outputs, again))


def whole(directory, trace, outputs, killed):
    """({rank: calls}, '' or what went wrong)"""
    again = os.path.join(directory, "again")
    shutil.rmtree(again, ignore_errors=True)
    status, _, err = run([SREPLAY, "replay", "-q", "-o", again, trace], SECONDS)
    calls = replayed(err)
    if status not in ((0, CUT) if killed else (0,)) or len(calls) != len(outputs):
        return calls, "whole: %s\n%s" % (status, err)
    got = [read("%s/rank-%d.out" % (again, r)) for r in range(len(outputs))]
    good = is_beginning(outputs, got) if killed else got == outputs
    return calls, "" if good else "another output"


def alone(detail, rank, output, killed, options):
    """(calls, '' or what went wrong)"""
    status, out, err = run([SREPLAY, "replay", "-q", "-r", str(rank)] + options + [detail], SECONDS)
    calls = replayed(err).get(rank)
    good = calls is not None and (output.startswith(out) if killed else status == 0 and out == output)
    return calls or 0, "" if good else "rank %d alone: %s\n%s" % (rank, status, err)


def extracted(directory, trace, outputs, killed, options=()):
    detail = os.path.join(directory, "detail.srec")
    shutil.rmtree(detail, ignore_errors=True)
    status, _, err = run([SREPLAY, "replay", "-q", "--record-ranks", "0-%d" % (len(outputs) - 1), "-o", detail, trace], SECONDS)
    if status not in ((0, CUT) if killed else (0,)):
        return {}, "extraction: %s\n%s" % (status, err)
    got = {r: alone(detail, r, outputs[r], killed, list(options)) for r in range(len(outputs))}
    return {r: calls for r, (calls, _) in got.items()}, "".join(problem for _, problem in got.values())


def cpu():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def part(calls, recorded):
    """How far the ranks came, of what was recorded: the least, in per cent."""
    return min((100.0 * calls.get(r, 0) / n for r, n in recorded.items() if n), default=0.0)


def try_one(directory, ranks, program, how, delay):
    before = cpu()
    trace, outputs, status, said = record(directory, "job", ranks, program, how, delay)
    times = [cpu() - before]
    killed = how and (status != 0 or how == "cut")
    if not killed and status != 0:
        return "recorded: %s\n%s" % (status, said), ""
    before = cpu()
    calls, problem = whole(directory, trace, outputs, killed)
    times.append(cpu() - before)
    again, worse = extracted(directory, trace, outputs, killed)
    recorded = recorded_calls(trace)
    return problem + worse, "%7.2f %7.2f  %s %5.1f %5.1f" % (times[0], times[1], "killed" if killed else "whole ", part(calls, recorded), part(again, recorded))


def table(o):
    print("program            CPU s: recorded, replayed; least part of a rank's calls: whole, alone")
    failures = 0
    for p in named([n for n in o.names if n != "all"]):
        for i in range(o.runs):
            with tempfile.TemporaryDirectory() as directory:
                directory = os.path.realpath(directory)
                os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
                problem, text = try_one(directory, max(o.ranks, p.least), getattr(p, o.size), o.kill, random.random() * o.delay)
                print("%-16s %s %s" % (p.name, text, "exact" if not problem else "WRONG"), flush=True)
                if problem:
                    failures += 1
                    print(problem[:o.text], flush=True)
                    if o.keep:
                        shutil.copytree(directory, os.path.join(o.keep, "%s-%d" % (p.name, i)), dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
    sys.exit(1 if failures else 0)


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("names", nargs="+")
    p.add_argument("--ranks", type=int, default=16)
    p.add_argument("--kill", choices=["one", "all", "node", "cut"])
    p.add_argument("--delay", type=float, default=0.3)
    p.add_argument("--size", choices=["small", "measured", "replayed", "native"], default="small")
    p.add_argument("--runs", type=int, default=1)
    p.add_argument("--text", type=int, default=3000)
    p.add_argument("--keep")
    return p.parse_args()


def many_ranks(tap, directory, is_full):
    """What 16 ranks show that few do not is the same of each program; what programs show is theirs on 6 ranks, too."""
    for name, few in ("guppie", 16), ("laplace", 6), ("knapsack", 6):
        ranks = 16 if is_full else few
        problem, text = try_one(directory, ranks, named([name])[0].small, None, 0)
        tap.ok(not problem, "%s on %d ranks: replayed whole, and each rank extracted and replayed alone" % (name, ranks), problem)


def heartbeats(tap, directory):
    """Two threads of a rank, of whose events between calls other ranks learn; tests/unit/analysis/test_process.c has the case in small."""
    problems = [try_one(directory, 2, ["heartbeats"], None, 0)[0] for _ in range(10)]
    tap.ok(not any(problems), "heartbeats: of 10 recordings, %d have no exact replay" % sum(map(bool, problems)), "".join(problems))


def killed(tap, directory, is_full):
    """Some 9 s each; all ranks at once is between the other two: the daemon writes what is left, and nobody goes on."""
    program = ["is", "65536", "400"]
    for how, what in (("one", "one rank was"), ("all", "all ranks were"), ("node", "all ranks and the daemon were")):
        if how == "all" and not is_full:
            continue
        problem, text = try_one(directory, 3, program, how, 0.1)
        tap.ok(not problem and " killed " in text, "%s killed: each is exact up to its last event whose causes were recorded" % what, problem + text)


def cut_before_counts(tap, directory, is_full):
    """Where completions do not say whose they are, the trace ends before it says how many of each queue there are."""
    for name in ("mesh", "product") if is_full else ("mesh",):
        problem, text = try_one(directory, 3, ["classics", name, "600"], "cut", 0)
        tap.ok(not problem, "classics %s, traces cut short: each is exact up to its last event whose causes were recorded" % name, problem + text)


def cut_before_connected(tap, directory):
    """That trace does not say that it is the sender of what the others received."""
    trace, outputs, status, said = record(directory, "early", 3, ["classics", "mesh", "600"])
    kept = os.path.join(directory, "kept.srec")
    os.rename(trace, kept)
    for r in range(3):
        shutil.rmtree(trace, ignore_errors=True)
        shutil.copytree(kept, trace)
        os.truncate("%s/rank-%d/thread-0.srs" % (trace, r), 64)
        _, problem = whole(directory, trace, outputs, True)
        tap.ok(not status and not problem, "rank %d's trace ends before it is connected: the others are exact up to what it sends" % r, said + problem)


def ends_in_a_loop(tap, directory):
    """What ranks wait for in a loop without calls is of ranks whose traces are cut short before."""
    trace, outputs, status, said = record(directory, "loop", 4, ["guppie", "12", "64"])
    for r in 0, 1:
        os.truncate("%s/rank-%d/thread-0.srs" % (trace, r), 64)
    _, problem = extracted(directory, trace, outputs, True, ["-t", "20"])
    tap.ok(not status and not problem, "a rank that waits in a loop where its trace ends is ended there", said + problem)


def main():
    is_full = sys.argv[1:] == ["full"]
    if len(sys.argv) > 1 and not is_full:
        table(arguments())
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        directory = os.path.realpath(directory)
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        many_ranks(tap, directory, is_full)
        if is_full:
            heartbeats(tap, directory)
        killed(tap, directory, is_full)
        cut_before_counts(tap, directory, is_full)
        cut_before_connected(tap, directory)
        ends_in_a_loop(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
