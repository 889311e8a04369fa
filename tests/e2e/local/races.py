#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay races`: small programs with a race and without, and whole ones, recorded on the software device.

    races.py [programs|mistakes|CASE...]

Without a word the cases of races; `programs`: all others, but for most of `mistakes`.

Each case of tests/programs/pgas/races is recorded with all ranks and clocks; what is found must be what the case has,
and nothing else: as errors, warnings and notes.
"""

import json
import os
import resource
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, run, some

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")
SECONDS = 60

NONE = set()
# Of each case: the classes of its races. Same values are a note.
LITMUS = {
    "write-write-racing": {"data"}, "write-write-shown": {"data"}, "write-write-barrier": NONE, "write-write-flag": NONE,
    "write-write-early-flag": {"data"}, "write-write-counter": NONE, "write-write-late-counter": {"data"},
    "write-write-lock": NONE, "write-write-same-value": NONE, "write-write-other-words": NONE,
    "write-write-pipelined": NONE, "write-write-socket": NONE, "write-write-early-socket": {"data"},
    "write-read-racing": {"data"}, "write-read-barrier": {"data"}, "write-read-ordered": NONE, "read-read": NONE,
    "atomic-atomic": NONE, "atomic-write": {"data"}, "atomic-read-ordered": NONE,
    "load-racing": {"data"}, "load-barrier": NONE, "load-flag": NONE,
    "load-tail-flag": NONE, "load-head-flag": {"data"}, "load-tail-unawaited": {"data"}, "load-tail-there": NONE, "load-word-there": NONE,
    "fence-missing": {"fence"}, "fence-there": NONE, "fence-completion": NONE,
    "gather-racing": {"in-flight"}, "gather-completion": NONE, "gather-write": {"in-flight"},
    "inline-write": {"data"},
    "scatter-racing": {"in-flight"}, "scatter-completion": NONE,
    "add-nothing-read": NONE, "add-read-racing": {"data"}, "store-read-racing": {"data"}, "store-read-barrier": NONE, "store-read-polled": NONE, "store-read-once": NONE,
    "store-write-racing": {"data"}, "store-write-flag": NONE,
    "gather-store-racing": {"in-flight"}, "gather-store-completion": NONE,
    "receive-store-racing": {"in-flight"}, "receive-store-completion": NONE, "receive-store-posted": NONE,
    "scatter-store-racing": {"in-flight"}, "scatter-store-completion": NONE,
    "load-sum-racing": {"data"}, "load-sum-barrier": NONE,
    "load-awaited": NONE, "load-message-racing": {"data"}, "load-message-behind": NONE,
    "load-early-racing": {"data"}, "load-twice-racing": {"data"}, "load-early-flag": NONE, "load-snapshot-flag": NONE,
    "scatter-load-racing": {"in-flight"}, "scatter-load-completion": NONE,
    "gather-same-store-racing": {"in-flight"},
    "write-read-flag": NONE, "write-read-early-flag": {"data"}, "write-read-counter": NONE,
    "write-read-late-counter": {"data"}, "write-read-lock": NONE, "atomic-write-barrier": NONE,
    "atomic-write-flag": NONE, "load-counter": NONE, "load-late-counter": NONE, "store-write-barrier": NONE,
    "store-read-flag": NONE, "load-socket": NONE, "load-early-socket": {"data"},
    "write-read-socket": NONE, "write-read-early-socket": {"data"},
}
# A rank is late in a barrier, and finds in one page what comes long after: is a race found all the same?
OVERTAKEN = {"write-write-early-flag": ("1:1:0", "1:1:1", "2:3:0"), "load-flag": ("2:1:1", "2:3:0", "2:3:1", "0:2:0")}
# With --predict=locks; whether the first one is a race in the order of the run depends on who had the lock first.
LOCKS = {"write-write-beside-locks": {"data"}, "write-write-lock-value": NONE, "write-write-lock": NONE, "write-read-lock": NONE}
# With --predict=lockset: is something possible that only the order of this run keeps apart?  (A flag or a socket orders two ranks, a barrier all.)
LOCKSET = {"write-write-flag": True, "write-read-flag": True, "load-flag": True, "write-write-socket": True,
           "write-write-barrier": False, "load-barrier": False, "store-read-barrier": False, "write-write-lock": False,
           "write-read-lock": False, "gather-completion": False}
# The ends of registrations (tests/programs/pgas/lifetimes.c).
LIFETIMES = {
    "gather-racing": {"lifetime"}, "gather-completion": NONE, "scatter-racing": {"lifetime"}, "scatter-completion": NONE,
    "gather-closed": NONE, "write-racing": {"lifetime"}, "write-flag": NONE, "read-racing": {"lifetime"}, "read-flag": NONE,
    "unmapped": NONE, "freed": NONE, "write-closed": NONE, "write-unpolled": {"lifetime"},
}
# What is fetched into memory that peers can write, and sockets of one listener (tests/programs/pgas/fetches.c).
FETCHES = {"read-flag": NONE, "read-early-flag": {"data"}, "locked": NONE, "locked-written": NONE, "listener": NONE, "slots": NONE,
           "slots-early": {"data"}}
# What the events of a connection order.
CONNECTIONS = {"ordered": NONE, "racing": {"data"}}
# How memory, queue pairs and receives were made (tests/programs/pgas/orders.c): with --model=device, and with iba; --messages.
ORDERS = {"relaxed-flag": ({"data"}, {"data"}), "relaxed-flag-late": ({"data"}, {"data"}), "relaxed-completion": (NONE, NONE), "strict-flag": (NONE, {"data"}),
          "in-order-flag": (NONE, NONE), "relaxed-twice": ({"data"}, {"data"}), "relaxed-twice-completion": (NONE, NONE),
          "strict-twice": (NONE, NONE), "messages-racing": ({"message"}, {"message"}), "messages-flag": (NONE, NONE), "messages-at-once": (NONE, NONE), "messages-to-one-buffer": (NONE, NONE),
          "messages-to-one-buffer-racing": ({"message", "in-flight"}, {"message", "in-flight"}), "own-segment": ({"data"}, {"data"}), "shared-segment": (NONE, NONE), "shared-flag": (NONE, NONE),
          "annotated-nothing": ({"data"}, {"data"}), "annotated-lock": (NONE, NONE), "annotated-two-locks": ({"data"}, {"data"}),
          "annotated-barrier": (NONE, NONE), "annotated-benign": (NONE, NONE)}
# --sc: what keeps apart the accesses of the first thread of a cycle that another run may have, with --model=device, and iba; none: there is none.
# (tests/programs/pgas/orders.c)
SC = {"sc-store-buffer": ({"wait"}, {"wait"}), "sc-store-buffer-completion": (None, None),
      "sc-two-queues": ({"wait", "same-queue-pair"}, {"wait"}), "sc-two-queues-completion": (None, None),
      "sc-one-queue": (None, {"wait"}), "sc-load-buffer": ({"wait", "fence"}, {"wait", "fence"}), "sc-load-buffer-fence": (None, None)}
# Blocks that three ranks hand on in places that are used again, by another kind of flag each (tests/programs/pgas/pipelines.c): no race, but
# what looks for locks and barriers reports them (of the kinds whose value is True also without the accesses that only a replay finds).
PIPELINES = {"word": True, "sense": True, "byte": True, "sequence": True, "unawaited": True, "beside": True, "tail": True, "double": True, "ring": True,
             "counter": True, "bits": True, "swap": True, "message": True, "socket": True, "third": False, "polled": False}
# What programs get wrong (tests/programs/pgas/mistakes.c), beside the same without the mistake ("-right": none).
MISTAKES = {"ring-fence": {"data"}, "ring-overrun": {"data"}, "double-buffer": {"in-flight"}, "request-flag": {"data"}, "request-flag-first": {"data"},
            "shared-receives": {"in-flight"}, "ticket-store": {"data"}, "registered-again": {"lifetime"}}
QUICK_MISTAKES = ("double-buffer", "shared-receives", "ring-overrun")
# An owner that is done before the other rank begins its stores hides its mistake.
MAY_BE_HIDDEN = {"ticket-store"}
# Without what a device does beyond the specification.
IBA = {name: LITMUS[name] for name in LITMUS}
IBA["load-flag"] = IBA["load-tail-flag"] = IBA["load-tail-there"] = {"data"}
# Whole programs without races: ranks.
WHOLE = {"steal fenced 3": 2, "laplace": 4, "mcop 12": 4, "is 1024 2": 4, "knapsack corrected": 4,
         "patterns flag 20": 3, "patterns mailbox 20": 3, "patterns ring 20": 3, "patterns ticket 20": 3}


def record(directory, name, ranks, may_be_wrong=False, option="", recorded=None):
    out, trace = fresh(os.path.join(directory, "out")), os.path.join(directory, name.replace(" ", "-").replace("/", "-") + ".srec")
    group = recorded or ",".join(str(i) for i in range(ranks))
    words = name.split() if name not in LITMUS and name not in LOCKS else ["races", name]
    status, _, err = run([SOFTDEV, "--", os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", str(SECONDS), "-o", out,
                          "-w", group, "%s record --clocks %s -o %s --rank %%r --group %s --" % (SREPLAY, option, trace, group),
                          os.path.join(PROGRAMS, words[0])] + words[1:], SECONDS)
    return trace, err if status not in (0, 1 if may_be_wrong else 0) else None


def find(trace, *options):
    """Races that are no notes, those that are, and the command's exit status."""
    status, out, err = run([SREPLAY, "races", "--json"] + list(options) + [trace], SECONDS)
    if status not in (0, 1):
        return None, None, "%s %s" % (status, err)
    races = [json.loads(line) for line in out.decode().splitlines()][1:]
    loud = [r for r in races if r["severity"] != "note"]
    return loud, [r for r in races if r["severity"] == "note"], status


