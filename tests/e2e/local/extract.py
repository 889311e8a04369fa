#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""replay --record-ranks: of a job that was recorded with --order a replay of the whole job makes detailed traces of some
ranks, which replay alone. On the software device.

    extract.py
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, read, run, some
from order import LOGD, SECONDS, left_out, record, size
from outputs import change


def extract(trace, ranks, detail, before=()):
    shutil.rmtree(detail, ignore_errors=True)
    return run(list(before) + [SREPLAY, "replay", "--record-ranks", ranks, "-o", detail, trace], SECONDS)


def alone(detail, rank, output):
    """'' or what went wrong: without the other ranks, and without a device."""
    status, out, err = run([SREPLAY, "replay", "-r", str(rank), detail], SECONDS)
    good = status == 0 and out == output and "0 divergences: exact" in err
    return "" if good else "rank %d: %s %s\n%s" % (rank, status, out, err)


def jobs(tap, directory):
    detail = os.path.join(directory, "detail.srec")
    for name, ranks, program in (("ring", 3, ["messages", "300"]), ("few-buffers", 4, ["messages", "60", "2"]),
                                 ("one-sided", 2, ["dht"]), ("blocks", 3, ["blocks", "30"]), ("halo", 4, ["laplace"]),
                                 ("fetched", 3, ["fetches", "read-data"]), ("requests", 3, ["fetches", "chain"]),
                                 ("datagrams", 3, ["fetches", "datagrams"]), ("mixed", 3, ["mixed"]),
                                 ("relayed", 3, ["fetches", "relayed"]),
                                 ("results", 3, ["queues", "overlaid"]), ("unasked", 3, ["queues", "unasked"]), ("alike", 3, ["queues", "empty"]),
                                 ("posters", 3, ["queues", "posters"]), ("full", 2, ["queues", "full"]),
                                 ("deregistered", 3, ["queues", "deregistered"]), ("ended", 3, ["lifetimes", "scatter-racing"]),
                                 ("threads", 2, ["shared_queues", "one"]), ("pairs", 2, ["shared_queues", "two"]),
                                 ("builders", 2, ["shared_queues", "builders"]), ("extended", 2, ["shared_queues", "extended"]),
                                 ("shared-receives", 2, ["shared_queues", "shared-receives"])):
        trace, outputs, problem = record(directory, name, ranks, program, "--order")
        status, _, err = extract(trace, "0-%d" % (ranks - 1), detail)
        problem = problem or (err if status or "of no request" in err else "") or "".join(alone(detail, r, outputs[r]) for r in range(ranks))
        problem = problem or (left_out(detail) and "the new trace lacks values")
        whole = run([SREPLAY, "verify", detail], SECONDS)
        problem = problem or (whole[0] and whole[1].decode())
        tap.ok(not problem, "%s: each of %d ranks extracted, and replayed alone" % (" ".join(program), ranks), problem)
    return os.path.join(directory, "ring.srec")


def values_left_out(trace):
    """Of exposed memory."""
    out = subprocess.run([SREPLAY, "dump", "--json", trace], capture_output=True, text=True).stdout
    return len(re.findall(r'"length":\d+,"checksum"', out))


def of_exposed_memory(tap, directory):
    trace, detail = os.path.join(directory, "blocks.srec"), os.path.join(directory, "blocks-detail.srec")
    status, _, err = extract(trace, "0-2", detail)
    n = values_left_out(trace), values_left_out(detail)
    tap.ok(status == 0 and n[0] > 300 and n[1] == 0 and size(trace) * 12 < size(detail),
           "%d values of exposed memory are not in the trace, of %d bytes instead of %d" % (n[0], size(trace), size(detail)), "%s %s" % (n, err))
    said = subprocess.run([SREPLAY, "races", trace], capture_output=True, text=True)
    tap.ok(said.returncode == 125 and "--record-ranks 0-2" in said.stderr, "races names the remedy", said.stderr)
    said = subprocess.run([SREPLAY, "replay", "-r", "1", trace], capture_output=True, text=True)
    tap.ok(said.returncode == 125 and "--record-ranks 1" in said.stderr and "found by a load" in said.stderr,
           "and so does a replay of one rank alone", said.stderr)
    # In random order, and into memory that several ranks write to.
    problems = []
    for seed, program in some(((5, ["blocks", "15", "1"]), (6, ["blocks", "15"]), (7, ["laplace"]),
                                (5, ["queues", "beside"]), (5, ["queues", "read-beside"]), (16, ["queues", "over", "150"])), 6):
        trace, outputs, problem = record(directory, "seed-%d" % seed, 3, program, "--order", ["-s", str(seed)])
        status, _, err = extract(trace, "1", detail)
        problems += [p for p in (problem, err if status else alone(detail, 1, outputs[1])) if p]
    tap.ok(not problems, "a device that executes requests in random order", "\n".join(problems))


