#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Messages that bring the same bytes again are in a trace once (SR_RECORD_REFERS), and each reader finds all of them. Needs no
RDMA.

    repeats.py
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, run
import second_reader

ROOT = os.path.realpath(BUILD)
PROGRAM = os.path.join(ROOT, "tests", "programs", "repeats")
SIZES, ROUNDS = (1000, 1024, 5000, 65536, 200000, 1500000), 5
SENT = sum(SIZES) * ROUNDS
# "same" takes one message, "turns" three, "new" all; "byte" the blocks of 64 KiB that have changed, and in small rings all.
DISTINCT = sum(SIZES) * (1 + 3 + ROUNDS)


def raw_bytes(trace):
    status, out, _ = run([SREPLAY, "info", "--json", trace], 60)
    return max([json.loads(line)["bytes"] for line in out.splitlines() if b'"bytes"' in line], default=0) if status == 0 else 0


def frame_header(data, at):
    """(size of the whole frame, its codec)"""
    return 64 + int.from_bytes(data[at + 8:at + 12], "little"), data[at + 4]


def check(tap, directory, name, settings, most):
    trace = os.path.join(directory, name.replace(" ", "-") + ".srec")
    bare = run([PROGRAM], 60)
    recorded = run([SREPLAY, "record", "-o", trace, "--", PROGRAM], 60, env=dict(os.environ, **settings))
    tap.ok(recorded[:2] == bare[:2] and bare[0] == 0, "%s: it runs as ever" % name, recorded[2])
    taken = raw_bytes(trace)
    tap.ok(0 < taken < most, "%s: what came again takes no room" % name, "%d bytes, of %d received" % (taken, 4 * SENT))
    verified = run([SREPLAY, "verify", trace], 60)
    tap.ok(verified[0] == 0, "%s: verify" % name, verified[1])
    replayed = run([SREPLAY, "replay", trace], 60)
    tap.ok(replayed[:2] == recorded[:2] and "0 divergences: exact" in replayed[2], "%s: the replay is exact" % name, replayed[2][-1000:])
    return trace


def check_a_seek(tap, trace):
    """A reader that begins in the middle finds the same bytes, although they are in earlier frames."""
    whole = [line for line in run([SREPLAY, "dump", "--json", trace], 60)[1].splitlines() if b'"poll_cq"' in line]
    sn = json.loads(whole[len(whole) // 2])["sn"]
    part = run([SREPLAY, "dump", "--json", "--sn", "%d.." % sn, trace], 60)[1].splitlines()
    part = [line for line in part if b'"poll_cq"' in line]
    tap.ok(len(part) > 20 and part == whole[-len(part):], "a reader that begins in the middle finds the same bytes",
           "%d of %d records" % (len(part), len(whole)))


def check_damage(tap, trace):
    """Without the frame that a later one refers to, or with a reference that leads nowhere, it is damage."""
    path = os.path.join(trace, "rank-0", "thread-0.srs")
    with open(path, "rb") as f:
        data = f.read()
    at, frames = 64, []
    while at < len(data):
        size, codec = frame_header(data, at)
        frames.append((at, size, codec))
        at += size
    tap.ok(any(codec & 16 for _, _, codec in frames), "frames with references have a codec that earlier readers refuse", frames)
    first = frames[0]
    with open(path, "wb") as f:
        f.write(data[:first[0] + 64] + bytes(first[1] - 64) + data[first[0] + first[1]:])
    verified = run([SREPLAY, "verify", trace], 60)
    tap.ok(verified[0] > 0 and "damaged" in verified[1].decode() + verified[2], "bytes that are referred to and damaged are reported", verified[1:])
    with open(path, "wb") as f:
        f.write(data)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        os.environ["LD_LIBRARY_PATH"] = os.path.join(ROOT, "tests", "lib", "softdev")
        subprocess.run([os.path.join(ROOT, "logd", "sreplay-logd"), "--daemonize", "--idle-exit", "30"], check=True)
        trace = check(tap, directory, "by default", {}, 1.5 * DISTINCT)
        problem = second_reader.check_trace(trace, [second_reader.CALLS])
        tap.ok(not problem, "a reader made from the description finds what dump does", problem)
        check_a_seek(tap, trace)
        check_damage(tap, trace)
        # Which blocks displace each other in the recorder's table is chance: it costs a tenth now and then.
        check(tap, directory, "a small ring", {"SREPLAY_RING": "262144"}, 2.4 * DISTINCT)
    tap.finish()


if __name__ == "__main__":
    main()
