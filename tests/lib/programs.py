# SPDX-License-Identifier: BSD-2-Clause
"""The programs of tests/programs that run on its pgas runtime: their sizes for tests and benchmarks, and how to run them."""

import os
import re
import subprocess

from harness import BUILD, SREPLAY, kill_group, start

APPS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
LAUNCHER = os.path.join(APPS, "pgasrun")
SECONDS = 110


class Program:
    """name: of the row; small: the command in tests; measured: in the benchmark over Soft-RoCE; replayed: in that of
    replays, where each look is a fault; native: in both on the software device, a second or more.

    races: the answer may be wrong, and differ from run to run. least: of ranks.
    """

    def __init__(self, name, small, measured, replayed, native, races=False, least=1):
        self.name = name
        self.small = small.split()
        self.measured = measured.split()
        self.replayed = replayed.split()
        self.native = native.split()
        self.races = races
        self.least = least


PROGRAMS = [
    Program("uts", "uts T1-5", "uts T1-7", "uts T1-6", "uts T1"),
    Program("guppie", "guppie 12 64", "guppie 15 2048", "guppie 14 1024", "guppie 20 600000"),
    Program("is", "is 1024 2", "is 16384 40", "is 4096 8", "is 65536 1600"),
    Program("laplace", "laplace 32 20", "laplace 64 1000", "laplace 64 150", "laplace 64 120000"),
    Program("mcop", "mcop 12", "mcop 36", "mcop 24", "mcop 220"),
    Program("nqueens", "nqueens 8", "nqueens 13 5", "nqueens 10 5", "nqueens 15 6"),
    Program("fib", "fib 11 6", "fib 24 10", "fib 15 8", "fib 34 10"),
    Program("dht", "dht 160", "dht 3000", "dht 500", "dht 150000"),
    Program("cg", "cg 64", "cg 128", "cg 64", "cg 60000"),
    Program("knapsack", "knapsack corrected 6 40", "knapsack corrected 14 600", "knapsack corrected 12 200", "knapsack corrected 14 40000"),
    Program("knapsack-race", "knapsack race 6 40", "knapsack race 14 600", "knapsack race 12 200", "knapsack race 14 40000", races=True),
    Program("shvar", "shvar 50", "shvar 3000", "shvar 300", "shvar 120000", least=2),
]


def named(names):
    unknown = set(names) - {p.name for p in PROGRAMS}
    if unknown:
        raise SystemExit("no program %s; there are %s" % (", ".join(unknown), ", ".join(p.name for p in PROGRAMS)))
    return [p for p in PROGRAMS if not names or p.name in names]


class Run:
    """What came of one run of a job."""

    def __init__(self, status, launcher, out, err):
        self.status = status
        self.launcher = launcher
        self.out = out  # of each rank
        self.err = err

    def statistics(self, rank=0):
        """What the runtime counted, by name."""
        for line in self.err[rank].splitlines():
            if line.startswith("pgas: rank="):
                return {k: float(v) for k, v in (word.split("=") for word in line.split()[1:])}
        return {}

    def peak_kb(self):
        """The most memory that each rank had at a time, as the launcher found it."""
        return {int(rank): int(kb) for rank, kb in re.findall(r"^pgasrun: rank (\d+) took at most (\d+) kB$", self.launcher, re.M)}

    def detail(self):
        return "status %s\n%s\n%s\n%s" % (self.status, self.launcher, "".join(self.out), "".join(self.err))


def text(path):
    with open(path, errors="replace") as f:
        return f.read()


def run(command, ranks, directory, trace=None, group=(), clocks=False, seconds=SECONDS):
    """Runs a job whose ranks in `group` are recorded into `trace`."""
    os.makedirs(directory, exist_ok=True)
    launcher = [LAUNCHER, "-n", str(ranks), "-t", str(seconds), "-o", directory]
    if trace:
        members = ",".join(str(r) for r in group)
        recorder = "%s record %s-o %s --rank %%r --group %s --" % (SREPLAY, "--clocks " if clocks else "", trace, members)
        launcher += ["-w", members, recorder]
    arguments = launcher + [os.path.join(APPS, command[0])] + command[1:]
    log = os.path.join(directory, "launcher")
    process = start(arguments, open(log, "wb"), subprocess.STDOUT, env=dict(os.environ, PGAS_STATISTICS="1"))
    try:
        status = process.wait(seconds + 30)
    except subprocess.TimeoutExpired:
        kill_group(process)
        status = "hang"
    out = [text("%s/%d.out" % (directory, r)) for r in range(ranks)]
    err = [text("%s/%d.err" % (directory, r)) for r in range(ranks)]
    return Run(status, text(log), out, err)
