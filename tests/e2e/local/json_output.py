#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `--json` prints of a trace: it says what the text says, and docs/user/json.md has each of its keys.

    json_output.py [reports] [explained] [entered] [replayed] [diverged] [damaged]
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from export import PROGRAMS, SOFTDEV
from harness import SREPLAY, fresh, read, run, run_functions

SECONDS = 90
RANKS = 3
PAGE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "docs", "user", "json.md")


def sreplay(*arguments):
    status, out, err = run([SREPLAY] + list(arguments), SECONDS)
    return status, out.decode(errors="replace"), err


def objects(*arguments):
    status, out, err = sreplay(*arguments)
    return [json.loads(line) for line in out.splitlines()] if out.isascii() else ["%s %s" % (status, err)]


def section(name):
    text = read(PAGE).decode()
    return re.search(r"^## [^\n]*`%s`[^\n]*\n(.*?)(?=^## |\Z)" % name, text, re.S | re.M).group(1)


def keys_of(value, path=""):
    """All keys in it, but for those of objects whose keys are names."""
    if isinstance(value, dict) and path not in ("calls_by_name",):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, path)


def undocumented(name, values):
    words = set(re.findall(r"\w+", section(name)))
    words |= {"%s_bytes" % k for k in ("send", "write", "read", "atomic")} if name == "graph" else set()
    return sorted({k for k in keys_of(values)} - words)


def recorded(directory):
    trace, out = os.path.join(directory, "dht.srec"), fresh(os.path.join(directory, "out"))
    everyone = ",".join(map(str, range(RANKS)))
    command = [os.path.join(PROGRAMS, "pgasrun"), "-n", str(RANKS), "-t", str(SECONDS), "-o", out, "-w", everyone,
               "%s record --clocks -o %s --rank %%r --group %s --" % (SREPLAY, trace, everyone), os.path.join(PROGRAMS, "dht")]
    status, _, err = run([SOFTDEV, "--"] + command, SECONDS)
    return trace, "" if status == 0 else err


def numbers(text, pattern):
    return [tuple(map(int, found)) if isinstance(found, tuple) else int(found) for found in re.findall(pattern, text, re.M)]


