#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""record --order: messages that recorded ranks send each other are not in the trace, and a replay of all ranks sends
them again. On the software device.

    order.py
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, fresh, read, run, some
from outputs import change

ROOT = os.path.realpath(BUILD)
PROGRAMS = os.path.join(ROOT, "tests", "programs")
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")
FALSIFY = os.path.join(ROOT, "tests", "lib", "falsify")
SECONDS = 60
# A daemon that compresses nothing.
LOGD = [os.path.join(ROOT, "logd", "sreplay-logd"), "--daemonize", "--level", "0", "--idle-exit", "30"]
LEFT_OUT = r'"addr": ?"0x8[0-9a-f]{15}"'


def record(directory, name, ranks, program, options, device=()):
    """(trace, the recorded outputs, '' or what went wrong)"""
    out, trace = fresh(os.path.join(directory, name)), os.path.join(directory, name + ".srec")
    everyone = ",".join(map(str, range(ranks)))
    command = [os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", str(SECONDS), "-o", out, "-w", everyone,
               "%s record %s -o %s --rank %%r --group %s --" % (SREPLAY, options, trace, everyone), os.path.join(PROGRAMS, program[0])]
    status, _, err = run([SOFTDEV] + list(device) + ["--"] + command + program[1:], SECONDS)
    return trace, [read("%s/%d.out" % (out, r)) for r in range(ranks)], "" if status == 0 else "recorded: %s\n%s" % (status, err)


def size(trace):
    return sum(map(os.path.getsize, glob.glob(trace + "/rank-*/thread-*.srs")))


def left_out(trace):
    out = subprocess.run([SREPLAY, "dump", "--json", trace], capture_output=True, text=True).stdout
    return len(re.findall(LEFT_OUT, out))


def exact(directory, trace, outputs, before=(), options=()):
    again = os.path.join(directory, "again")
    shutil.rmtree(again, ignore_errors=True)
    status, _, err = run(list(before) + [SREPLAY, "replay", "-o", again] + list(options) + [trace], SECONDS)
    same = [read("%s/rank-%d.out" % (again, r)) for r in range(len(outputs))] == outputs if status == 0 else False
    good = same and len(re.findall("0 divergences: exact", err)) == len(outputs)
    return "" if good else "replayed: %s\n%s" % (status, err)


def whole_jobs(tap, directory):
    for name, ranks, program in (("pair", 2, ["messages", "300"]), ("few-buffers", 4, ["messages", "60", "2"]),
                                 ("shared", 3, ["messages", "100", "4", "1"]),
                                 ("one-sided", 2, ["dht", "3000"])):
        trace, outputs, problem = record(directory, name, ranks, program, "--order")
        n = left_out(trace)
        problem = problem or exact(directory, trace, outputs)
        # In dht, which claims its slots by compare-swaps: what its look-ups READ, also from the rank's own memory.
        tap.ok(not problem and n > (2400 if name == "one-sided" else 100),
               "%s of %d ranks: %d messages or READs are not in the trace; together the ranks replay exactly" % (" ".join(program), ranks, n), problem)
    for arguments in ["200"], ["20", "150"]:
        trace, outputs, problem = record(directory, "unpolled", 2, ["unpolled"] + arguments, "--order")
        problem = problem or exact(directory, trace, outputs)
        tap.ok(not problem, "unpolled %s: messages that are found in memory before they are polled; the ranks replay exactly" % " ".join(arguments), problem)
        shutil.rmtree(trace)
    found_by_dht(tap, os.path.join(directory, "one-sided.srec"))


def found_by_dht(tap, trace):
    """Its table, which each rank finds changed when its memory is deregistered; and what it finds while its peer writes."""
    found = [e for r in range(2) for e in records(trace, r) if e.get("record") == "exposed"]
    at_end, before = ([e for e in found if bool(e.get("at_call")) == at_call] for at_call in (True, False))
    tap.ok(len(long_values(at_end)) > 10 and not any("data" in v for v in long_values(at_end)),
           "nor is what is found at deregistration: %d values" % len(long_values(at_end)), str(at_end)[:2000])
    # Whether a request lands just while a rank copies the page is chance.
    kept = [e for e in before if any("data" in v for v in long_values([e]))]
    doubts = [info["order"]["doubts"]["landing"] for info in infos(trace, "--order")]
    tap.ok(all(e.get("landing") for e in kept) and sum(doubts) == sum(len(e["values"]) for e in found if e.get("landing")),
           "what is found earlier is in the trace only where a request landed meanwhile: %d times" % len(kept), str(kept)[:2000] + str(doubts))


