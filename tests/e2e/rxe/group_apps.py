#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One-sided programs: their recorded ranks replayed at once, in groups of one, two, three and all.

    group_apps.py alone          recorded here, with one rank, on the stand-in for verbs
    group_apps.py replay OUTDIR  what `apps.py record OUTDIR` has recorded

Each rank prints what it printed; who produced which value is the same each time, with the ranks side by side or
one after the other on one CPU; where all ranks of a job are in the group nothing comes from outside.
"""

import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import programs
from harness import BUILD, SREPLAY, Tap, fresh, read

FALSIFY = os.path.join(os.path.realpath(BUILD), "tests", "lib", "falsify")
SECONDS = 100
ALONE = ("uts", "is", "laplace", "dht", "nqueens", "fib", "cg", "guppie", "mcop")
# Their ranks race for the same words, so that a value may be one of several writers'.
RACING = ("guppie", "shvar", "knapsack-race")
# Two ranks, four of four, and two of four.
FALSIFIED = ("is", "dht", "uts")


def replay(trace, ranks, output, *arguments, cpus=None):
    return subprocess.run((["taskset", "-c", cpus] if cpus else []) + [SREPLAY, "replay", "--group", ",".join(map(str, ranks)), "-o", fresh(output),
                           *arguments, trace], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)


def found(trace, ranks):
    paths = [os.path.join(trace, "plan", "rank-%d" % rank, "found") for rank in ranks]
    return [read(path) if os.path.exists(path) else b"" for path in paths]


def outside(err):
    return sum(int(n) for n in re.findall(rb"bytes entered from the group, (\d+) from outside", err))


def ended_with(trace, rank):
    """The recorded exit status: a race's program says by it that its answer is wrong."""
    info = subprocess.run([SREPLAY, "info", "--rank", str(rank), trace], capture_output=True, text=True).stdout
    return int(re.search(r"ended with status (\d+)", info).group(1))


def difference(r, trace, ranks, output, printed):
    """'' or what is not as it was recorded. printed: by rank."""
    err = r.stderr.decode(errors="replace")
    # One rank's replay ends as the rank did; several, with 0 if all did.
    if r.returncode != (ended_with(trace, ranks[0]) if len(ranks) == 1 else 0):
        return "status %d\n%s" % (r.returncode, err)
    if len(ranks) == 1:
        return "" if r.stdout == printed(ranks[0]) else "rank %d printed\n%s" % (ranks[0], r.stdout)
    for rank in ranks:
        if read(os.path.join(output, "rank-%d.out" % rank)) != printed(rank):
            return "rank %d printed something else\n%s" % (rank, err)
    return ""


def groups_of(members):
    """One of one, two and three, and all."""
    sizes = [n for n in (1, 2, 3) if n < len(members)]
    return [next(itertools.combinations(reversed(members), n))[::-1] for n in sizes] + [tuple(members)]


def test_job(tap, name, trace, members, ranks, printed, directory):
    output = os.path.join(directory, "output")
    for group in groups_of(members):
        problem, reports, others = "", [], []
        for cpus in (None, "0"):
            r = replay(trace, group, output, "--transport", "shm", cpus=cpus)
            problem = problem or difference(r, trace, group, output, printed)
            reports.append(found(trace, group))
            others.append(outside(r.stderr))
        if not problem and reports[0] != reports[1]:
            problem = "the second report differs: %s bytes from outside" % others
        if not problem and len(group) == ranks and name not in RACING and any(others):
            problem = "%s bytes from outside, where nobody is" % others
        tap.ok(not problem, "%s: ranks %s of %d, twice: exact, the same report" % (name, list(group), ranks), problem)
    r = replay(trace, members, output, "--transport", "none")
    problem = difference(r, trace, members, output, printed)
    tap.ok(not problem, "%s: ranks %s, each from its trace" % (name, list(members)), problem)


def first_value(trace, rank):
    """The SN after which the rank first found something at a load from a page that its peers write, and that page."""
    dump = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), trace], stdout=subprocess.PIPE).stdout
    records = (r for r in map(json.loads, dump.splitlines()) if r.get("record") == "exposed" and r["values"] and r.get("by"))
    first = next(records)
    return first["sn"], int(first["of"], 16) & ~4095