def reports(tap, directory):
    trace, err = recorded(directory)
    got, text = objects("info", "--order", "--json", trace), sreplay("info", trace)[1]
    tap.ok(not err and got[0]["ranks"] == RANKS and len(got) == RANKS + 1, "info: a line for the trace and one for each rank", (err, got))
    tap.ok([(r["threads"], r["calls"], r["records"], r["bytes"], r["bytes_on_disk"]) for r in got[1:]] ==
           numbers(text, r"^  (\d+) threads?, (\d+) calls in (\d+) records, (\d+) bytes \((\d+) on disk\)"), "... with the text's counts", text)
    calls = {name: int(n) for n, name in re.findall(r"^  +(\d+)  (\w+)$", text.split("rank 1")[0], re.M)}
    tap.ok(got[1]["calls_by_name"] == calls and sum(calls.values()) == got[1]["calls"], "... and its calls by name", (got[1], calls))
    shares = [(name, int(b), int(r)) for b, r, name in re.findall(r" %  (\d+) bytes in (\d+) records (?:of )?(\w+)$", text.split("rank 1")[0], re.M)]
    classes = [(c["class"], c["bytes"], c["records"]) for c in got[1]["bytes_by_class"]]
    tap.ok(shares and shares == classes[:len(shares)] and sum(c[2] for c in classes) == got[1]["records"] and
           sum(c[1] for c in classes) == got[1]["bytes"], "... and the bytes of each kind of record, which are all", (shares, classes))
    tap.ok([r["status"] for r in got[1:]] == [0] * RANKS and "%d faults" % got[1]["exposed"]["counters"]["faults"] in text, "... ends and exposed memory", got[1])
    tap.ok(not undocumented("info", got), "its keys are documented", undocumented("info", got))

    got, text = objects("verify", "--json", trace), sreplay("verify", trace)[1]
    tap.ok([(s["rank"], s["thread"], s["frames"], s["records"], s["calls"], s["bytes"], s["bytes_on_disk"]) for s in got] ==
           numbers(text, r"^rank (\d+) thread (\d+): whole, (\d+) frames, (\d+) records, (\d+) calls, (\d+) bytes \((\d+) on disk\)")
           and len(got) == RANKS and not undocumented("verify", got), "verify: as the text", (got, text))

    (got,), text = objects("orders", "--json", trace), sreplay("orders", trace)[1]
    tap.ok([(p["before"], p["after"], p["by_posts"] + p["by_cpu"], p["by_posts"], p["by_cpu"], p["exact"], p["up_to_event"]) for p in got["pairs"]] ==
           numbers(text, r"^rank (\d+) before rank (\d+): (\d+) orders \((\d+) by posts, (\d+) by its CPU; (\d+) exact, .* event (\d+)$")
           and len(got["pairs"]) == RANKS * (RANKS - 1) and got["consistent"], "orders: as the text", (got, text))
    tap.ok([(r["rank"], r["events"], r["orders"]) for r in got["ranks"]] == numbers(text, r"^rank (\d+): (\d+) events, (\d+) orders found")
           and not undocumented("orders", got), "... of each rank", got["ranks"])

    (got,), text = objects("process", "--quiet", "--json", trace), sreplay("process", trace)[1]
    tap.ok([(got["records"], got["values"], got["value_bytes"], got["orders"], got["messages"])] ==
           numbers(text, r": (\d+) records, (\d+) values \((\d+) bytes\), (\d+) orders, (\d+) messages") and not undocumented("process", got),
           "process: as the text", (got, text))
    sreplay("replay", trace)
    (got,), text = objects("graph", "--json", trace), sreplay("graph", trace)[1]
    produced = numbers(text, r"produced (\d+) values \((\d+) bytes\)")
    tap.ok(got["replayed"] and [(e["values"], e["value_bytes"]) for e in got["edges"] if e["values"]] == produced and produced,
           "graph: values as in the text", (got, text))
    written = numbers(text, r"^rank (\d+) to rank (\d+): .*?(\d+) writes? \((\d+) bytes\)")
    tap.ok([(e["from"], e["to"], e["writes"], e["write_bytes"]) for e in got["edges"] if e["writes"] and e["to"] is not None] == written
           and written and not undocumented("graph", got), "... and requests", (got, written))
    tap.ok(objects("graph", "--format", "json", trace) == [got], "--format json is the same")
    made = os.path.join(directory, "g.json")
    status = sreplay("graph", "-o", made, trace)[0]
    tap.ok(status == 0 and json.loads(read(made)) == got, "... and so is -o FILE.json")

    got, text = objects("ps", "--json", trace), sreplay("ps", trace)[1]
    tap.ok([(p["rank"], p["pid"], p["threads"], p["status"]) for p in got] == numbers(text, r"^ +(\d+) +(\d+) \S+ +(\d+) +(\d+)  ")
           and not undocumented("ps", got), "ps: as the text", (got, text))
    (got,) = objects("collect", "--json", "-o", os.path.join(directory, "all.srec"), trace)
    tap.ok(got["ranks"] == RANKS and not undocumented("collect", got), "collect says what it took", got)
    (got,) = objects("pack", "--json", os.path.join(directory, "all.srec"))
    tap.ok(got["files"] >= 1 and got["bytes"] > 0 and not undocumented("pack", got), "pack says what it packed", got)
    (got,) = objects("suggest", "--json", trace, "1")
    tap.ok(not undocumented("suggest", got), "the keys of suggest are documented", undocumented("suggest", got))


def calls_with_values(trace, rank):
    """SNs of calls that bring values: completions, and those before loads of exposed memory."""
    for record in objects("dump", "--json", "--rank", str(rank), trace):
        if (record.get("record") == "exposed" and record["values"]) or (record.get("call") == "poll_cq" and record.get("result")):
            yield record["sn"]


