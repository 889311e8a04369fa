#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay record --check-buffers`: what a request sends is changed before it is over (tests/programs/verbs/altered.c)."""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, run
from races import PROGRAMS, SECONDS, SOFTDEV, find

UNSEEN = "change that was not seen itself"
# What changes the second WRITE's bytes, as a replay finds it; none: they do not change.
CASES = {"chain": "store", "builders": "store", "list": "store", "exposed": "store", "write": "WRITE", "same": "store", "inline": None, "completed": None,
         "atomics": None}


def record(directory, name, *options):
    trace = os.path.join(directory, name + "".join(options) + ".srec")
    status, _, err = run([SOFTDEV, "--", SREPLAY, "record", "-q", "--clocks", *options, "-o", trace, "--", os.path.join(PROGRAMS, "altered"), name], SECONDS)
    return trace, err if status else None


def notes_of_changes(trace):
    out = run([SREPLAY, "dump", "--json", trace], SECONDS)[1]
    return [n for n in map(json.loads, out.decode().splitlines()) if n.get("record") == "changed"]


def sides(races):
    return [sorted(a["what"] for a in r["accesses"]) for r in races or [] if r["class"] == "in-flight" and r["evidence"] == "observed"]


def altered(tap, directory, name):
    trace, failed = record(directory, name, "--check-buffers")
    changes = notes_of_changes(trace) if failed is None else None
    is_noted = CASES[name] and name != "same"
    tap.ok(changes is not None and [c["number"] for c in changes] == ([1] if is_noted else []), "%s: %s" % (name, "the second request is noted" if is_noted else "nothing is noted"),
           "%s %s" % (failed, changes))
    # The WRITE is in the recording.
    unseen = "WRITE" if name == "write" else UNSEEN if is_noted else None
    for local, by in (("recorded", unseen), ("replay", CASES[name])):
        loud, _, status = find(trace, "--local", local) if failed is None else (None, None, failed)
        expected = [sorted((by, "gather of a WRITE"))] if by else []
        found = sides(loud)
        tap.ok(loud is not None and found == expected, "%s, --local=%s: %s" % (name, local, by or "nothing"), "%s %s" % (status, loud))
    status, _, err = run([SREPLAY, "replay", "--quiet", trace], SECONDS)
    tap.ok(status == 0, name + ": the replay is exact", err)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        out = run([os.path.join(PROGRAMS, "altered")], SECONDS)[1]
        tap.ok(sorted(out.decode().split()) == sorted(CASES), "each case is expected", out)
        for name in sys.argv[1:] or CASES:
            altered(tap, directory, name)
        trace, failed = record(directory, "chain")
        tap.ok(failed is None and notes_of_changes(trace) == [] and sides(find(trace, "--local", "recorded")[0]) == [], "without the option nothing is noted", failed)
    tap.finish()


if __name__ == "__main__":
    main()