def test_falsified(tap, name, trace, members, ranks, directory, transport="shm"):
    """A value in memory that nobody uses, so that nothing but its having no writer is wrong with it."""
    copy = os.path.join(directory, "falsified.srec")
    shutil.copytree(trace, copy)
    rank = members[-1]
    sn, page = first_value(copy, rank)
    unused = page + 8 * 63  # the runtime's word for a rank that there is not
    subprocess.run([FALSIFY, copy, str(rank), "0", str(sn), "plant", hex(unused)], check=True)
    for group in groups_of(members):
        r = replay(copy, group, os.path.join(directory, "output"), "--transport", transport)
        err = r.stderr.decode(errors="replace")
        place = r"rank %d thread 0 SN %d: no rank has written the 1 bytes at 0x\w+1f8, and nobody else can" % (rank, sn)
        if len(members) == ranks:
            tap.ok(r.returncode == 124 and re.search(place, err),
                   "%s: a value of rank %d that was falsified is found to be nobody's, by ranks %s of %d" % (
                       name, rank, list(group), ranks), err)
        else:
            tap.ok(not r.returncode and outside(r.stderr),
                   "%s: ... but from outside, where somebody was not recorded (ranks %s of %d)" % (name, list(group), ranks), err)
    shutil.rmtree(copy)


def test_debugged(tap, name, trace, rank):
    """Breakpoints at a load of what peers write: gdb puts one there as well while its fault is handled."""
    dump = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), trace], stdout=subprocess.PIPE).stdout
    site = [r["by"] for r in map(json.loads, dump.splitlines()) if r.get("record") == "exposed" and r.get("by")][-1]
    r = subprocess.run([SREPLAY, "replay", "--gdb", str(rank), trace, "--", "-nx", "-batch", "-ex", "break *%s" % site,
                        "-ex", "ignore $bpnum 1000000", "-ex", "continue", "-ex", "info breakpoints"],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
    hits = re.search(rb"breakpoint already hit (\d+) times", r.stdout)
    tap.ok(hits and b"0 divergences: exact" in r.stderr, "%s: exact with a breakpoint at a load of exposed memory" % name,
           (r.stdout + r.stderr).decode(errors="replace"))


def recorded(tap, directory):
    recordings = sorted(glob.glob(os.path.join(directory, "*.json")))
    tap.ok(recordings, "there are recordings in %s" % directory)
    with tempfile.TemporaryDirectory() as work:
        for path in recordings:
            base = path[:-len(".json")]
            with open(path) as f:
                made = json.load(f)
            if not made["recorded"]:
                continue
            test_job(tap, made["program"], base + ".srec", made["group"], made["ranks"],
                     lambda rank: read("%s.recorded/%d.out" % (base, rank)), work)
            if made["program"] in FALSIFIED:
                test_falsified(tap, made["program"], base + ".srec", made["group"], made["ranks"], work)


def alone(tap):
    os.environ["LD_LIBRARY_PATH"] = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
    with tempfile.TemporaryDirectory() as work:
        os.environ["SREPLAY_SOCKET"] = os.path.join(work, "logd.sock")
        for name in ALONE:
            base = os.path.join(work, name)
            programs.run(programs.named([name])[0].small, 1, base + ".recorded", base + ".srec", [0])
            test_job(tap, name, base + ".srec", [0], 1, lambda rank: read("%s.recorded/%d.out" % (base, rank)), work)
            if name == "is":
                test_falsified(tap, name, base + ".srec", [0], 1, work)
                test_debugged(tap, name, base + ".srec", 0)


def main():
    tap = Tap()
    if sys.argv[1:] == ["alone"]:
        alone(tap)
    elif len(sys.argv) == 3 and sys.argv[1] == "replay":
        recorded(tap, sys.argv[2])
    else:
        sys.exit(__doc__)
    tap.finish()


if __name__ == "__main__":
    main()
