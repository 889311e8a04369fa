#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The case study of the manual (docs/user/case-study.md): work stealing whose two writes race on two queue pairs.

    case_study.py record OUTDIR     over rxe (run it under ci/rxe): until the thief gets it wrong
    case_study.py replay OUTDIR     on a machine that needs none: wrong again, and the two lines that are why
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import programs
from harness import SREPLAY, Tap, fresh, read

ATTEMPTS = 10
ROUNDS = "3"
SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "programs", "pgas", "steal.c")


def line_of(code):
    """The number of the source line that has this."""
    with open(SOURCE) as f:
        return next(n for n, line in enumerate(f, 1) if code in line)


FIRST_WRITE = line_of("ibv_post_send(first,")
SECOND_WRITE = line_of("ibv_post_send(racing ? second : first,")
SEES_BEGIN = line_of("__atomic_load_n(&loot->begin")
SEES_AMOUNT = line_of("__atomic_load_n(&loot->amount")


def record_once(mode, directory):
    base = os.path.join(directory, mode)
    for path in (base, base + ".srec"):
        shutil.rmtree(path, ignore_errors=True)
    return programs.run(["steal", mode, ROUNDS], 2, base, base + ".srec", [0, 1], clocks=True)


def record(tap, directory):
    fresh(directory)
    for attempt in range(1, ATTEMPTS + 1):
        job = record_once("racing", directory)
        if job.status != 0:
            break
    tap.ok(job.status == 1 and ": wrong" in job.out[1], "racing: the thief is wrong, at attempt %d" % attempt, job.detail())
    job = record_once("fenced", directory)
    tap.ok(job.status == 0 and ": right" in job.out[1], "fenced: it is right", job.detail())


def replay(tap, directory, mode):
    trace = os.path.join(directory, mode + ".srec")
    output = os.path.join(directory, mode + ".replayed")
    r = subprocess.run([SREPLAY, "replay", "--transport", "shm", "-o", fresh(output), trace], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True)
    same = all(read("%s/rank-%d.out" % (output, rank)) == read("%s/%s/%d.out" % (directory, mode, rank)) for rank in (0, 1))
    tap.ok("all 2 ranks ended as recorded" in r.stderr and same, "%s: replayed as it was" % mode, r.stderr)
    tap.ok(len(re.findall(r"entered from the group, 0 from outside", r.stderr)) == 2,
           "%s: nothing came from outside" % mode, r.stderr)
    return trace


def receives(trace):
    """The SNs of the thief's calls behind which it waits for an answer."""
    out = subprocess.run([SREPLAY, "dump", "--rank", "1", trace], capture_output=True, text=True).stdout
    return re.findall(r"^ *(\d+)  post_recv", out, re.M)


def explained(trace, sn):
    """Line that loaded -> lines whose writes it saw there for the first time."""
    out = subprocess.run([SREPLAY, "explain", trace, "1:" + sn], capture_output=True, text=True).stdout
    seen, loaded = {}, None
    for line in out.splitlines():
        load = re.search(r"loaded after it .* at main \(steal.c:(\d+)\)", line)
        loaded = int(load[1]) if load else loaded
        written = re.search(r"written by rank 0 at SN \d+, post_send at \w+ \(steal.c:(\d+)\)$", line)
        if written:
            seen.setdefault(loaded, set()).add(int(written[1]))
    return seen, out


def explain(tap, trace, mode):
    """In each answer the load of `begin` sees the second write; does the one of `amount` see the first?"""
    answers = [explained(trace, sn) for sn in receives(trace)]
    texts = "\n".join(text for _, text in answers)
    tap.ok(len(answers) == int(ROUNDS) and all(seen.get(SEES_BEGIN) == {SECOND_WRITE} for seen, _ in answers),
           "%s: where the work begins was written at steal.c:%d" % (mode, SECOND_WRITE), texts)
    early = [seen for seen, _ in answers if seen.get(SEES_AMOUNT) != {FIRST_WRITE}]
    if mode == "fenced":
        tap.ok(not early, "fenced: steal.c:%d sees the amount, written at steal.c:%d" % (SEES_AMOUNT, FIRST_WRITE), texts)
    else:
        tap.ok(early, "racing: steal.c:%d does not see what was written at steal.c:%d before" % (SEES_AMOUNT, FIRST_WRITE),
               texts)


def main():
    tap = Tap()
    what, directory = sys.argv[1:]
    if what == "record":
        record(tap, directory)
    else:
        for mode in ("racing", "fenced"):
            explain(tap, replay(tap, directory, mode), mode)
    tap.finish()


if __name__ == "__main__":
    main()
