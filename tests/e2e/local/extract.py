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
from harness import SREPLAY, Tap, read, run
from order import SECONDS, left_out, record


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
                                 ("one-sided", 2, ["dht"])):
        trace, outputs, problem = record(directory, name, ranks, program, "--order")
        status, _, err = extract(trace, "0-%d" % (ranks - 1), detail)
        problem = problem or ("" if status == 0 else err) or "".join(alone(detail, r, outputs[r]) for r in range(ranks))
        problem = problem or (left_out(detail) and "the new trace lacks values")
        whole = run([SREPLAY, "verify", detail], SECONDS)
        problem = problem or (whole[0] and whole[1].decode())
        tap.ok(not problem, "%s: each of %d ranks extracted, and replayed alone" % (" ".join(program), ranks), problem)
    return os.path.join(directory, "ring.srec")


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
           and len(re.findall("needs what rank 0 did", err)) == 2,
           "where a rank's trace ends, the others are exact as far as that", "%s %s %s" % (problem, status, err))
    calls = {int(r): int(n) for r, n in re.findall(r"rank (\d): (\d+) calls replayed", err)}
    for r in range(3):
        status, _, err = run([SREPLAY, "replay", "-r", str(r), detail], SECONDS)
        tap.ok(status == 123 and "rank %d: %d calls replayed, 0 divergences: exact" % (r, calls.get(r, 0)) in err,
               "and so is rank %d alone" % r, "%s %s" % (status, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        trace = jobs(tap, directory)
        one_of_three(tap, trace, directory)
        refused(tap, trace, directory)
        without_space(tap, trace, directory)
        cut_short(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
