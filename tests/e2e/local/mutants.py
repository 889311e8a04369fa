#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay races` and `sreplay confirm` on programs from each of which one synchronisation was removed.

    mutants.py [all | search | NAME...]

Each mutant is a program of tests/programs/pgas, or the runtime below it, with an edit that removes one synchronisation.  It is compiled, recorded,
searched for races, and its race is confirmed.  Which two functions access the same memory without it, is known.  Measured: recall (mutants whose
race is found as an error or a warning), precision (errors and warnings that are such races, in mutants and in the programs as they are), and how
many are confirmed in at most 5 runs for each order.  search: nothing is confirmed.  Without arguments a few of them, and nothing is confirmed.
"""

import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, run, some
from mutants_table import MUTANTS

HERE = os.path.dirname(os.path.realpath(__file__))
TESTS = os.path.join(HERE, "..", "..")
SOFTDEV = os.path.join(TESTS, "..", "ci", "softdev")
PGASRUN = os.path.join(os.path.realpath(BUILD), "tests", "programs", "pgasrun")
LIBRARY = ["bootstrap.c", "connect.c", "transfer.c", "sync.c", "deque.c", "sha1.c"]
# Functions have their names in stacks.
FLAGS = ["-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-std=gnu17", "-D_GNU_SOURCE", "-I", os.path.join(TESTS, "lib"), "-I",
         os.path.join(TESTS, "lib", "pgas")]
SECONDS = 120
KEEP = os.environ.get("MUTANTS_KEEP") # a directory for those that are not found as they should be
# Not barrier-wait: its ranks do not wait for each other.  On a busy machine one is late by the others' whole run, and may have been told of it by
# the launcher, for all that is recorded: its race is only possible then.
FEW = ["laplace-wait", "steal-completion", "cg-quiet", "mcop-quiet", "gather-barrier", "ring-full"]
RECALL = PRECISION = 0.95
CONFIRMED = 0.9


def path_of(name):
    library = os.path.join(TESTS, "lib", "pgas", name)
    return library if os.path.exists(library) else os.path.join(TESTS, "programs", "pgas", name)


def sources_of(program):
    """By name: one file, or those of a folder."""
    folder = path_of(program)
    return [os.path.join(program, n) for n in sorted(os.listdir(folder)) if n.endswith(".c")] if os.path.isdir(folder) else [program + ".c"]


def edited(name, edits):
    with open(path_of(name), encoding="utf-8") as f:
        text = f.read()
    for old, new in edits:
        if text.count(old) != 1:
            raise SystemExit("%s has %d of: %s" % (name, text.count(old), old))
        text = text.replace(old, new)
    return text


def compile_mutant(directory, program, name, edits):
    """The program, and the runtime; the file of that name is edited."""
    source, out = os.path.join(directory, "edited-" + os.path.basename(name)), os.path.join(directory, program)
    with open(source, "w", encoding="utf-8") as f:
        f.write(edited(name, edits))
    sources = [source if n == name else path_of(n) for n in sources_of(program) + LIBRARY]
    status, _, err = run(["cc"] + FLAGS + ["-I", path_of(program), "-o", out] + sources + ["-libverbs", "-lm"], SECONDS)
    if status:
        raise SystemExit(err)
    return out


def job(directory, program, mutant, trace):
    group = ",".join(str(i) for i in range(mutant["ranks"]))
    return [PGASRUN, "-n", str(mutant["ranks"]), "-t", "30", "-o", os.path.join(directory, "out"), "-w", group,
            "%s record -q --clocks -o %s --rank %%r --group %s --" % (SREPLAY, trace, group), program] + mutant["run"].split()[1:]


def find(directory, program, mutant):
    """The trace, and its races; None if there is none."""
    trace = os.path.join(directory, "recorded.srec")
    shutil.rmtree(trace, ignore_errors=True)
    fresh(os.path.join(directory, "out"))
    status, _, err = run([SOFTDEV, "--"] + job(directory, program, mutant, trace), SECONDS)
    if status not in (0, 1):
        return trace, None, "recording: %s %s" % (status, err)
    status, out, err = run([SREPLAY, "races", "-q", "--json", trace], SECONDS)
    if status not in (0, 1):
        return trace, None, "%s %s" % (status, err)
    return trace, [json.loads(line) for line in out.decode().splitlines()][1:], err


def functions_of(access):
    """From the innermost one; main only if it is that."""
    names = [p.split(" (")[0] for p in [access["place"]] + access["frames"]]
    names = [n[len("post_send at "):] if n.startswith("post_send at ") else n for n in names]
    inner = [n for n in names if not n.startswith("pgas_") and n not in ("post", "post_put", "post_get", "post_send", "ibv_post_send", "read_element", "count", "see")]
    return {n for n in names if n != "main"} | ({"main"} if inner and inner[0] == "main" else set())


def is_one_of(race, pairs):
    a, b = (functions_of(x) for x in race["accesses"])
    for pair in pairs:
        first, second = set(pair[0].split("|")), set(pair[1].split("|"))
        if len(pair) > 2 and pair[2] != race["class"]:
            continue
        if (a & first and b & second) or (a & second and b & first):
            return True
    return False


def describe(race):
    return "%s %s %s: %s" % (race["severity"], race["class"], race["evidence"],
                             " / ".join("%s %s < %s" % (a["what"], a["place"], " < ".join(a["frames"])) for a in race["accesses"]))


def confirm(directory, program, mutant, trace, race):
    status, out, err = run([SOFTDEV, "--", SREPLAY, "confirm", "--json", "--live-files", "--tries", "5", "--race", str(race["id"]), trace, "--"] +
                           job(directory, program, mutant, trace), 4 * SECONDS)
    found = [json.loads(line) for line in out.decode().splitlines()] if status in (0, 1) else []
    if found and "confirmation" not in found[0]:
        return None, "such accesses are not held"
    return bool(found) and found[0]["confirmation"]["confirmed"], "%s %s" % (status, err[-300:])


def confirm_one(directory, program, mutant, trace, races):
    """The first one whose accesses can be held."""
    is_confirmed, why = None, ""
    for race in races:
        is_confirmed, why = confirm(directory, program, mutant, trace, race)
        if is_confirmed is not None:
            break
    return bool(is_confirmed), why


class Counts:
    def __init__(self):
        self.found = self.loud = self.true = self.confirmed = self.tried = self.false = 0


def try_mutant(tap, directory, name, confirms, counts):
    mutant = MUTANTS[name]
    directory = fresh(os.path.join(directory, name))
    program = compile_mutant(directory, mutant["run"].split()[0], mutant["file"], mutant["edits"])
    trace, races, err = find(directory, program, mutant)
    loud = [r for r in races or [] if r["severity"] != "note"]
    real = [r for r in loud if is_one_of(r, mutant["races"])]
    wanted = [r for r in real if is_one_of(r, mutant.get("must", mutant["races"]))]
    counts.loud, counts.true, counts.found = counts.loud + len(loud), counts.true + len(real), counts.found + bool(wanted)
    text = "%s: %d of %d races are the one" % (name, len(real), len(loud))
    if confirms and wanted:
        counts.tried += 1
        is_confirmed, why = confirm_one(directory, program, mutant, trace, wanted)
        counts.confirmed += is_confirmed
        text += ", confirmed" if is_confirmed else ", not confirmed"
        err += "" if is_confirmed else why
    for r in loud:
        if r not in real:
            print("# %s: not expected: %s" % (name, describe(r)))
    if not wanted:
        for r in races or []:
            print("# %s: %s %s" % (name, describe(r), r.get("doubts", "")))
    for line in err.splitlines():
        print("# %s: %s" % (name, line))
    is_right = bool(wanted) and len(real) == len(loud)
    if not KEEP or is_right:
        shutil.rmtree(directory, ignore_errors=True)
    return text, is_right


def as_they_are(tap, directory, counts):
    """The programs without an edit have no such race."""
    for words, ranks in sorted({(m["run"], m["ranks"]) for m in MUTANTS.values()}):
        place = fresh(os.path.join(directory, "whole"))
        program = compile_mutant(place, words.split()[0], sources_of(words.split()[0])[0], [])
        _, races, err = find(place, program, {"run": words, "ranks": ranks})
        known = [m["known"] for m in MUTANTS.values() if m["run"] == words and "known" in m]
        loud = [r for r in races or [] if r["severity"] != "note" and not (known and is_one_of(r, known[0]))]
        counts.loud += len(loud)
        tap.ok(races is not None and not loud, "%s, %d ranks, as it is" % (words, ranks), "\n".join([err] + [describe(r) for r in loud]))


def main():
    tap, counts = Tap(), Counts()
    whole = sys.argv[1:] in (["all"], ["search"])
    confirms = sys.argv[1:] and sys.argv[1:] != ["search"]
    names = list(MUTANTS) if whole else sys.argv[1:] or some(FEW, 3)
    with tempfile.TemporaryDirectory() as temporary:
        directory = os.path.realpath(KEEP or temporary)
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in names:
            text, is_right = try_mutant(tap, directory, name, confirms, counts)
            if whole:
                print("# " + text, flush=True)
            else:
                tap.ok(is_right, text)
        if whole:
            as_they_are(tap, directory, counts)
            tap.ok(len(names) >= 40 and counts.found >= RECALL * len(names), "recall: %d of %d mutants" % (counts.found, len(names)))
            tap.ok(counts.true >= PRECISION * counts.loud, "precision: %d of %d races" % (counts.true, counts.loud))
            tap.ok(counts.confirmed >= CONFIRMED * counts.tried, "confirmed: %d of %d" % (counts.confirmed, counts.tried))
    tap.finish()


if __name__ == "__main__":
    main()
