#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a trace of `record --order` has to tell of the order of completions: the picks among several queues, and none where they commute."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, run, some
from order import SECONDS, exact, record, records
from second_reader import PICKED, check_trace

# The number of the queue pair of a completion that does not say whose it is.
NOT_TOLD = "0xffffffff"


def exact_alone(directory, trace, output):
    """Rank 0, from a detailed trace."""
    detail = os.path.join(directory, "detail.srec")
    shutil.rmtree(detail, ignore_errors=True)
    made = run([SREPLAY, "replay", "-q", "--record-ranks", "0", "-o", detail, trace], SECONDS)
    alone = run([SREPLAY, "replay", "-r", "0", detail], SECONDS) if made[0] == 0 else None
    return "" if alone and alone[:2] == (0, output) else "extracted: %s %s" % (made, alone)


def turns(queues):
    """[completion queue, send or receive queue], once for each time that it has its turn."""
    last = {}
    for cq, queue in queues:
        if last.get(cq) != queue:
            yield cq, queue
        last[cq] = queue


def entries(queues):
    """The fewest that tell their order (lemma IV.3 of Lifflander and others): turns, but for those of the queue with most."""
    n = {}
    for cq, queue in turns(queues):
        of = n.setdefault(cq, {})
        of[queue] = of.get(queue, 0) + 1
    return sum(sum(of.values()) - max(of.values()) for of in n.values())


def queues_of(records):
    """Of each completion: its completion queue, and the send or receive queue that it is of."""
    for r in records:
        if r.get("call") == "poll_cq":
            for wc in r["out"].get("wc") or []:
                yield r["in"]["cq"], (wc["qp_num"], wc["opcode"] & 128)


def by_class(tap, directory):
    """info --order: what each class of records takes, and the completions that the order has to tell."""
    trace, _, problem = record(directory, "classes", 3, ["messages", "300"], "--order")
    if problem:
        tap.ok(False, "messages are recorded", problem)
        return
    got = json.loads(subprocess.run([SREPLAY, "info", "--order", "--json", "--rank", "1", trace], capture_output=True, text=True).stdout.splitlines()[1])
    text = subprocess.run([SREPLAY, "info", "--order", "--rank", "1", trace], capture_output=True, text=True).stdout
    order, path = got["order"], got["data_path"]
    lines = [(int(b), int(r)) for b, r in re.findall(r"^ +(\d+) +\d+\.\d\d +(\d+)  ", text, re.M)]
    classes = [(c["bytes_on_disk"], c["records"]) for c in order["classes"].values() if c["records"]]
    alone = sum(order["classes"][c]["bytes_on_disk"] for c in ("requests", "completions", "idle_polls", "values", "clocks", "sums"))
    tap.ok(order["events"] == path["requests"] + path["completions"] + path["values"] and lines == classes and
           sum(c[1] for c in classes) == got["records"] and 0.7 * path["bytes_on_disk"] < alone < 1.5 * path["bytes_on_disk"] + 500,
           "info --order: %d bytes of the data path by class, together %d" % (alone, path["bytes_on_disk"]), text + str(order))
    queues = list(queues_of(records(trace, 1)))
    told = [q for q in queues if is_told(q)]
    seen = [(cq, q) for cq, q in turns(queues) if is_told((cq, q))]
    first = {cq: q for cq, q in reversed(queues)}
    picks = len(seen) - sum(is_told(q) for q in first.items())
    tap.ok((order["completions"], order["not_told"], order["picks"]) == (len(queues), len(queues) - len(told), picks) and
           0 < picks <= len(told) < len(queues) and 0 < order["entries"] <= picks + len(first),
           "%d of %d completions say of which queue they are, %d of another one than before" % (len(told), len(queues), picks), order)


def is_told(completion):
    return completion[1][0] != NOT_TOLD


def in_region(of_rank):
    """The records between those that say where a region begins and ends."""
    places = [i for i, r in enumerate(of_rank) if r.get("call") == "sreplay_on_commutative"]
    return of_rank[places[0] + 1:places[1]] if len(places) == 2 else []


def of_messages(of_rank):
    """The queues of all messages that came by the program's own queue pairs: into that completion queue with most."""
    queues = [q for q in queues_of(of_rank) if q[1][1]]
    cqs = [cq for cq, _ in queues]
    return [q for q in queues if q[0] == max(cqs, key=cqs.count)]


