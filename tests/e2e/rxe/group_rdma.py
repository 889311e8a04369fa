#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Both sides of what record_pingpong.py recorded, replayed at once, on this machine (which needs no RDMA).

    group_rdma.py OUTDIR

What one side sends is what the other receives; the report is the same each time; a value that was falsified
in the trace is found.
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
from harness import BUILD, SREPLAY, Tap, fresh, read

FALSIFY = os.path.join(os.path.realpath(BUILD), "tests", "lib", "falsify")
SECONDS = 60


def replay(trace, output, *arguments):
    return subprocess.run([SREPLAY, "replay", "-o", fresh(output), *arguments, trace], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS, text=True)


def recorded_output(trace, rank):
    return read("%s.%d.out" % (trace[:-len(".srec")], rank))


def found(trace, rank):
    path = os.path.join(trace, "plan", "rank-%d" % rank, "found")
    return read(path) if os.path.exists(path) else b""


def entered(err, rank):
    """Bytes from the group and from outside, as the verdict has them."""
    match = re.search(r"rank %d: (\d+) bytes entered from the group, (\d+) from outside" % rank, err)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def length(segment):
    data = segment["data"]
    return len(data["hex"]) // 2 if isinstance(data, dict) else len(data)


def proven(call):
    """What its completions say to have come: behind an empty segment is what may have come."""
    return list(itertools.takewhile(length, call.get("out", {}).get("arrived") or []))


def received(trace, rank):
    """All that the recording says to have been received."""
    dump = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), trace], stdout=subprocess.PIPE).stdout
    return [c for c in map(json.loads, dump.splitlines()) if proven(c)]


def difference(trace, output, *arguments):
    """'' or what is not as recorded."""
    r = replay(trace, output, *arguments)
    if r.returncode or "all 2 ranks ended as recorded" not in r.stderr:
        return r, "status %d\n%s" % (r.returncode, r.stderr)
    for rank in (0, 1):
        if read(os.path.join(output, "rank-%d.out" % rank)) != recorded_output(trace, rank):
            return r, "rank %d printed something else" % rank
    return r, ""


def test_exact(tap, trace, directory):
    name = os.path.basename(trace)
    output = os.path.join(directory, "output")
    wrong, reports = "", set()
    total = {rank: sum(length(s) for c in received(trace, rank) for s in proven(c)) for rank in (0, 1)}
    for _ in range(2):
        r, problem = difference(trace, output)
        wrong = wrong or problem
        reports.add((found(trace, 0), found(trace, 1)))
        expected = {rank: (total[rank], 0) for rank in (0, 1)}
        got = {rank: entered(r.stderr, rank) for rank in (0, 1)}
        if got != expected:
            wrong = wrong or "%s bytes were found, of %s\n%s" % (got, expected, r.stderr)
    tap.ok(not wrong, "%s: both sides over shared memory, twice: exact, and each byte has its sender" % name, wrong)
    tap.ok(len(reports) == 1, "%s: the same report each time" % name)
    _, problem = difference(trace, output, "--transport", "none")
    tap.ok(not problem, "%s: each side from its trace only: exact" % name, problem)


def test_falsified(tap, trace, directory):
    copy = os.path.join(directory, "falsified.srec")
    output = os.path.join(directory, "output")
    shutil.copytree(trace, copy)
    call = received(copy, 1)[-1]  # what is received before is sent again
    subprocess.run([FALSIFY, copy, "1", str(call["thread"]), str(call["sn"])], check=True)
    verify = subprocess.run([SREPLAY, "verify", copy], stdout=subprocess.DEVNULL)
    tap.ok(not verify.returncode, "a falsified trace is whole, as far as checksums tell")
    # The machine of ci/rxe may have a kernel without the sandbox for copies.
    r = replay(copy, output, "--no-sandbox")
    place = r"rank 1 thread 0 SN %d: the \d+ bytes received at 0x\w+ are not those that rank 0 sends" % call["sn"]
    tap.ok(r.returncode == 124 and re.search(place, r.stderr), "a falsified value is found: where, and whose it should be",
           r.stderr)
    r = replay(copy, output, "--no-sandbox", "--transport", "none")
    tap.ok(not r.returncode, "... but not without the other side", r.stderr)


def main():
    tap = Tap()
    families = {}
    for trace in sorted(glob.glob(os.path.join(sys.argv[1], "*.srec"))):
        if not os.path.basename(trace).startswith("killed"):
            families.setdefault(re.sub(r"(-\d+)?\.srec$", "", os.path.basename(trace)), trace)
    tap.ok(families, "there are recordings in %s" % sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        for trace in families.values():
            test_exact(tap, trace, directory)
        test_falsified(tap, families.get("rc-poll", next(iter(families.values()))), directory)
    tap.finish()


if __name__ == "__main__":
    main()