def litmus(tap, directory, name):
    trace, failed = record(directory, name, 3)
    if failed is not None:
        tap.ok(False, name + " is recorded", failed)
        return
    for model, expected in (("device", LITMUS[name]), ("iba", IBA[name])):
        loud, notes, status = find(trace, "--model", model)
        right = loud is not None and {r["class"] for r in loud} == expected and status == (1 if expected else 0)
        if name == "write-write-same-value":
            right = right and "same-value" in {r["class"] for r in notes}
        tap.ok(right, "%s, model %s: %s" % (name, model, ", ".join(expected) or "none"), "%s\n%s" % (status, loud))
    if name == "load-tail-flag":
        loud, _, status = find(trace, "--local", "recorded")
        tap.ok(loud == [] and status == 0, name + ", --local=recorded: nothing tells that the rank does not wait", loud)


def overtaken(tap, directory, name):
    for late in OVERTAKEN[name]:
        os.environ["PGAS_DELAY"] = late
        litmus(tap, fresh(os.path.join(directory, "overtaken")), name)
        del os.environ["PGAS_DELAY"]


def locks(tap, directory, name):
    trace, failed = record(fresh(os.path.join(directory, "locks")), name, 3)
    loud, _, status = find(trace, "--predict", "locks") if failed is None else (None, None, failed)
    tap.ok(loud is not None and {r["class"] for r in loud} == LOCKS[name], "%s, --predict=locks: %s" % (name, ", ".join(LOCKS[name]) or "none"),
           "%s\n%s" % (status, loud))


