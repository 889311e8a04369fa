#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay suggest`: the group that it names, recorded again by itself, explains the share that it promised.

    suggest.py [promise] [table] [messages] [call] [refused]
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from export import PINGPONG, PROGRAMS, SOFTDEV
from harness import SREPLAY, fresh, run, run_functions

SECONDS = 90
RANKS = 16
RANK = 3


def record(directory, name, program, group, ranks=RANKS):
    trace, out = os.path.join(directory, name + ".srec"), fresh(os.path.join(directory, name))
    command = [os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", str(SECONDS), "-o", out, "-w", group,
               "%s record --clocks -o %s --rank %%r --group %s --" % (SREPLAY, trace, group), os.path.join(PROGRAMS, program)]
    status, _, err = run([SOFTDEV, "--"] + command, SECONDS)
    return trace, "" if status == 0 else err


def ask(trace, *arguments):
    status, out, err = run([SREPLAY, "suggest", "--json", trace] + list(arguments), SECONDS)
    return json.loads(out) if status == 0 else {"error": err}


def table(tap, directory):
    """A hash table: half of what enters are WRITEs to counters and keys, of which many bytes stay what they were."""
    ranks = 8
    trace, err = record(directory, "dht", "dht", ",".join(map(str, range(ranks))), ranks)
    told = ask(trace, "--share", "50", str(RANK))
    group = told["groups"][0] if "groups" in told else {"group": [], "inside": 0, "entered": 1}
    share = group["inside"] / group["entered"]
    tap.ok(not err and 1 < len(group["group"]) < ranks, "dht on %d ranks: a group is named" % ranks, (err, told))
    again, err = record(directory, "again", "dht", ",".join(map(str, group["group"])), ranks)
    status, _, err2 = run([SREPLAY, "replay", again], SECONDS)
    told = ask(again, str(RANK))
    inside = sum(p["bytes"] for p in told.get("producers", ()))
    got = inside / max(1, inside + told.get("not_recorded", 0))
    tap.ok(status == 0 and told["replayed"] and abs(got - share) < 0.05, "dht: the share that was promised", (err, err2, share, got))


def promise(tap, directory):
    """Conjugate gradients: whom a rank hears of does not depend on who is faster."""
    everyone = ",".join(map(str, range(RANKS)))
    trace, err = record(directory, "cg", "cg", everyone)
    told = ask(trace, "--share", "50", str(RANK))
    if not tap.ok(not err and "groups" in told, "cg on 16 ranks: a group is named from the trace alone", err or told):
        return
    group = told["groups"][0]
    share = group["inside"] / group["entered"]
    tap.ok(0.5 <= share < 1 and RANK in group["group"] and 1 < len(group["group"]) < RANKS, "it is smaller than the job", group)
    run([SREPLAY, "replay", trace], SECONDS)
    told = ask(trace, "--share", "50", str(RANK))
    exact = told["groups"][0]
    tap.ok(told["replayed"] and abs(exact["inside"] / exact["entered"] - share) < 0.05, "a replay of all says nearly the same", told)
    again, err = record(directory, "again", "cg", ",".join(map(str, group["group"])))
    status, _, err2 = run([SREPLAY, "replay", again], SECONDS)
    told = ask(again, str(RANK))
    inside = sum(p["bytes"] for p in told.get("producers", ()))
    got = inside / max(1, inside + told.get("not_recorded", 0))
    tap.ok(status == 0 and told["replayed"] and abs(got - share) < 0.05, "recorded by itself, the group explains the share promised",
           (err, err2, share, got, told))
    _, out, _ = run([SREPLAY, "suggest", "--share", "50", trace, str(RANK)], SECONDS)
    command = re.search(r"sreplay record --clocks --group=([\d,-]+) -o NEW.srec -- (\S+)", out.decode())
    tap.ok(command and command.group(2).endswith("/cg"), "the next command is told", out.decode())
    _, out, _ = run([SREPLAY, "suggest", trace], SECONDS)
    tap.ok(len(re.findall(r"^rank \d+: \d+ bytes entered", out.decode(), re.M)) == RANKS and
           re.search(r"99 %: 16 ranks: 0-15 \(100\.0 %\)", out.decode()), "without a rank all are told", out.decode())


def messages(tap, directory):
    trace = os.path.join(directory, "pingpong.srec")
    run([SOFTDEV, "--", "sh", "-c", PINGPONG, "sh", trace, SREPLAY, "record"], SECONDS)
    told = ask(trace, "--share", "100", "0")
    tap.ok(told.get("producers") == [{"rank": 1, "bytes": 20 * 4096}] and told["groups"][0]["group"] == [0, 1],
           "messages come from their senders, also without clocks", told)


def call(tap, directory):
    trace, _ = record(directory, "cg", "cg", ",".join(map(str, range(RANKS))))
    _, out, _ = run([SREPLAY, "dump", "--addresses", "--json", "--rank", "2", trace], SECONDS)
    sn = next(r["sn"] for r in map(json.loads, out.splitlines()) if (r.get("out") or {}).get("arrived"))
    told = ask(trace, "2:%d" % sn)
    _, out, _ = run([SREPLAY, "explain", trace, "2:%d" % sn], SECONDS)
    owner = re.search(r"of rank (\d+)\n", out.decode())
    tap.ok(owner and int(owner.group(1)) in told["groups"][-1]["group"] and 2 in told["groups"][-1]["group"],
           "a call's group has the rank that it was fetched from", (told, out.decode()))


def refused(tap, directory):
    trace = os.path.join(directory, "true.srec")
    run([SREPLAY, "record", "--from-start", "-o", trace, "--", "true"], SECONDS)
    for arguments, text in ((["7"], "no rank 7"), (["x"], "expected RANK"), (["--share", "101"], "expected a percentage"),
                            (["0:1"], "no value from the network")):
        status, _, err = run([SREPLAY, "suggest"] + arguments[:-1] + [trace, arguments[-1]] if arguments[0] != "--share"
                             else [SREPLAY, "suggest"] + arguments + [trace], SECONDS)
        tap.ok(status == 125 and text in err, "refused: " + " ".join(arguments), err)
    status, out, err = run([SREPLAY, "suggest", trace], SECONDS)
    tap.ok(status == 0 and "no group" in out.decode(), "where nothing entered no group is named", out.decode() + err)


if __name__ == "__main__":
    run_functions([promise, table, messages, call, refused])