def long_values(of):
    return [v for e in of for v in e["values"] if v["length"] >= 32]


def infos(trace, *options):
    """What `info` says of each rank."""
    out = subprocess.run([SREPLAY, "info", "--json"] + list(options) + [trace], capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()[1:]]


def by_reads(tap, directory):
    """What READs bring from memory whose owner sees all its changes is left out, too."""
    trace, outputs, problem = record(directory, "fetched", 3, ["mixed", "100"], "--order")
    problem = problem or exact(directory, trace, outputs)
    n = left_out(trace)
    paths = [i["data_path"] for i in infos(trace) if i.get("data_path")]
    per_event = sum(p["bytes_on_disk"] for p in paths) / sum(p["requests"] + p["completions"] + p["values"] for p in paths)
    tap.ok(not problem and 200 < n <= 300 and per_event < 4,
           "mixed of 3 ranks: %d of 300 READs are not in the trace, of %.2f bytes an event; together the ranks replay exactly" % (n, per_event), problem)
    over_a_device(tap, trace, outputs, directory)
    shutil.rmtree(trace)
    # Of READs that land over each other hardly any can be left out.
    for name, least in some((("read-data", 50), ("relayed", 60), ("overlaid", 0), ("contended", 0), ("contended-wide", 0), ("claimed", 180), ("overwritten", 3), ("board", 200)), 4):
        trace, outputs, problem = record(directory, name, 3, ["fetches", name], "--order")
        n = left_out(trace)
        problem = problem or exact(directory, trace, outputs)
        tap.ok(not problem and n >= least, "fetches %s: %d READs into exposed memory are not in the trace; the ranks replay exactly" % (name, n), problem)


def boards(tap, directory):
    """Many ranks write words of one place, and all READ them: from where more of them change at a time than can be found out, it is recorded."""
    for _ in range(3 if FULL else 1):
        trace, outputs, problem = record(directory, "crowded", 8, ["fetches", "board", "100"], "--order")
        problem = problem or exact(directory, trace, outputs)
        tap.ok(not problem, "fetches board of 8 ranks: %d READs are not in the trace; the ranks replay exactly" % left_out(trace), problem)
        shutil.rmtree(trace)


def whole_pages(tap, directory):
    """Where peers alone write, at any place of a page: the page is left out, and not where in it something was found."""
    trace, outputs, problem = record(directory, "pages", 3, ["blocks", "60"], "--order")
    problem = problem or exact(directory, trace, outputs)
    lengths = [v["length"] for e in records(trace, 1) if e.get("record") == "exposed" for v in e["values"] if "data" not in v]
    tap.ok(not problem and len(lengths) > 100 and lengths.count(4096) > 0.7 * len(lengths),
           "blocks: %d of %d values are left out as whole pages; the ranks replay exactly" % (lengths.count(4096), len(lengths)), problem)
    shutil.rmtree(trace)


def written_over(tap, directory):
    """Where ranks write without an order, what a load or a READ found may not be found out; then the memory is named, and recorded by value."""
    for ranks, program in some(((3, ["blocks", "300", "3"]), (4, ["fetches", "board", "300"])), 2):
        for _ in range(5):
            shutil.rmtree(os.path.join(directory, "racing.srec"), ignore_errors=True)
            trace, outputs, problem = record(directory, "racing", ranks, program, "--order")
            status, _, err = run([SREPLAY, "replay", trace], SECONDS)
            if problem or status != 0:
                break
        named = re.search(r"--by-value (0x[0-9a-f]+\+\d+)", err)
        if named:
            by_value, outputs, worse = record(directory, "by-value", ranks, program, "--order --by-value " + named.group(1))
            problem = problem or worse or exact(directory, by_value, outputs)
            shutil.rmtree(by_value)
        # READs are found out where few ranks run at a time.
        tap.ok((named or (status == 0 and program[0] == "fetches")) and not problem,
               "%s of %d ranks: the replay names memory that several ranks write to; recorded by value, they replay exactly" % (" ".join(program[:2]), ranks), problem + err)
        shutil.rmtree(trace)