def lockset(tap, directory, name):
    trace, failed = record(fresh(os.path.join(directory, "lockset")), name, 3)
    loud, notes, status = find(trace, "--predict", "lockset") if failed is None else (None, None, failed)
    found = [r for r in notes or [] if "neither a lock" in " ".join(r["reasons"])]
    tap.ok(loud == [] and status == 0 and bool(found) == LOCKSET[name] and {(r["class"], r["evidence"]) for r in found} <= {("data", "possible")},
           "%s, --predict=lockset: %s" % (name, "possible" if LOCKSET[name] else "none"), "%s\n%s\n%s" % (status, loud, notes))


def lifetime(tap, directory, name):
    trace, failed = record(directory, "lifetimes " + name, 3)
    loud, _, status = find(trace) if failed is None else (None, None, failed)
    right = loud is not None and {r["class"] for r in loud} == LIFETIMES[name]
    tap.ok(right, "end of a registration, %s: %s" % (name, ", ".join(LIFETIMES[name]) or "none"), "%s\n%s" % (status, loud))
    if name == "freed":
        err = run([SREPLAY, "races", trace], SECONDS)[2]
        tap.ok("not exact" not in err, "free() of memory that is registered: the watched replays are exact", err)
    if name == "unmapped":
        err = run([SREPLAY, "races", trace], SECONDS)[2]
        tap.ok("not exact" not in err, "memory that is unmapped while it is registered: the watched replays are exact", err)
        nothing = os.path.join(directory, "nothing")
        with open(nothing, "wb") as f:
            f.write(bytes(80)) # struct sr_watch_head
        status, _, err = run([SREPLAY, "replay", "--rank", "0", "--watch", nothing, trace], SECONDS)
        tap.ok("0 divergences: exact" in err, "a replay with nothing to watch is exact", "%s %s" % (status, err))


def fetches(tap, directory, name):
    trace, failed = record(directory, "fetches " + name, 3)
    loud, notes, status = find(trace) if failed is None else (None, None, failed)
    right = loud is not None and {r["class"] for r in loud} == FETCHES[name]
    if name == "listener":
        right = right and "data" not in {r["class"] for r in notes}
    tap.ok(right, "fetched, %s: %s" % (name, ", ".join(FETCHES[name]) or "none"), "%s\n%s" % (status, loud))


