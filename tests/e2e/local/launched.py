#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What launchers give their processes: descriptors, files that they write on and remove; and what libraries do at their start.

Each is recorded, and replayed exactly when all of that is gone. Needs no RDMA.
"""

import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, replay, run, run_functions

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "launched")
SECONDS = 30


def record(place, *arguments, **options):
    command = [SREPLAY, "record", "--from-start", "-o", os.path.join(place, "l.srec"), "--", PROGRAM] + list(arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def check(tap, place, text, status, out, err):
    tap.ok(status == 0 and not err, "%s: recorded" % text, "%s %s %s" % (status, out, err))
    again, replayed, said = replay(os.path.join(place, "l.srec"), 0)
    tap.ok(again == 0 and replayed == out and "0 divergences: exact" in said, "%s: replayed exactly" % text,
           "%s\n%s\n%s" % (out, replayed, said))


def inherited(tap, place):
    ours, theirs = socket.socketpair()
    with ours:
        process = record(place, "inherited", str(theirs.fileno()), pass_fds=[theirs.fileno()])
        theirs.close()
        ours.settimeout(SECONDS)
        heard = ours.recv(100)
        ours.sendall(b"welcome\n")
        out, err = process.communicate(timeout=SECONDS)
    tap.ok(heard == b"hello\n" and out == b"the launcher says welcome\n", "a descriptor from the launcher works", (heard, out))
    check(tap, place, "a descriptor from the launcher", process.returncode, out, err)


def launchers_file(tap, place):
    """Not in /dev/shm; the launcher removes it at the end."""
    path = os.path.join(place, "store")
    with open(path, "wb") as f:
        f.write(bytes(8192))
    process, seen = record(place, "file", path), []
    with open(path, "r+b", buffering=0) as f:
        for n in range(1, 10):
            f.seek(8)
            f.write((n * n).to_bytes(8, "little"))
            f.seek(0)
            f.write(n.to_bytes(8, "little"))
            seen.append(process.stdout.readline())
    out, err = process.communicate(timeout=SECONDS)
    out = b"".join(seen) + out
    os.unlink(path)
    tap.ok([line.split(b":")[0] for line in out.splitlines()] == [b"%d" % n for n in range(1, 10)], "the program sees what the launcher stores in its file", out)
    check(tap, place, "a file that the launcher stores into", process.returncode, out, err)


def unwritten(tap, place):
    process = record(place, "unwritten")
    out, err = process.communicate(timeout=SECONDS)
    check(tap, place, "bytes of the stack that were never written are sent", process.returncode, out, err)


def code(tap, place):
    process = record(place, "code")
    out, err = process.communicate(timeout=SECONDS)
    tap.ok(out == b"ELF\n", "a file is mapped executable further than it reaches", (process.returncode, out))
    check(tap, place, "executable behind a file's end", process.returncode, out, err)


def segment(tap, place):
    bare = run([PROGRAM, "segment"], SECONDS)
    process = record(place, "segment")
    out, err = process.communicate(timeout=SECONDS)
    tap.ok(out == bare[1] and b"detached: 0" in out, "a segment is attached again and detached as without a recorder", (bare, out))
    check(tap, place, "a segment attached again", process.returncode, out, err)


if __name__ == "__main__":
    run_functions([inherited, launchers_file, unwritten, code, segment])