def explained(tap, directory):
    trace, err = recorded(directory)
    sreplay("replay", trace)
    sns = sorted(set(calls_with_values(trace, 0)))
    some, vias, bad = sns[:: max(1, len(sns) // 12)][:14], set(), []
    for sn in some:
        (got,), text = objects("explain", "--json", trace, "0:%d" % sn), sreplay("explain", trace, "0:%d" % sn)[1]
        said = re.findall(r"^  (\d+) bytes? at (0x[0-9a-f]+).*: ([0-9a-f]+)", text, re.M)
        vias |= {v["via"] for v in got["values"]}
        if [(str(v["bytes"]), v["address"], v["data"][:64]) for v in got["values"]] != said:
            bad.append((sn, got, text))
        found = re.findall(r"^    (\d+) bytes at (0x[0-9a-f]+): ", text, re.M)
        if [(str(f["bytes"]), f["address"]) for v in got["values"] for f in v["found"]] != found:
            bad.append((sn, "found", got, text))
        producers = [int(r) for r in re.findall(r"(?:written by|stored by the CPU of) rank (\d+)", text)]
        if not any("by its checksum" in line for line in text.splitlines()) and \
                [f["producer"]["rank"] for v in got["values"] for f in v["found"] if f["producer"]] != producers:
            bad.append((sn, "producers", got, text))
        bad += [(sn, "not documented", k) for k in undocumented("explain", got)]
    tap.ok(not err and len(some) > 5 and not bad, "explain: values, pieces and producers as in the text", (err, some, bad[:1]))
    tap.ok({"fetch", "exposed memory"} <= vias, "... fetched ones, and of exposed memory", vias)
    status, out, err = sreplay("explain", "--json", trace, "0:999999")
    tap.ok(status == 125 and not out and "no record" in err, "what is not there is an error, and no object", (status, out, err))


def entered(tap, directory):
    trace = os.path.join(directory, "e.srec")
    status, _, err = run([SREPLAY, "record", "--from-start", "-o", trace, "--", "sh", "-c", "read a; date +%s"], SECONDS,
                         env=dict(os.environ, SREPLAY_QUIET="on"))
    got = objects("dump", "--json", trace)
    reads = [r for r in got if r.get("call") in ("read", "clock_gettime", "getrandom")]
    seen = set()
    for r in reads[:40]:
        (one,) = objects("explain", "--json", trace, "0.%d:%d" % (r["thread"], r["sn"]))
        seen.add((one["entered"] or {}).get("what"))
        lost = undocumented("explain", one)
        if lost:
            tap.ok(False, "keys are documented", lost)
    tap.ok("descriptor" in seen or "time" in seen, "what enters by other calls has its kind", (status, err, seen, len(reads)))


def replayed(tap, directory):
    trace, err = recorded(directory)
    file = os.path.join(directory, "verdicts")
    status, _, err2 = sreplay("replay", "--json", file, trace)
    got = sorted((json.loads(line) for line in read(file).splitlines()), key=lambda v: v["rank"])
    said = sorted(numbers(err2, r"rank (\d+): (\d+) calls replayed, 0 divergences: exact"))
    tap.ok(not err and status == 0 and [(v["rank"], v["calls"]) for v in got] == said and len(said) == RANKS, "replay: a line for each rank", (got, err2))
    tap.ok(all(v["verdict"] == v["outcome"] == "exact" and v["at"] is None for v in got) and not undocumented("replay", got), "all exact", got)
    entered_bytes = sorted(numbers(err2, r"rank (\d+): (\d+) bytes entered from the group, (\d+) from outside"))
    tap.ok([(v["rank"], v["bytes_from_group"], v["bytes_from_outside"]) for v in got] == entered_bytes, "... with what entered", (got, err2))
    status, _, err = run([SREPLAY, "record", "--from-start", "-o", trace + "d", "--", "sh", "-c", "cat < $0 > /dev/null; exec true", __file__], SECONDS)
    status, _, err = sreplay("replay", "--json", file, trace + "d")
    got = [json.loads(line) for line in read(file).splitlines()]
    tap.ok([v["image"] for v in got] == [0, 1] and [v["outcome"] for v in got] == ["executed", "exact"], "a line for each image", (got, err))
    status, _, err = sreplay("replay", "--json", os.path.join(directory, "no", "such"), trace)
    tap.ok(status == 125 and "cannot write" in err, "a file that cannot be written is said first", err)


def diverged(tap, directory):
    trace, file = os.path.join(directory, "d.srec"), os.path.join(directory, "verdicts")
    run([SREPLAY, "record", "-o", trace, "--", os.path.join(PROGRAMS, "diverge"), "same"], SECONDS)
    process = os.path.join(trace, "rank-0", "process.json")
    text = json.loads(read(process))
    text["arguments"][1] = "call"
    with open(process, "w") as f:
        json.dump(text, f)
    status, _, err = sreplay("replay", "--json", file, trace)
    (got,) = [json.loads(line) for line in read(file).splitlines()]
    sn, = numbers(err, r"rank 0 thread 0 SN (\d+): the program called getrandom where the recording has send$")
    tap.ok(status == 124 and (got["verdict"], got["outcome"], got["status"]) == ("failed", "diverged", 124) and not undocumented("replay", got),
           "a divergence is one", (got, err))
    tap.ok((got["at"]["thread"], got["at"]["sn"]) == (0, sn) and got["at"]["recorded"]["call"] == "send" and got["at"]["now"]["call"] == "getrandom"
           and "diverge.c" in got["at"]["now"]["site"], "... with its place and both calls", got["at"])


def damaged(tap, directory):
    trace, _ = recorded(directory)
    with open(os.path.join(trace, "rank-1", "thread-0.srs"), "r+b") as f:
        f.truncate(os.path.getsize(f.name) // 2)
    os.remove(os.path.join(trace, "rank-2", "thread-0.srs"))
    status, out, err = sreplay("verify", "--json", trace)
    got = {v["rank"]: v["verdict"] for v in map(json.loads, out.splitlines())}
    tap.ok(status == 1 and got == {0: "whole", 1: "cut", 2: "missing"}, "verify: what is cut, and what is missing", (status, out, err))


run_functions([reports, explained, entered, replayed, diverged, damaged])