def shared_memory(tap, name, trace):
    """What ranks that share memory may tell each other there: anything, or what they found."""
    reason, expected = "memory that they share", {"data"} if name == "shared-segment" else NONE
    notes = find(trace)[1] or []
    tap.ok([r for r in notes if r["class"] == "data" and reason in " ".join(r["reasons"])], "%s: the race is possible" % name, notes)
    out = run([SREPLAY, "races", trace], SECONDS)[1].decode()
    tap.ok("cannot be decided as the ranks share memory" in out and "--shared-memory=seen" in out, "... and what would make it more is said", out)
    loud, notes, status = find(trace, "--shared-memory=seen")
    tap.ok(loud is not None and {r["class"] for r in loud} == expected, "... by what was found there: %s" % (", ".join(expected) or "none"),
           "%s %s" % (status, loud))
    tap.ok(expected or [r for r in notes if r["class"] == "data" and r["evidence"] == "possible" and r["reasons"]], "... and why", notes)


def orders(tap, directory, name):
    trace, failed = record(directory, "orders " + name, 3)
    for model, expected in zip(("device", "iba"), ORDERS[name]):
        loud, _, status = find(trace, "--model", model, "--messages") if failed is None else (None, None, failed)
        tap.ok(loud is not None and {r["class"] for r in loud} == expected, "%s, model %s: %s" % (name, model, ", ".join(expected) or "none"),
               "%s\n%s" % (status, loud))
        relaxed = {r["memory"]["relaxed"] for r in loud or []}
        tap.ok(relaxed <= {name.startswith("relaxed")}, "%s, model %s: what the memory is registered with" % (name, model), loud)
    if name == "annotated-benign":
        notes = find(trace)[1]
        tap.ok([r for r in notes or [] if r["class"] in ("data", "same-value") and "do no harm" in " ".join(r["reasons"])], "what is benign is a note, with the reason", notes)
    if name.startswith("shared-"):
        shared_memory(tap, name, trace)
    if name == "messages-racing":
        loud, notes, status = find(trace)
        tap.ok(loud == [] and "message" not in {r["class"] for r in notes}, "messages are looked at with --messages only", "%s %s" % (loud, notes))


def at_once(tap, directory):
    """The owner of a word stores to it when it has one message, and learns of the next one, which tells that the word was written, with it or later."""
    trace, failed = record(fresh(os.path.join(directory, "single")), "orders messages-at-once", 3, option="--single-completions")
    loud, _, status = find(trace) if failed is None else (None, None, failed)
    tap.ok(loud is not None and [r["class"] for r in loud] == ["data"], "record --single-completions: who waits for one message does not learn of the next one", "%s\n%s" % (status, loud))


def datagrams(tap, directory):
    """udaddy receives ten messages into the buffer that its ten had come from: that these have arrived, its peer's messages say."""
    trace = fresh(os.path.join(directory, "datagrams.srec"))
    os.rmdir(trace)
    sides = ["%s record -q --clocks -o %s --rank %d --group 0,1 -- udaddy %s 127.0.0.1" % (SREPLAY, trace, rank, how) for rank, how in enumerate(("-b", "-s"))]
    wait = "import sys; sys.path.insert(0, '%s'); import types, softdev_cm as s; s.wait_for_server('udaddy', types.SimpleNamespace(poll=lambda: None))" % \
        os.path.dirname(os.path.realpath(__file__))
    status, _, err = run([SOFTDEV, "--", "sh", "-c", '%s & %s -c "%s"; %s && wait $!' % (sides[0], sys.executable, wait, sides[1])], SECONDS)
    loud, notes, found = find(trace) if status == 0 else (None, None, None)
    right = loud == [] and all("outside" in " ".join(r["reasons"]) for r in notes)
    tap.ok(right, "datagrams: races with what came by them are only possible", "%s %s\n%s %s %s" % (status, err, found, loud, notes))


def connections(tap, directory, name):
    """What librdmacm tells one end of the other one (tests/programs/verbs/cm_orders.c)."""
    trace, out = fresh(os.path.join(directory, "connections.srec")), os.path.join(directory, "listening")
    os.rmdir(trace)
    fresh(os.path.join(directory, "out"))
    sides = ["%s record -q --clocks -o %s --rank %d --group 0,1 -- %s %s 127.0.0.1 7471 %s" % (SREPLAY, trace, rank, os.path.join(PROGRAMS, "cm_orders"), what, name)
             for rank, what in enumerate(("serve", "ask"))]
    lines = "rm -f %s; %s > %s & while ! grep -qs listening %s; do sleep 0.02; done; %s && wait $!" % (out, sides[0], out, out, sides[1])
    status, _, err = run([SOFTDEV, "--", "sh", "-c", lines], SECONDS)
    loud, _, found = find(trace) if status == 0 else (None, None, None)
    tap.ok(loud is not None and {r["class"] for r in loud} == CONNECTIONS[name], "connection, %s: %s" % (name, ", ".join(CONNECTIONS[name]) or "none"),
           "%s %s\n%s %s" % (status, err, found, loud))