def wrong_value(tap, directory):
    """The checksum of a value is another one."""
    trace, _, problem = record(directory, "wrong", 2, ["blocks", "10"], "--order")
    place = re.compile(rb"\0\x80\x07\0{7}.{4}", re.S)

    def flip(body):
        at = place.search(body).end()
        return body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]

    with open(os.path.join(trace, "rank-0", "thread-0.srs"), "rb") as f:
        found = place.search(f.read())
    changed = change(trace, found.group(0), flip) if found else 0
    status, _, err = run([SREPLAY, "replay", "--record-ranks", "1", "-o", os.path.join(directory, "none.srec"), trace], SECONDS)
    tap.ok(not problem and changed and status == 124 and "[rank 0] sreplay: rank 0 thread 0" in err and "found by a load" in err
           and "is not made" in err and not os.path.exists(os.path.join(directory, "none.srec")),
           "a value that no writes come to stops the replay of its rank, and no trace is made", "%s %s %s %s" % (problem, changed, status, err))


def one_of_three(tap, trace, directory):
    """Only the wanted rank is in the new trace, which says nothing of values left out."""
    detail = os.path.join(directory, "one.srec")
    status, _, err = extract(trace, "1", detail)
    infos = [subprocess.run([SREPLAY, "info", "--json", t], capture_output=True, text=True).stdout for t in (trace, detail)]
    tap.ok(status == 0 and '"messages_left_out":true' in infos[0] and '"messages_left_out":false' in infos[1]
           and os.listdir(detail).count("rank-1") == 1 and "rank-0" not in os.listdir(detail),
           "one rank of three is extracted, and info says what each trace has", err + infos[1])
    said = subprocess.run([SREPLAY, "replay", "-r", "1", trace], capture_output=True, text=True).stderr
    tap.ok("--record-ranks 1" in said, "replaying the rank alone from the job's trace names the remedy", said)


def refused(tap, trace, directory):
    detail = os.path.join(directory, "refused.srec")
    for arguments, reason in ((["--record-ranks", "1,9", "-o", detail], "cannot be produced again"),
                              (["--record-ranks", "x", "-o", detail], "expected ranks"),
                              (["--record-ranks", "1"], "where to?"),
                              (["--record-ranks", "1", "-o", trace], "there already"),
                              (["--record-ranks", "1", "-o", detail, "--group", "0,1"], "replays all ranks")):
        status, _, err = run([SREPLAY, "replay"] + arguments + [trace], SECONDS)
        tap.ok(status == 125 and reason in err and not os.path.exists(detail), "%s: %s" % (" ".join(arguments[:2]), reason), err)
    drafts = [f for f in os.listdir(directory) if f.startswith(".")]
    tap.ok(not drafts, "no draft is left", drafts)


def without_space(tap, trace, directory):
    small = os.path.join(directory, "small")
    os.mkdir(small)
    script = 'mount -t tmpfs -o size=%s none "$1" && shift && exec "$@"'
    for size in "300k", "1200k":
        status, _, err = extract(trace, "1", os.path.join(small, "d.srec"),
                                 ["unshare", "-rm", "sh", "-c", script % size, "sh", small])
        if "unshare" in err:
            print("# no user namespaces: %s" % err)
            continue
        tap.ok(status == 125 and "No space left on device" in err, "no space (%s) is said" % size, "%s %s" % (status, err))


def cut_short(tap, directory):
    """A rank's trace ends before those of its peers, as that of a killed one may."""
    trace, outputs, problem = record(directory, "cut", 3, ["messages", "3000"], "--order")
    stream = os.path.join(trace, "rank-0", "thread-0.srs")
    os.truncate(stream, os.path.getsize(stream) // 2)
    detail = os.path.join(directory, "cut-detail.srec")
    status, _, err = extract(trace, "0-2", detail)
    tap.ok(not problem and status == 123 and len(re.findall("up to what another rank's trace lacks", err)) == 2
           and len(re.findall("needs what rank [0-2] did", err)) == 2,
           "where a rank's trace ends, the others are exact as far as that", "%s %s %s" % (problem, status, err))
    calls = {int(r): int(n) for r, n in re.findall(r"rank (\d): (\d+) calls replayed", err)}
    for r in range(3):
        status, _, err = run([SREPLAY, "replay", "-r", str(r), detail], SECONDS)
        found = re.search(r"rank %d: (\d+) calls replayed, 0 divergences: exact" % r, err)
        # Perhaps farther: in the group a rank also waits where it lacks no value.
        tap.ok(status == 123 and found and int(found.group(1)) >= calls.get(r, 1 << 30),
               "and so is rank %d alone" % r, "%s %s" % (status, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        trace = jobs(tap, directory)
        of_exposed_memory(tap, directory)
        one_of_three(tap, trace, directory)
        refused(tap, trace, directory)
        without_space(tap, trace, directory)
        cut_short(tap, directory)
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "plain.sock")
        subprocess.run(LOGD, check=True)
        wrong_value(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
