#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The programs of tests/programs give their checked answers bare, recorded, and replayed.

    apps.py record OUTDIR [--ranks N,...] [--all] [--clocks] [--runs N] [--seconds S] [--load N] [--seed N] [PROGRAM...]
                                                           over rxe (run it under ci/rxe)
    apps.py replay OUTDIR                                  on a machine that needs none
    apps.py alone                                          both, with one rank, on the stand-in for verbs

record runs each program bare and then, RUNS times, with a group of its ranks recorded (--all: all of them);
without --ranks each with the number that SMALL says, so that all together stay below two minutes of an emulated
machine. The runs go round all programs; none is begun after SECONDS. --load has other processes compete for
the CPUs, in bursts that SEED determines. replay replays each recorded rank alone, and all of them together, over
shared memory. alone also walks the two published trees of uts whole.
"""

import argparse
import glob
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import programs
from harness import BUILD, SREPLAY, Tap, fresh, replay

# Starting a rank takes a second of the emulated machine: most programs have two, some more.
SMALL = {"uts": (4,), "shvar": (3,), "dht": (4,)}
# Of these all are recorded, so that of one job groups of one, two, three and all can be replayed.
WHOLE = ("dht", "shvar")

PUBLISHED = {"T1": 4130071, "T3": 4112897}  # nodes


def group_of(ranks, whole):
    """Half of them, and at least two, so that there is an outside where there are more."""
    return list(range(ranks)) if whole or ranks <= 2 else list(range(0, ranks, 2))


def answers(job, program):
    """What is wrong with what the ranks printed, or None."""
    allowed = "(right|wrong)" if program.races else "right"
    if job.status not in ((0, 1) if program.races else (0,)):
        return "the job ended with %s" % job.status
    for rank, out in enumerate(job.out):
        if not re.fullmatch(r".+: %s\n" % allowed, out):
            return "rank %d printed %r" % (rank, out)
    return None


def trace_is_whole(trace, group):
    verified = subprocess.run([SREPLAY, "verify", trace], capture_output=True, text=True)
    info = subprocess.run([SREPLAY, "info", trace], capture_output=True, text=True).stdout
    missing = [r for r in group if not re.search(r"^rank %d\b" % r, info, re.M)]
    if verified.returncode:
        return verified.stdout + verified.stderr
    return "no ranks %s in\n%s" % (missing, info) if missing else None


class Job:
    """A program with so many ranks: one bare run, and recorded ones beside it."""

    def __init__(self, options, program, ranks):
        self.program = program
        self.ranks = ranks
        self.clocks = options.clocks
        self.group = group_of(ranks, options.all or program.name in WHOLE)
        self.base = os.path.join(options.directory, "%s-%d" % (program.name, ranks))
        self.bare = None

    def run_bare(self, tap):
        self.bare = programs.run(self.program.small, self.ranks, self.base + ".bare")
        problem = answers(self.bare, self.program)
        tap.ok(not problem, "%s, %d ranks: right" % (self.program.name, self.ranks), "%s\n%s" % (problem, self.bare.detail()))

    def record(self, tap, run):
        if not self.bare:
            self.run_bare(tap)
        base = "%s-%d" % (self.base, run)
        recorded = programs.run(self.program.small, self.ranks, base + ".recorded", base + ".srec", self.group, self.clocks)
        problem = answers(recorded, self.program) or trace_is_whole(base + ".srec", self.group)
        if not problem and not self.program.races and recorded.out != self.bare.out:
            problem = "the bare run printed %s" % self.bare.out
        tap.ok(not problem, "%s, %d ranks: the same with ranks %s recorded" % (self.program.name, self.ranks, self.group),
               "%s\n%s" % (problem, recorded.detail()))
        with open(base + ".json", "w") as f:
            json.dump({"program": self.program.name, "ranks": self.ranks, "group": self.group, "clocks": self.clocks,
                       "recorded": not problem}, f)


def compete(seed):
    """Uses a CPU in bursts of up to 20 ms, until it is killed."""
    import random
    dice = random.Random(seed)
    while True:
        end = time.monotonic() + dice.random() * 0.02
        while time.monotonic() < end:
            pass
        time.sleep(dice.random() * 0.02)


def record(tap, options):
    fresh(options.directory)
    end = time.monotonic() + options.seconds
    jobs = [Job(options, program, ranks) for program in programs.named(options.program)
            for ranks in options.ranks or SMALL.get(program.name, (2,)) if ranks >= program.least]
    load = [multiprocessing.Process(target=compete, args=(options.seed + n,), daemon=True) for n in range(options.load)]
    for process in load:
        process.start()
    try:
        for run in range(options.runs):
            for job in jobs:
                if time.monotonic() < end:
                    job.record(tap, run)
    finally:
        for process in load:
            process.kill()


def replay_one(base, rank):
    """What is wrong with the replay of one rank, or None."""
    expected = programs.text("%s.recorded/%d.out" % (base, rank))
    status, out, err = replay(base + ".srec", rank)
    if out.decode(errors="replace") != expected:
        return "rank %d: recorded\n%sreplayed\n%s\n%s" % (rank, expected, out.decode(errors="replace"), err)
    if not re.search(r"rank %d: \d+ calls replayed, 0 divergences: exact$" % rank, err.strip(), re.M):
        return "rank %d: status %s\n%s" % (rank, status, err)
    return None


def replay_together(base, group):
    """What is wrong with the replay of all recorded ranks at once, over shared memory, or None."""
    with tempfile.TemporaryDirectory() as kept:
        r = subprocess.run([SREPLAY, "replay", "--transport", "shm", "-o", kept, base + ".srec"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, errors="replace")
        if "sreplay: all %d ranks ended as recorded" % len(group) not in r.stderr:
            return "status %s\n%s" % (r.returncode, r.stderr)
        for rank in group:
            out = programs.text("%s/rank-%d.out" % (kept, rank))
            if out != programs.text("%s.recorded/%d.out" % (base, rank)):
                return "rank %d printed\n%s" % (rank, out)
    return None


def replay_all(tap, options):
    recordings = sorted(glob.glob(os.path.join(options.directory, "*.json")))
    tap.ok(recordings, "there are recordings in %s" % options.directory)
    for path in recordings:
        with open(path) as f:
            made = json.load(f)
        problems = [p for p in (replay_one(path[:-len(".json")], rank) for rank in made["group"]) if p]
        tap.ok(not problems, "%s, %d ranks: %s replay exactly, each alone" % (
            made["program"], made["ranks"], made["group"]), "\n".join(problems))
        if len(made["group"]) > 1:
            problem = replay_together(path[:-len(".json")], made["group"])
            tap.ok(not problem, "%s, %d ranks: %s replay together" % (made["program"], made["ranks"], made["group"]), problem)


def launcher(tap, directory):
    """What pgasrun does besides starting ranks."""
    def shell(options, script):
        r = subprocess.run([programs.LAUNCHER] + options + ["sh", "-c", script], capture_output=True, text=True)
        return r.returncode, r.stdout + r.stderr

    status, text = shell(["-n", "2", "-t", "60"], "[ $PGAS_RANK = 1 ] && exit 3; sleep 100")
    tap.ok(status == 3, "pgasrun: a rank that fails ends the others", (status, text))
    status, text = shell(["-n", "2", "-t", "1"], "sleep 100")
    tap.ok(status == 124, "pgasrun: the time limit ends all", (status, text))
    status, text = shell(["-n", "4", "-o", directory, "-w", "1,3", "env WHO=%r"], "echo $PGAS_RANK-$WHO-$PGAS_RANKS")
    printed = [programs.text("%s/%d.out" % (directory, rank)) for rank in range(4)]
    tap.ok(status == 0 and printed == ["0--4\n", "1-1-4\n", "2--4\n", "3-3-4\n"],
           "pgasrun: a command is put in front of chosen ranks", (status, text, printed))


def alone(tap, options):
    os.environ["LD_LIBRARY_PATH"] = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
    with tempfile.TemporaryDirectory() as directory:
        launcher(tap, directory)
        options.directory = os.path.join(directory, "recorded")
        options.ranks = [1]
        record(tap, options)
        replay_all(tap, options)
        for tree, nodes in PUBLISHED.items():
            job = programs.run(["uts", tree], 1, os.path.join(directory, tree))
            tap.ok(job.out[0].startswith("uts %s: %d nodes" % (tree, nodes)) and job.status == 0,
                   "uts %s: the published %d nodes" % (tree, nodes), job.detail())


def main():
    parser = argparse.ArgumentParser(description="programs bare, recorded, replayed")
    parser.add_argument("what", choices=("record", "replay", "alone"))
    parser.add_argument("directory", nargs="?")
    parser.add_argument("program", nargs="*")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--clocks", action="store_true")
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")])
    options = parser.parse_args()
    tap = Tap()
    {"record": record, "replay": replay_all, "alone": alone}[options.what](tap, options)
    tap.finish()


if __name__ == "__main__":
    main()