def sent_from_where_peers_write(tap, directory):
    """The program has stored there, where pages are passed through, and a sample of what it sends finds that."""
    trace, outputs, problem = record(directory, "stored", 3, ["fetches", "stored"], "--order")
    problem = problem or exact(directory, trace, outputs)
    tap.ok(not problem, "fetches stored: what is sent from exposed memory, where pages are passed through; the ranks replay exactly", problem)
    shutil.rmtree(trace)


def still_recorded(tap, directory, trace):
    """Its plan is not its trace's any more: something appends to a stream."""
    growing = os.path.join(directory, "growing.srec")
    shutil.copytree(trace, growing)
    shutil.rmtree(os.path.join(growing, "plan"), ignore_errors=True)
    for _ in range(10):
        writer = subprocess.Popen(["sh", "-c", "while :; do printf x; done >> %s/rank-0/thread-0.srs" % growing])
        status, _, err = run([SREPLAY, "replay", growing], SECONDS)
        writer.kill()
        writer.wait()
        if "still being recorded" in err:
            break
    tap.ok(status == 125 and "wait until its processes have ended" in err, "a job that is still being recorded: the replay says so, and to wait", "%s %s" % (status, err))


def other_reads(tap, directory):
    """The checksum of what a READ brought is another one."""
    trace, _, problem = record(directory, "other-reads", 3, ["mixed", "60"], "--order")
    changed = falsified(trace, re.compile(rb"[^\0].{5}\0\x80\x07\0\0\0.{4}", re.S), 0)
    status, _, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(not problem and changed and status == 124 and "rank 0 thread 0 SN" in err, "another checksum of what a READ brought stops the replay", "%s %s %s %s" % (problem, changed, status, err))
    shutil.rmtree(trace)


def over_a_device(tap, trace, outputs, directory):
    problem = exact(directory, trace, outputs, [SOFTDEV, "--"], ["--transport", "rxe"])
    tap.ok(not problem, "what is left out can come over a device", problem)


def smaller(tap, directory):
    program = ["messages", "300"]
    detailed, outputs, problem = record(directory, "detailed", 3, program, "--clocks")
    small, outputs, worse = record(directory, "small", 3, program, "--order")
    problem = problem or worse or exact(directory, small, outputs)
    tap.ok(not problem and size(small) * 20 < size(detailed), "messages of 2 KB: %d bytes instead of %d" % (size(small), size(detailed)), problem)
    over_a_device(tap, small, outputs, directory)
    return small


def reregisters(tap, directory):
    """What a thread finds when it deregisters memory that a peer has written it finds behind what other threads do meanwhile."""
    trace, outputs, problem = record(directory, "reregisters", 3, ["reregisters"], "--order")
    problem = problem or exact(directory, trace, outputs)
    tap.ok(not problem, "reregisters: threads deregister what peers have written; the ranks replay exactly", problem)


def receives_where_peers_write(tap, directory):
    """The shim reads no buffer of a receive there: its own loads fault, each into the kernel several times."""
    trace, outputs, problem = record(directory, "exposed", 3, ["messages", "100", "4", "1", "1"], "--order")
    calls = [i["calls_by_name"]["post_srq_recv"] for i in infos(trace)]
    aside = [i["exposed"]["counters"]["exchanges"] for i in infos(trace)]
    problem = problem or exact(directory, trace, outputs)
    tap.ok(not problem and min(calls) > 200 and max(aside) < 20,
           "messages into exposed memory: %d receives are posted, and %d instructions executed aside; the ranks replay exactly" % (min(calls), max(aside)), problem)
    shutil.rmtree(trace)


def outruns(tap, directory):
    """One rank writes on without waiting, so that its replay is thousands of writes ahead; the other one's calls find what is left out."""
    for case in ("page", "file"):
        trace, outputs, problem = record(directory, "outruns-" + case, 2, ["outruns", case], "--order")
        left = sum(len(e["values"]) for e in records(trace, 0) if e.get("record") == "exposed" and any("data" not in v for v in e["values"]))
        problem = problem or exact(directory, trace, outputs)
        tap.ok(not problem and left, "outruns %s: %d values of a page that its writer goes on with; the ranks replay exactly" % (case, left), problem)
        shutil.rmtree(trace)