def consistency(tap, directory, name):
    trace, failed = record(directory, "orders " + name, 3)
    for model, expected in zip(("device", "iba"), SC[name]):
        status, out, err = run([SREPLAY, "races", "--json", "--sc", "--model", model, trace], SECONDS) if failed is None else (None, b"", failed)
        cycles = [c for c in map(json.loads, out.decode().splitlines()) if "consistency" in c]
        possible = [[tuple(s["cures"]) for s in c["cycle"] if s["cures"]] for c in cycles if c["evidence"] == "possible"]
        right = status in (0, 1) and {frozenset(x) for c in possible for x in c} == ({frozenset(expected)} if expected else set())
        tap.ok(right, "%s, model %s: %s" % (name, model, "possible, unless " + " or ".join(sorted(expected)) if expected else "none is possible"),
               "%s %s\n%s" % (status, err, out.decode()))
    # It was observed if nobody has found what the other one wrote.
    found = []
    for rank in range(3):
        with open(os.path.join(directory, "out", "%d.out" % rank), encoding="utf-8") as f:
            found += [line.split()[1] for line in f if line.startswith("found")]
    lost = {"sc-store-buffer": ["0", "0"], "sc-two-queues": ["0"], "sc-load-buffer": ["1", "1"]}
    observed = [c for c in cycles if c["evidence"] == "observed"]
    tap.ok(found and bool(observed) == (found == lost.get(name)), "%s: observed if it was lost" % name, "%s\n%s" % (found, out.decode()))


def whole(tap, directory, name):
    trace, failed = record(directory, name, WHOLE[name])
    loud = find(trace)[0] if failed is None else failed
    tap.ok(loud == [], name + ": no race", loud)


def mistake(tap, directory, name):
    """Two races of keys that are told anew are beside the end of the registration."""
    trace, failed = record(directory, "mistakes " + name, 2)
    loud, _, status = find(trace) if failed is None else (None, None, failed)
    found = {r["class"] for r in loud or []}
    right = found >= MISTAKES[name] and found <= MISTAKES[name] | {"data"} or (name in MAY_BE_HIDDEN and not found)
    tap.ok(loud is not None and right, "mistake %s: %s" % (name, ", ".join(MISTAKES[name])), "%s\n%s" % (status, loud))
    if name == "request-flag-first": # right, it is "request-flag-right"
        return
    trace, failed = record(directory, "mistakes %s-right" % name, 2)
    loud, _, status = find(trace) if failed is None else (None, None, failed)
    tap.ok(loud == [] and status == 0, "%s without the mistake: none" % name, "%s\n%s" % (status, loud))


def pipeline(tap, directory, name):
    trace, failed = record(directory, "pipelines " + name, 3)
    loud, _, status = find(trace) if failed is None else (None, None, failed)
    tap.ok(loud == [] and status == 0, "a pipeline with flags, %s: no race" % name, "%s\n%s" % (status, loud))
    notes = find(trace, "--local", "recorded", "--predict", "lockset")[1] if failed is None and PIPELINES[name] else []
    if PIPELINES[name]:
        tap.ok([r for r in notes or [] if "neither a lock" in " ".join(r["reasons"])], "a pipeline with flags, %s: possible for --predict=lockset" % name, notes)


def steal(tap, directory):
    """The items and their number race with the loads that do not wait for them (docs/user/case-study.md)."""
    trace, failed = record(directory, "steal racing 3", 2, True)
    loud, notes, _ = find(trace) if failed is None else (None, None, None)
    places = [[a["place"] for a in r["accesses"]] for r in loud or []]
    right = places and all("serve (steal.c:175)" in " ".join(p) and "main (steal.c:23" in " ".join(p) for p in places)
    tap.ok(right, "steal racing: the write of the items and its loads", "%s\n%s" % (failed, loud))
    # The owner waits for a slot that is not free (all ones) to be taken.
    waited = [r for r in notes or [] if r["values"][0] == "ff" * 8]
    tap.ok(waited and all(r["other_order"] and r["other_order"]["access"] == 0 and r["other_order"]["value"] != "ff" * 8 for r in waited),
           "what a load would have found in the other order", notes)
    around = [{a["rank"] for a in r["in_order"][side]} for r in loud or [] for side in ("before", "after")]
    tap.ok(around and all(ranks <= {0, 1} for ranks in around) and {0, 1} in around, "what comes before and after both", loud)


