#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What peers write into memory that is read by plain loads, recorded and replayed exactly.

    exposed.py record OUTDIR [--runs N] [--seed N] [--load] [PATTERN...]   over rxe (under ci/rxe)
    exposed.py replay OUTDIR                                               on a machine that needs none
    exposed.py info OUTDIR                                                 what the exposed regions did, a line each
    exposed.py alone [--runs N]                                            both, with one rank, on the software verbs device

alone: the stand-in's device has a thread, which writes while the program polls without a call.

Patterns are those of tests/programs/patterns.c. Each rank is recorded, and replayed alone: it must print
the number that stands for all that it saw.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import programs
from harness import SREPLAY, Tap, fresh, kill_group, replay

FALSIFY = os.path.join(os.path.realpath(programs.BUILD), "tests", "lib", "falsify")

# pattern: (rounds, ranks)
PATTERNS = {
    "flag": (60, 2),
    "ring": (150, 2),
    "alarms": (6000, 2),
    "mailbox": (25, 3),
    "requests": (25, 3),
    "seqlock": (60, 2),
    "ticket": (60, 3),
    "steal": (60, 3),
    "order": (60, 2),
}


def record(tap, options):
    directory = fresh(options.directory)
    load = [subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) for _ in range(2)] \
        if options.load else []
    for run in range(options.runs):
        for name in options.pattern or PATTERNS:
            rounds, ranks = PATTERNS[name]
            base = os.path.join(directory, "%s-%d" % (name, run))
            job = programs.run(["patterns", name, str(rounds), str(options.seed + run) if options.seed else "0"], ranks,
                               base + ".recorded", base + ".srec", range(ranks), seconds=60)
            right = job.status == 0 and all(out.endswith(": right\n") for out in job.out)
            tap.ok(right, "%s, run %d: right with %d ranks recorded" % (name, run, ranks), job.detail())
            with open(base + ".json", "w") as f:
                json.dump({"pattern": name, "ranks": ranks, "recorded": right}, f)
    for process in load:
        kill_group(process)
        process.wait()


def recordings(directory):
    for path in sorted(glob.glob(os.path.join(directory, "*.json"))):
        with open(path) as f:
            yield path[:-len(".json")], json.load(f)


def replay_one(base, rank):
    """What is wrong with the replay of one rank, or None."""
    expected = programs.text("%s.recorded/%d.out" % (base, rank))
    status, out, err = replay(base + ".srec", rank)
    if out.decode(errors="replace") != expected or not re.search(r"0 divergences: exact$", err.strip(), re.M):
        return "rank %d: status %s, recorded\n%sreplayed\n%s%s" % (rank, status, expected, out.decode(errors="replace"), err)
    return None


def replay_all(tap, options):
    made = list(recordings(options.directory))
    tap.ok(made, "there are recordings in %s" % options.directory)
    for base, r in made:
        problems = [p for p in (replay_one(base, rank) for rank in range(r["ranks"])) if p]
        tap.ok(not problems, "%s: %d ranks replay exactly, each alone" % (os.path.basename(base), r["ranks"]),
               "\n".join(problems))


def info(tap, options):
    for base, r in recordings(options.directory):
        text = subprocess.run([SREPLAY, "info", base + ".srec"], capture_output=True, text=True).stdout
        for line in text.splitlines():
            if line.startswith(("rank", "  exposed")):
                print("# %s %s" % (os.path.basename(base), line))
    tap.ok(True, "said")


def alone(tap, options):
    """Each with another seed of the device's."""
    os.environ["LD_LIBRARY_PATH"] = os.path.join(os.path.realpath(programs.BUILD), "tests", "lib", "softdev")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in options.pattern or ("flag", "seqlock"):
            problems = []
            for run in range(options.runs):
                os.environ["SOFTDEV_THREAD"] = str(options.seed + run + 1)
                base = os.path.join(directory, "%s-%d" % (name, run))
                job = programs.run(["patterns", name, "300"], 1, base + ".recorded", base + ".srec", [0])
                if job.status != 0:
                    problems.append(job.detail())
                else:
                    problems.append(replay_one(base, 0))
            problems = [p for p in problems if p]
            tap.ok(not problems, "%s, a device that writes meanwhile: %d recordings, %d exact replays" % (
                name, options.runs, options.runs), "\n".join(problems))
        one_page(tap, directory, 4 * options.runs, options.seed)
        falsified(tap, directory)
        calls(tap, directory)