def overlaid(tap, directory):
    """By value, too: the record has of the results in one place the last one."""
    trace, outputs, problem = record(directory, "overlaid", 3, ["queues", "overlaid"], "--clocks")
    problem = problem or exact(directory, trace, outputs)
    tap.ok(not problem, "atomics of a chain whose results come to one place; the ranks replay exactly, recorded by value", problem)


def shared_queues(tap, directory):
    """Recorded by value, or by threads that run at the same time: extract.py does the rest."""
    for case in ("one", "two", "builders", "extended", "shared-receives"):
        for n, options in enumerate(("--clocks", "--order --threads=parallel")):
            trace, outputs, problem = record(directory, "queues-%s-%d" % (case, n), 2, ["shared_queues", case], options)
            problem = problem or exact(directory, trace, outputs)
            tap.ok(not problem, "threads share queues, %s; the ranks replay exactly, recorded with %s" % (case, options), problem)


def without_plan(tap, directory):
    """Nothing can be renamed to where the plan belongs: the ranks are replayed, and the verdict says that they were alone."""
    trace = os.path.join(directory, "detailed.srec")
    with open(trace + "/plan", "w"):
        pass
    status, _, err = run([SREPLAY, "replay", trace], SECONDS)
    tap.ok(status == 0 and "all 3 ranks ended as recorded, each alone: what they did to each other was neither done again nor compared" in err,
           "a group without a plan is replayed rank by rank, and the verdict says so", "%s %s" % (status, err))


def by_one_alone(tap, trace):
    for options in (["--rank", "1"], ["--transport", "none"], ["--group", "0,1"]):
        status, _, err = run([SREPLAY, "replay"] + options + [trace], SECONDS)
        tap.ok(status == 125 and "replay all ranks together" in err, "%s cannot replay it, and says why" % " ".join(options), "%s %s" % (status, err))


def other_commands(tap, trace):
    info = subprocess.run([SREPLAY, "info", "--rank", "1", trace], capture_output=True, text=True).stdout
    tap.ok(re.search(r"left out \(--order\): [1-9]\d+ pieces of messages \([1-9]\d+ bytes\)", info), "info says so", info)
    lines = subprocess.run([SREPLAY, "dump", "--json", "--rank", "1", trace], capture_output=True, text=True).stdout.splitlines()
    sn = next(json.loads(line)["sn"] for line in lines if re.search(LEFT_OUT, line))
    said = subprocess.run([SREPLAY, "explain", "1:%d" % sn, trace], capture_output=True, text=True).stdout
    tap.ok("that the trace leaves out (record --order)" in said, "explain says so", said)
    problems = [c for c in (["verify"], ["process"], ["graph"], ["orders"], ["suggest"], ["report", "-o", trace + ".html"])
                if run([SREPLAY] + c + [trace], SECONDS)[0]]
    tap.ok(not problems, "other commands read it", problems)
    said = [run([SREPLAY] + c + [trace], SECONDS)[2] for c in (["graph"], ["suggest"], ["report", "-o", trace + ".html"])]
    tap.ok(all("--record-ranks 0-2" in s for s in said), "and name the remedy where they need addresses of requests", said)


def falsified(trace, place, at):
    """Changes one byte of rank 0's records, `at` bytes behind the first such place of each frame; how many there are."""
    def flip(body):
        i = place.search(body).end() + at
        return body[:i] + bytes([body[i] ^ 1]) + body[i + 1:]

    with open(os.path.join(trace, "rank-0", "thread-0.srs"), "rb") as f:
        found = place.search(f.read())
    return change(trace, found.group(0), flip) if found else 0


