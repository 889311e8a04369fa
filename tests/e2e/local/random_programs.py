#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Random small programs replay exactly, or the verdict says that they did not.

    random_programs.py [COUNT [FIRST_SEED [NAME,NAME...]]]

Each seed is a program (tests/programs/random_program): threads that share data under locks, files, signals, processes,
sockets. It is recorded once and replayed three times. Output, exit status and written files are compared. A replay that is
said to be exact and differs is a failure whatever the share of the others; at least 99 of 100 must be exact, and at most
one of a hundred or less may not be.
KEEP=DIR keeps the traces of the seeds that failed. JOBS=N runs so many at a time. CHILDREN=1 records the processes that
the programs fork, and replays each of them, once.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, read, run

PROGRAM = os.environ.get("RANDOM_PROGRAM", os.path.join(os.path.realpath(BUILD), "tests", "programs", "random_program"))
REPLAYS = 3
SECONDS = 60


def files_below(directory):
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, directory)] = read(path)
    return found


def difference(recorded, replayed):
    """'' or the first thing of (status, output, files) that differs."""
    if recorded[0] != replayed[0]:
        return "exit status %s, recorded %s" % (replayed[0], recorded[0])
    if recorded[1] != replayed[1]:
        return "output:\n%s\nrecorded:\n%s" % (replayed[1].decode()[-600:], recorded[1].decode()[-600:])
    for name in sorted(set(recorded[2]) | set(replayed[2])):
        if recorded[2].get(name) != replayed[2].get(name):
            return "file %s: %.200s, recorded %.200s" % (name, replayed[2].get(name), recorded[2].get(name))
    return ""


def replay_once(trace, work, recorded, out):
    """(kind, detail): kind is 'exact', 'reported' or 'lied'."""
    shutil.rmtree(out, ignore_errors=True)
    status, output, err = run([SREPLAY, "replay", "--timeout", "10", "-r", "0", "-o", out, trace], SECONDS)
    differs = difference(recorded, (status, output, files_below(out + work)))
    # Here all is compared, also what the verdict names as not compared (mapped files).
    if re.search(r"0 divergences: exact(, but not compared is .*)?\n", err):
        return ("lied", "%s\n%s" % (differs, err)) if differs else ("exact", "")
    return "reported", "status %s\n%s" % (status, err)


def children_of(directory, name="0"):
    """Of rank 0, whose directory this is: their names, as in 0/1/2."""
    for entry in sorted(os.listdir(directory)):
        child = re.match(r"child-(\d+)\.srec$", entry)
        if child:
            yield "%s/%s" % (name, child.group(1))
            yield from children_of(os.path.join(directory, entry, "rank-0"), "%s/%s" % (name, child.group(1)))


def replay_children(trace):
    """What each child printed is not known: its writes are compared."""
    for child in children_of(os.path.join(trace, "rank-0")):
        status, _, err = run([SREPLAY, "replay", "--timeout", "10", "-r", child, trace], SECONDS)
        if "sreplay: rank %s: " % child not in err or " 0 divergences: exact" not in err:
            return "reported", "%s: status %s\n%s" % (child, status, err)
    return "exact", ""


def try_seed(seed, names, directory):
    """(kind of the worst replay, detail) of one recording and its replays."""
    base = os.path.join(directory, "seed-%d" % seed)
    work, trace = os.path.join(base, "work"), os.path.join(base, "trace.srec")
    os.makedirs(work)
    arguments = [PROGRAM, str(seed)] + (["0", "0", names] if names else [])
    # Children of threads that run in parallel are not recorded.
    options = ["--children=on", "--threads=serial"] if os.environ.get("CHILDREN") else []
    status, output, err = run([SREPLAY, "record", "--from-start"] + options + ["-o", trace, "--"] + arguments, SECONDS, cwd=work)
    # It waits, and loses nothing.
    said = [line for line in err.splitlines() if not re.match(r"sreplay: (waiting|rank \d+ waits) for ", line)]
    if not isinstance(status, int) or status < 0 or status > 63:
        result = "recording", "status %s\n%s" % (status, err)
    elif said:
        result = "reported", "by the recording, status %s\n%s" % (status, err)
    else:
        recorded = (status, output, files_below(work))
        result = "exact", ""
        for n in range(REPLAYS):
            result = replay_once(trace, work, recorded, os.path.join(base, "out"))
            if result[0] != "exact":
                break
        if options and result[0] == "exact":
            result = replay_children(trace)
    keep = os.environ.get("KEEP")
    if keep and result[0] != "exact":
        shutil.copytree(base, os.path.join(keep, "seed-%d" % seed), dirs_exist_ok=True)
    shutil.rmtree(base, ignore_errors=True)
    return result


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    names = sys.argv[3] if len(sys.argv) > 3 else ""
    tap, kinds = Tap(), {}
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
            seeds = range(first, first + count)
            for seed, (kind, detail) in zip(seeds, pool.map(lambda s: try_seed(s, names, directory), seeds)):
                kinds.setdefault(kind, []).append(seed)
                if kind != "exact":
                    print("# seed %d: %s: %s" % (seed, kind, "\n# ".join(detail.splitlines()[:16])), flush=True)
    exact = len(kinds.pop("exact", []))
    tap.ok("recording" not in kinds, "%d random programs from seed %d run as without sreplay" % (count, first), kinds)
    tap.ok("lied" not in kinds, "no replay that differs is called exact", kinds)
    tap.ok(count - exact <= max(count // 100, 1), "%d of them are exact in %d replays" % (exact, REPLAYS), kinds)
    tap.finish()


if __name__ == "__main__":
    main()