def two_streams(tap, directory):
    """Messages of two ranks, as they come: where those of the one are among the others says all."""
    for m, n in (150, 150), (300, 12):
        trace, outputs, problem = record(directory, "streams", 3, ["commutes", "plain", str(m), str(n)], "--order")
        problem = problem or exact(directory, trace, outputs)
        queues = of_messages(records(trace, 0))
        tap.ok(not problem and len(queues) == m + n and 0 < entries(queues) <= min(m, n),
               "two streams of %d and %d messages: %d entries tell their order, and the ranks replay exactly" % (m, n, entries(queues)), problem)
        shutil.rmtree(trace)


def classics(tap, directory):
    """What the trace has to tell of the order of messages, in programs of the papers; the program counts it itself."""
    for name in some(("gauss", "mesh", "product", "master"), 4):
        trace, outputs, problem = record(directory, name, 4, ["classics", name, "60"], "--order")
        problem = problem or exact(directory, trace, outputs)
        counted = [[int(n) for n in re.findall(rb"(\d+) (?:messages|of another|race)", o)] for o in outputs]
        told = [sum(is_told(q) for q in of_messages(records(trace, r))) for r in range(4)]
        messages, switches, racing = map(sum, zip(*counted))
        problem = problem or (exact_alone(directory, trace, outputs[0]) if name == "gauss" else "") or check_trace(trace, [PICKED])
        tap.ok(not problem and sum(told) <= 1.1 * racing + 2 and (sum(told) > 0) == (racing > 0) and (switches > 0) == (name != "product"),
               "classics %s: of %d messages %d are of another queue than the one before, %d race, and %d say whose they are; the ranks replay exactly" %
               (name, messages, switches, racing, sum(told)), "%s %s %s" % (problem, told, counted))
        shutil.rmtree(trace)


def commutative_regions(tap, directory):
    """Of the order of what commutes the trace has nothing, but how many there are of each queue."""
    counts = ["120", "80", "50"]
    for ranks in 3, 4:
        trace, outputs, problem = record(directory, "region", ranks, ["commutes", "region"] + counts, "--order")
        problem = problem or exact(directory, trace, outputs)
        region = in_region(records(trace, 0))
        queues = list(queues_of(region))
        calls = {r.get("call") for r in region if r.get("call")}
        n = [queues.count(q) for q in turns(queues)]
        tap.ok(not problem and sorted(n, reverse=True) == [int(c) for c in counts[:ranks - 1]] and calls == {"poll_cq", "post_recv"},
               "a commutative sum of %d ranks' messages: %d entries; the ranks replay exactly" % (ranks - 1, len(n)), "%s %s %s" % (problem, n, calls))
        shutil.rmtree(trace)
    trace, outputs, problem = record(directory, "speaks", 3, ["commutes", "speaks"] + counts, "--order")
    problem = problem or exact(directory, trace, outputs) or exact_alone(directory, trace, outputs[0])
    region = in_region(records(trace, 0))
    spoke = [i for i, r in enumerate(region) if r.get("call") == "write"]
    tap.ok(not problem and len(spoke) == 1 and len(list(queues_of(region[:spoke[0]]))) == 100 and len(list(turns(queues_of(region)))) <= 5,
           "what is written in the middle of a region stays behind what came before it", "%s %s" % (problem, spoke))
    shutil.rmtree(trace)
    by_value(tap, directory, counts)
    by_order(tap, directory, counts)


def by_value(tap, directory, counts):
    """Without --order a region is two records."""
    trace, outputs, problem = record(directory, "valued", 3, ["commutes", "region"] + counts, "--clocks")
    region = in_region(records(trace, 0))
    problem = problem or exact(directory, trace, outputs)
    tap.ok(not problem and len(list(queues_of(region))) == 200, "recorded by value, a region is as it came", problem)
    shutil.rmtree(trace)


def by_order(tap, directory, counts):
    """A region whose result depends on the order is no secret of the replay."""
    trace, _, problem = record(directory, "wrong", 3, ["commutes", "wrong"] + counts, "--order")
    status, _, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(not problem and status == 124 and "rank 0 thread 0 SN" in err, "what depends on the order in a region stops the replay", "%s %s" % (problem, err))
    shutil.rmtree(trace)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        by_class(tap, directory)
        two_streams(tap, directory)
        classics(tap, directory)
        commutative_regions(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