def damaged(tap, directory):
    """What was received is not what its sender sends; what is sent is not what was sent."""
    message = re.compile(rb"[^\0].{5}\0\x80\x05\0\0\0.{4}", re.S)
    check = re.compile(rb"\x10\0\0\0\x12\0\0\0", re.S)
    for what, place, at, ends, said in (("another checksum of a message", message, 0, 124, "is not what its sender, rank 1, sends in this replay"),
                                        ("another place of a message", message, -16, 125, "none of the ranks has produced it in this replay"),
                                        ("another sum of what is sent", check, 0, 124, "sends other bytes than recorded"),
                                        ("another sum of what is received", check, 4, 124, "received other bytes from other ranks than recorded")):
        trace, _, problem = record(directory, "damaged", 2, ["messages", "200"], "--order")
        changed = falsified(trace, place, at)
        status, _, err = run([SREPLAY, "replay", trace], SECONDS)
        named = re.search(r"rank 0 thread 0 SN (\d+): .*" + said, err)
        calls = json.loads(subprocess.run([SREPLAY, "info", "--json", "--rank", "0", trace], capture_output=True, text=True).stdout.splitlines()[1])["calls"]
        tap.ok(not problem and changed and status == ends and named and int(named.group(1)) < calls, # many of them idle polls, before or behind
               "%s in the trace of rank 0 stops its replay before its end" % what, "%s %s %s %s" % (problem, changed, status, err))
        shutil.rmtree(trace)


def records(trace, rank):
    lines = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), trace], capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def completes(record, opcode):
    """Is it a poll that found a completion of that kind?"""
    found = (record.get("out") or {}).get("wc") if record.get("call") == "poll_cq" else None
    return any(wc["opcode"] == opcode for wc in found or [])


def events(record):
    """Requests, completions and values."""
    if record.get("call") == "poll_cq":
        return len(record["out"].get("wc", []) or [])
    if record.get("call") in ("post_send", "post_recv"):
        return len(record["in"]["wr"])
    return len(record["values"]) if record.get("record") == "exposed" else 0


def is_word(record):
    return record.get("record") == "exposed" and [v["length"] for v in record["values"]] == [8]


def found_words(of_rank):
    """Records of words that fetches.c's chain has used: it loads one behind each READ.  What other loads of that page find is
    nobody's if a newer word comes until then."""
    reads = [r["sn"] for r in of_rank if completes(r, READ)]
    words = [r for r in of_rank if is_word(r)]
    ends = [r["sn"] for r in words[1:]] + [float("inf")]
    return [r for r, end in zip(words, ends) if any(r["sn"] < sn < end for sn in reads)]


def firsts(of_rank):
    """`falsify` changes the first record of its kind behind a call."""
    seen = set()
    for r in of_rank:
        key = r["sn"], r.get("record")
        if key not in seen:
            yield r
        seen.add(key)


ATOMIC, READ = 4, 2
# Events of a round of mixed.c or of fetches.c's chain, in which what has entered leaves the rank again; the sums are compared
# 256 later at most.
ROUND = 24
MIXED, CHAIN = ["mixed", "120"], ["fetches", "chain"]


def those(is_it):
    return lambda of_rank: [r for r in of_rank if is_it(r)]


# What entered rank 1 of a program that puts all of it into what it sends, and which of its bytes is changed.
ENTERED = ((MIXED, "a time", those(lambda r: r.get("call") == "clock_gettime"), []),
           (MIXED, "an atomic's result", those(lambda r: completes(r, ATOMIC)), []),
           (CHAIN, "a byte that a READ brought", those(lambda r: completes(r, READ)), []),
           (CHAIN, "a byte that a load found", found_words, ["exposed"]))


def stopped_at(err, rank):
    """The SN at which the rank is, if it is named as the one that went another way: by its own sums, or by another one's value."""
    # Where a load found nothing but at the end, the rank prints what comes of it before it sends anything.
    own = re.search(r"rank %d thread 0 SN (\d+): (?:between SN|write writes other bytes|.* this rank goes another way)" % rank, err)
    if own:
        return int(own.group(1))
    named = "sends in this replay: that rank goes another way" in err and re.search(r"rank %d, (?:which alone writes there, )?sends in" % rank, err)
    there = re.search(r"^sreplay:   rank %d thread 0 SN (\d+): " % rank, err, re.M)
    return int(there.group(1)) if named and there else 0


def recorded(directory, program):
    """(a trace that replays exactly, the records of rank 1, '' or what went wrong)"""
    trace, outputs, problem = record(directory, program[0], 3, program, "--order")
    return trace, records(trace, 1), problem or exact(directory, trace, outputs)


