#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Races of what the ranks have forked, on the software device: what orders the accesses of children, and what may.

    races_children.py [FUNCTION...]
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from group_children import PROGRAM, SECONDS, record_all, replay
from harness import SREPLAY, free_port, run, run_functions, until_listens

WRITERS = os.path.join(os.path.dirname(PROGRAM), "forked_writers")

# Of forked_writers: the target, the other ranks, and the races of the target's memory.
CASES = (
    ("children that nothing orders", "target {0} 2", ("racing {0}",), ["observed"]),
    ("a child and another rank", "target {0} 2", ("write {0}", "forks {0}"), ["observed"]),
    ("the first has ended before the second is forked", "target {0} 2", ("ordered {0}",), []),
    ("a child, and its parent behind the wait", "target {0} 2", ("waits {0}",), []),
    ("... that has not waited, but seen that it has ended", "target {0} 2", ("sees {0}",), ["possible"]),
    ("what the parent was told before the fork", "relay {0}", ("tell {0} {0}", "fork_late {0}"), []),
    ("what came through memory that a child wrote", "target {0} 2", ("tell {0} {1}", "between {1} {2}", "flagged {0} {2}"), []),
    ("children that share memory", "target {0} 2", ("sharing {0}",), ["possible"]),
    ("ordinary ranks race beside a child", "target {0} 3", ("write {0}", "write {0}", "beside {0}"), ["observed"]),
    ("a child tells by a socket that it has inherited", "relay {0}", ("child_tells {0} {0}", "fork_late {0}"), ["possible"]),
)


THROUGH, SHARING, BESIDE = 6, 7, 8
REASONS = {
    "... that has not waited, but seen that it has ended": "a child has ended, and no wait says when its parent knew that: it may order them",
    "a child tells by a socket that it has inherited": "something outside of the recorded ranks may order them",
    "children that share memory": "the ranks may order them by memory that they share",
}


def find_races(place, name, target, others, *options, key=None):
    """Of one case: the races in the target's memory, and what is said."""
    trace, ports = os.path.join(place, name.replace(" ", "-") + ".srec"), [free_port() for _ in range(3)]
    _, said, err = record_all(trace, ["%s %s" % (WRITERS, c.format(*ports)) for c in (target, *others)], "--clocks",
                              *(["--key", key] if key else []), wait=until_listens(ports[0]))
    status, out, text = run([SREPLAY, "races", "-q", "--notes", "--json", *options, trace], SECONDS)
    found = [json.loads(line) for line in out.decode().splitlines()[1:]]
    return trace, [r for r in found if r["memory"]["rank"] == 0], "%s %s %s %s %s" % (status, said, err, text, out)


def races(tap, place):
    """Fork and wait order what children do."""
    for name, target, others, wanted in CASES:
        trace, found, how = find_races(place, name, target, others)
        tap.ok([r["evidence"] for r in found] == wanted, "races: " + name, how)
        for r in found:
            tap.ok(r["reasons"] == [REASONS.get(name)] * (r["evidence"] == "possible"), "... the doubt has its reason", r["reasons"])
            tap.ok(not r["entered"] or not r["entered"]["missing_ranks"], "... a child's number is none of a rank that is missing", r["entered"])
        if "between" in "".join(others):
            status, _, err = replay(trace)
            tap.ok(status == 0, "... and the replay of all is exact", err)
    _, found, how = find_races(place, *CASES[SHARING][:3], "--shared-memory=seen")
    tap.ok([r["evidence"] for r in found] == ["observed"], "nothing was found in that memory", how)
    trace, found, how = find_races(place, *CASES[0][:3])
    tap.ok([sorted((a["rank"], a.get("child")) for a in r["accesses"]) for r in found] == [[(1, "1"), (1, "2")]], "children are named", how)
    for command in (["replay"], ["confirm"]):
        status, _, text = run([SREPLAY] + command + ["--race", "1", trace] + ["--", "true"] * (command == ["confirm"]), SECONDS)
        tap.ok(status == 125 and re.search("process 1/[12]", text), "... %s refuses" % command[0], text)


def doubles(tap, place):
    """A daemon that was replaced may give a number twice: then neither has a clock."""
    trace, found, how = find_races(place, *CASES[0][:3])
    tap.ok([r["evidence"] for r in found] == ["observed"], "children with numbers of their own", how)
    path = os.path.join(trace, "rank-1", "child-%d.srec", "rank-1", "process.json")
    processes = [json.load(open(path % k)) for k in (1, 2)]
    tap.ok([p["extra"]["member"] for p in processes] in ([62, 63], [63, 62]), "... from the last one down", [p["extra"]["member"] for p in processes])
    processes[1]["extra"]["member"] = processes[0]["extra"]["member"]
    with open(path % 2, "w") as f:
        json.dump(processes[1], f)
    status, out, text = run([SREPLAY, "races", "-q", "--json", trace], SECONDS)
    tap.ok([json.loads(line)["evidence"] for line in out.decode().splitlines()[1:]] == ["predicted"], "one number twice", text)


def unclocked(tap, place):
    """In a job with a key children have no clocks: what they may have ordered is in doubt, and nothing else."""
    key = os.path.join(place, "key")
    _, found, how = find_races(place, *CASES[THROUGH][:3], key=key)
    # Where log processing comes to the child first, it knows who wrote the flag.
    tap.ok(all(r["reasons"] == ["a forked process without a clock may order them by what it read or wrote"] for r in found),
           "no clock: what came through memory that a child wrote", how)
    for case, wanted in ((0, "predicted"), (BESIDE, "observed")):
        name, target, others, _ = CASES[case]
        _, found, how = find_races(place, name, target, others, key=key)
        tap.ok([r["evidence"] for r in found] == [wanted], "no clock: " + name, how)


if __name__ == "__main__":
    run_functions([races, doubles, unclocked])