def outsider(tap, directory):
    """A rank of the barrier is not recorded: where what came from it may order two accesses, it is named."""
    wrong = []
    for n in range(2):
        trace, failed = record(fresh(os.path.join(directory, "outsider-%d" % n)), "load-barrier", 3, recorded="0,2")
        loud, notes, _ = find(trace) if failed is None else (None, None, None)
        said = [r["entered"] and (r["entered"]["missing_ranks"], r["entered"]["rank"] in (0, 2)) for r in (loud or []) + (notes or [])]
        outside = ["outside of the recorded" in " ".join(r["reasons"]) for r in (loud or []) + (notes or [])]
        status, out, err = run([SREPLAY, "races", "-q", "--notes", trace], SECONDS)
        if not said or [s == ([1], True) for s in said] != outside or out.count(b"enlarge the recorded group by rank 1\n") != sum(outside):
            wrong.append("%s\n%s\n%s\n%s %s" % (failed, loud, notes, out.decode(), err))
    tap.ok(not wrong, "something from outside: the rank to record as well", "\n".join(wrong))


def knapsack(tap, directory):
    """The owners of weights and values store them while others fetch them: two races, by their lines.  A value that several requests may have left
    makes the race a possible one at most: it hides none.  But an owner may be so slow that its wait for a barrier finds the next barrier's number
    already: then it stored after the others had fetched, by what it read, and that recording has no race there (1 of 50 on a busy machine)."""
    wrong, overtaken = [], 0
    for n in range(5):
        trace, failed = record(fresh(os.path.join(directory, "knapsack-%d" % n)), "knapsack race 12 100 100", 4, True)
        loud, notes, _ = find(trace) if failed is None else (None, None, None)
        what = [{a["what"] for a in r["accesses"]} for r in loud or []]
        doubtful = [r for r in notes or [] if {a["what"] for a in r["accesses"]} == {"store", "READ"}]
        if failed is None and loud == [] and not doubtful:
            overtaken += 1
        elif (any(w != {"store", "READ"} for w in what) or len(what) < 2) and not (loud == [] and doubtful):
            wrong.append("%s\n%s\n%s" % (failed, loud, notes))
    tap.ok(not wrong and overtaken <= 1, "knapsack race: stores and READs, in five recordings, but for one in which the owner was overtaken", "\n".join(wrong))
    loud, _, status = find(trace, "--local", "recorded")
    tap.ok(loud == [] and status == 0, "its stores are not in the recording", loud)


def guppie(tap, directory):
    """Its updates race by design: a READ and a WRITE of the same word, which no READ waits for."""
    for words in ("guppie 6 400 100", "guppie 8 200 100"):
        trace, failed = record(directory, words, 4, True)
        loud = find(trace)[0] if failed is None else None
        what = {a["what"] for r in loud or [] for a in r["accesses"]}
        tap.ok(loud and what <= {"READ", "WRITE"} and "WRITE" in what, words + ": its updates race", "%s\n%s" % (failed, loud))
        loud = find(trace, "--local", "recorded")[0] if failed is None else None
        pairs = [{a["what"] for a in r["accesses"]} for r in loud or [] if r["class"] == "data"]
        tap.ok({"READ", "WRITE"} in pairs, words + ": and so they do without a replay", "%s\n%s" % (failed, loud))


def loaded(tap, directory):
    """The code that races is in a library of which the recording began to know nothing."""
    trace, failed = record(fresh(os.path.join(directory, "loaded")), "loads_main %s write-write-racing" % os.path.join(PROGRAMS, "races_module.so"), 3)
    loud = find(trace)[0] if failed is None else None
    names = ["%s, called by %s" % (a["place"], ", ".join(a["frames"])) for r in loud or [] for a in r["accesses"]]
    tap.ok(names and all("transfer.c:" in n and "main (main.c:" in n for n in names), "a library that is loaded later: its lines are in the report",
           "%s\n%s" % (failed, names))