def changed_on_purpose(tap, directory):
    """Whatever is changed of what entered a rank, it is this rank that is stopped, and soon."""
    of = {program[0]: recorded(directory, program) for program in (MIXED, CHAIN)}
    for program, what, entered, where in ENTERED:
        trace, of_rank, problem = of[program[0]]
        copy = os.path.join(directory, "changed.srec")
        first = {id(r) for r in firsts(of_rank)}
        found = [r["sn"] for r in entered(of_rank) if id(r) in first]
        shutil.copytree(trace, copy)
        sn, changed = 0, None
        # From the middle on: `falsify` refuses a record in which it finds no such byte.
        for sn in found[len(found) // 2:] + found[:len(found) // 2]:
            changed = subprocess.run([FALSIFY, copy, "1", "0", str(sn)] + where, capture_output=True, text=True)
            if changed.returncode == 0:
                break
        status, _, err = run([SREPLAY, "replay", copy], SECONDS)
        end = stopped_at(err, 1)
        n = sum(events(r) for r in of_rank if sn < r["sn"] < end)
        tap.ok(not problem and found and changed.returncode == 0 and status == 124 and end and n <= ROUND + 256,
               "%s is another one in rank 1: it is stopped after %d events, and named" % (what, n), "%s %s %s %s" % (problem, changed, status, err))
        shutil.rmtree(copy)


def looked(trace, rank):
    """SNs behind which a load of the rank found 8 bytes that another one had put there."""
    lines = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), trace], capture_output=True, text=True).stdout.splitlines()
    return [r["sn"] for r in map(json.loads, lines) if r.get("record") == "exposed" and [v["length"] for v in r["values"]] == [8]]


def another_way(tap, directory):
    """A rank that finds another number sends other messages from then on."""
    trace, _, problem = record(directory, "another", 3, ["messages", "200"], "--order")
    found = [sn for sn in looked(trace, 1) if sn > 300]
    changed = subprocess.run([FALSIFY, trace, "1", "0", str(found[0]), "exposed"], capture_output=True, text=True) if found else None
    status, _, err = run([SREPLAY, "replay", trace], SECONDS)
    named = re.findall(r"is not what its sender, rank (\d), sends", err)
    own = re.search(r"rank 1 thread 0 SN (\d+): between SN \d+ and this call the program sends other bytes", err)
    tap.ok(not problem and found and changed.returncode == 0 and status == 124 and ("1" in named or own),
           "a rank that goes another way behind a changed value is the one that is named", "%s %s %s %s" % (problem, changed, status, err))


def checks(tap, trace):
    """A rank's requests, completions and values are at most 256 between two records of their sums."""
    lines = subprocess.run([SREPLAY, "dump", "--json", "--rank", "1", trace], capture_output=True, text=True).stdout.splitlines()
    n = most = found = 0
    for r in map(json.loads, lines):
        if r.get("call") == "poll_cq":
            n += len(r["out"].get("wc", []) or [])
        elif r.get("call") in ("post_send", "post_recv"):
            n += len(r["in"]["wr"])
        elif r.get("record") == "check":
            most, n, found = max(most, n), 0, found + 1
    sums = re.findall(r'"checksum": ?"(0x[0-9a-f]+)"', "".join(l for l in lines if "post_send" in l))
    tap.ok(found > 3 and n == 0 and most <= 256 and sums and set(sums) == {"0x0"},
           "%d records of sums, of at most %d requests and completions" % (found, most), "%d left" % n)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        whole_jobs(tap, directory)
        small = smaller(tap, directory)
        without_plan(tap, directory)
        reregisters(tap, directory)
        receives_where_peers_write(tap, directory)
        outruns(tap, directory)
        overlaid(tap, directory)
        shared_queues(tap, directory)
        by_reads(tap, directory)
        boards(tap, directory)
        whole_pages(tap, directory)
        written_over(tap, directory)
        sent_from_where_peers_write(tap, directory)
        by_one_alone(tap, small)
        still_recorded(tap, directory, small)
        other_commands(tap, small)
        checks(tap, small)
        another_way(tap, directory)
        changed_on_purpose(tap, directory)
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "plain.sock")
        subprocess.run(LOGD, check=True)
        damaged(tap, directory)
        other_reads(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