def one_page(tap, directory, runs, seed):
    """All that the threads of a program have is on two exposed pages."""
    problems = []
    base = os.path.join(directory, "page")
    for run in range(seed + 1, seed + runs + 1):
        shutil.rmtree(base + ".srec", ignore_errors=True)
        command = [os.path.join(programs.APPS, "exposed_page"), str(run), "60", str(2 + run % 3)]
        os.environ["SOFTDEV_THREAD"] = str(run)
        try:
            recorded = subprocess.run([SREPLAY, "record", "-o", base + ".srec", "--"] + command, capture_output=True, timeout=60)
        except subprocess.TimeoutExpired:
            problems.append("%s hangs" % " ".join(command))
            continue
        status, out, err = replay(base + ".srec", 0)
        if recorded.returncode or status or out != recorded.stdout or "exact" not in err:
            problems.append("%s: status %s recorded, %s replayed\n%s%s" % (
                " ".join(command), recorded.returncode, status, recorded.stderr.decode(), err))
    tap.ok(not problems, "threads that share their pages with exposed regions: %d recordings, %d exact replays" % (runs, runs),
           "\n".join(problems))


def falsified(tap, directory):
    """A bit of a value is another one: the program finds out, and the replay says so."""
    base = os.path.join(directory, "flag-0")
    dump = subprocess.run([SREPLAY, "dump", "--json", base + ".srec"], capture_output=True, text=True).stdout
    looks = [r for r in map(json.loads, dump.splitlines()) if r.get("record") == "exposed" and r["access"] > 1 and r["values"]]
    detected = []
    for look in looks[5:15]:
        copy = os.path.join(directory, "falsified.srec")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base + ".srec", copy)
        subprocess.run([FALSIFY, copy, "0", "0", str(look["sn"]), "exposed"], check=True)
        status, out, err = replay(copy, 0)
        detected.append(status == 124 and "exact" not in err)
    tap.ok(detected and all(detected), "one bit of one value flipped: noticed in %d of %d replays" % (sum(detected), len(detected)),
           err if detected else "no values in\n" + dump)


def calls(tap, directory):
    """Windows in the hands of the kernel, libc and a forked child."""
    command = [os.path.join(programs.APPS, "exposed_calls"), os.path.realpath(__file__)]
    trace = os.path.join(directory, "calls.srec")
    bare = subprocess.run(command, capture_output=True, text=True)
    recorded = subprocess.run([SREPLAY, "record", "-o", trace, "--"] + command, capture_output=True, text=True)
    status, out, err = replay(trace, 0)
    # What is of the day, or of chance.
    differs = ("of chance", "at ", "compared")
    plain = [[line for line in r.stdout.splitlines() if not line.startswith(differs)] for r in (bare, recorded)]
    tap.ok(bare.returncode == recorded.returncode == status == 0 and plain[0] == plain[1],
           "exposed regions given to the kernel, shared with others, forked, unmapped: as bare",
           "%s\n%s%s" % (plain, recorded.stderr, err))
    tap.ok(out.decode() == recorded.stdout and "exact" in err, "... and replayed", "%s\n%s%s" % (recorded.stdout, out, err))


def main():
    parser = argparse.ArgumentParser(description="memory that peers write, recorded and replayed")
    parser.add_argument("what", choices=("record", "replay", "info", "alone"))
    parser.add_argument("directory", nargs="?")
    parser.add_argument("pattern", nargs="*")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", action="store_true")
    options = parser.parse_intermixed_args()
    tap = Tap()
    {"record": record, "replay": replay_all, "info": info, "alone": alone}[options.what](tap, options)
    tap.finish()


if __name__ == "__main__":
    main()