def cpu_of(command):
    """Seconds of CPU time that the command took with all that it started, and its exit status."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = run(command, SECONDS)[0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, status


def buffers(tap, directory):
    """What several threads store into large buffers is found, and a call costs no comparison of all of them: that took a hundred times the replay."""
    for name, expected in (("behind", set()), ("racing", {"in-flight"})):
        trace = os.path.join(directory, "buffers-%s.srec" % name)
        status, _, err = run([SOFTDEV, "--", SREPLAY, "record", "-q", "--clocks", "-o", trace, "--", os.path.join(PROGRAMS, "watched_buffers"), name], SECONDS)
        loud, _, found = find(trace) if status == 0 else (None, None, None)
        places = [a["place"] for r in loud or [] for a in r["accesses"] if a["what"] == "store"]
        tap.ok(loud is not None and {r["class"] for r in loud} == expected and all("change (watched_buffers.c:" in p for p in places),
               "buffers of a program with threads, %s: %s" % (name, ", ".join(expected) or "none"), "%s %s\n%s %s" % (status, err, found, loud))
    plain, status = cpu_of([SREPLAY, "replay", "--rank", "0", trace])
    watched, found = cpu_of([SREPLAY, "races", "-j", "1", trace])
    tap.ok(status == 0 and found == 1 and watched < 20 * plain, "a watched replay, with the search, takes less than 20 times a replay",
           "%.2f s, a replay %.2f s; exit status %s, %s" % (watched, plain, found, status))


def proxies(tap, directory):
    """Threads that take turns between two calls of one that makes none: its loads come before or behind the other one's posts."""
    # Of threads that run beside each other it is not known what came before what: a race is no more than possible.
    for name, option, expected in (("right", "", set()), ("early", "", {"data"}), ("right", "--threads=parallel", set())):
        trace, failed = record(directory, "proxies " + name, 2, option=option)
        loud, _, found = find(trace) if failed is None else (None, None, None)
        tap.ok(loud is not None and {r["class"] for r in loud} == expected, "a thread without calls, and one that posts for it, %s %s: %s" %
               (name, option, ", ".join(expected) or "none"), "%s %s %s" % (failed, found, loud))
        shutil.rmtree(trace, ignore_errors=True)


def beside(tap, directory):
    """What a program accesses beside registered memory, on the same page, costs a watched replay no signal each: that took six times the replay."""
    trace = os.path.join(directory, "beside.srec")
    status, _, err = run([SOFTDEV, "--", SREPLAY, "record", "-q", "--clocks", "-o", trace, "--", os.path.join(PROGRAMS, "beside_region"), "store-beside"], SECONDS)
    plain, replayed = cpu_of([SREPLAY, "replay", "--rank", "0", trace])
    watched, found = cpu_of([SREPLAY, "races", "-j", "1", trace])
    tap.ok((status, replayed, found) == (0, 0, 0) and watched < 4 * plain, "accesses beside registered memory: a watched replay takes less than four times a replay",
           "%.2f s, a replay %.2f s; exit statuses %s %s %s\n%s" % (watched, plain, status, replayed, found, err))


def changed(tap, directory):
    """What cannot be replayed says why, and what the ranks store is not seen."""
    directory = fresh(os.path.join(directory, "changed"))
    program = os.path.join(directory, "races")
    shutil.copy(os.path.join(PROGRAMS, "races"), program)
    trace, failed = record(directory, program + " load-flag", 3)
    shutil.copy("/bin/true", program)
    status, _, err = run([SREPLAY, "races", trace], SECONDS) if failed is None else (None, None, failed)
    tap.ok(status == 0 and err.count("is not exact") == 3 and "is not the file that was recorded" in err, "a program that has changed: why it is not replayed is said",
           "%s %s" % (status, err))


def options(tap, directory):
    trace, failed = record(fresh(os.path.join(directory, "again")), "write-write-racing", 3)
    quiet = os.path.join(directory, "quiet")
    with open(quiet, "w", encoding="utf-8") as f:
        f.write("# known\n*transfer.c* | *transfer.c*\n")
    tap.ok(failed is None and find(trace)[2] == 1, "there is a race to be suppressed", failed)
    loud, _, status = find(trace, "--suppress", quiet)
    tap.ok(loud == [] and status == 0, "--suppress leaves it out", "%s %s" % (status, loud))
    outputs = {run([SREPLAY, "races", "--notes", "-j", str(n), trace], SECONDS)[1] for n in (1, 3, 8)}
    tap.ok(len(outputs) == 1, "-j 1, 3 and 8: the same bytes", "\n".join(o.decode() for o in outputs))
    status, _, err = run([SREPLAY, "races", "-j", "0", trace], SECONDS)
    tap.ok(status == 125 and "expected a number" in err, "-j 0 is refused", "%s %s" % (status, err))
    tap.ok(find(trace, "--group", "0,1")[0] == [], "--group 0,1 looks at their memory only", "")
    find(trace)
    with open(os.path.join(trace, "races.json"), encoding="utf-8") as f:
        kept = json.load(f)
    tap.ok([r["class"] for r in kept["races"]].count("data") == 1, "races.json is in the trace", kept)
    registered = [r["memory"]["registered"] for r in kept["races"] if r["class"] == "data"]
    tap.ok(registered[0]["place"].startswith("ibv_reg_mr") and "pgas_register (connect.c:" in registered[0]["place"], "the memory's registration is named", registered)
    status, out, err = run([SREPLAY, "races", trace], SECONDS)
    tap.ok(b" that it registered at SN" in out and b"pgas_start (bootstrap.c:" in out, "... and who called it, as text", out)
    tap.ok(status == 1 and b"warning, data, predicted" in out or b"error, data, observed" in out, "as text", out)
    both = os.path.join(directory, "both.json")
    status, text, err = run([SREPLAY, "races", "--json=" + both, trace], SECONDS)
    with open(both, "rb") as f:
        tap.ok(status == 1 and text == out and f.read() == run([SREPLAY, "races", "--json", trace], SECONDS)[1], "--json=FILE: the JSON there, and the text as ever", err)
    status, out, err = run([SREPLAY, "races", "--json=" + os.path.join(directory, "none", "such"), trace], SECONDS)
    tap.ok(status == 125 and not out and "cannot write" in err, "--json=FILE that cannot be written fails at once", "%s %s" % (status, err))
    status, _, err = run([SREPLAY, "races", os.path.join(directory, "missing.srec")], SECONDS)
    tap.ok(status == 125, "a trace that is not there fails with 125", err)


def main():
    tap = Tap()
    by_group = {"overtaken": OVERTAKEN, "locks": LOCKS, "lockset": LOCKSET, "lifetimes": LIFETIMES, "fetches": FETCHES, "orders": ORDERS, "consistency": SC, "connections": CONNECTIONS,
                "pipelines": PIPELINES}
    others = ["%s %s" % (group, name) for group, names in by_group.items() for name in some(names, 8)]
    others += some(WHOLE, 5) + ["steal", "outsider", "knapsack", "guppie", "options", "datagrams", "at_once", "loaded", "changed", "buffers", "proxies", "beside"]
    mistakes = ["mistakes " + name for name in MISTAKES]
    others += ["mistakes " + name for name in QUICK_MISTAKES]
    names = {"programs": others, "mistakes": mistakes}.get(" ".join(sys.argv[1:])) or sys.argv[1:] or some(LITMUS, 6)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        os.environ["SOFTDEV_IN_ORDER"] = "1" # for "in-order-flag"; nobody else asks
        status, out, _ = run([os.path.join(PROGRAMS, "races")], SECONDS)
        tap.ok(set(out.decode().split()) == set(LITMUS) | set(LOCKS), "each case has an expectation", out)
        status, out, _ = run([os.path.join(PROGRAMS, "lifetimes")], SECONDS)
        tap.ok(set(out.decode().split()) == set(LIFETIMES), "each end of a registration has an expectation", out)
        status, out, _ = run([os.path.join(PROGRAMS, "orders")], SECONDS)
        tap.ok(set(out.decode().split()) == set(ORDERS) | set(SC), "each kind of memory, queue pair and receive has an expectation", out)
        status, out, _ = run([os.path.join(PROGRAMS, "pipelines")], SECONDS)
        tap.ok(sorted(out.decode().split()) == sorted(PIPELINES), "each kind of flag is expected", out)
        for name in names:
            if name in LITMUS:
                litmus(tap, directory, name)
            elif name.startswith("overtaken "):
                overtaken(tap, directory, name.split()[1])
            elif name.startswith("locks "):
                locks(tap, directory, name.split()[1])
            elif name.startswith("lockset "):
                lockset(tap, directory, name.split()[1])
            elif name.startswith("lifetimes "):
                lifetime(tap, directory, name.split()[1])
            elif name.startswith("fetches "):
                fetches(tap, directory, name.split()[1])
            elif name.startswith("orders "):
                orders(tap, directory, name.split()[1])
            elif name.startswith("connections "):
                connections(tap, directory, name.split()[1])
            elif name.startswith("pipelines "):
                pipeline(tap, directory, name.split()[1])
            elif name.startswith("mistakes "):
                mistake(tap, directory, name.split()[1])
            elif name.startswith("consistency "):
                consistency(tap, directory, name.split()[1])
            elif name in WHOLE:
                whole(tap, directory, name)
            else:
                {"steal": steal, "outsider": outsider, "knapsack": knapsack, "guppie": guppie, "options": options, "datagrams": datagrams, "at_once": at_once, "loaded": loaded, "changed": changed, "buffers": buffers, "proxies": proxies, "beside": beside}[name](tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
