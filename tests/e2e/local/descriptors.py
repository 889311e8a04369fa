#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sreplay's own descriptors are out of the program's way: it may have as many files open as its limit allows, and give
any number to a file.  Needs no RDMA.

    descriptors.py
"""

import os
import resource
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, run

# Prints the numbers that it gets, and what it reads by them.
MANY = """
import os, sys
n = int(sys.argv[1])
fds = [os.open(__file__ if i % 2 else '/proc/self/stat', os.O_RDONLY) for i in range(n)]
print(fds[0], fds[-1], fds == list(range(fds[0], fds[0] + n)))
print(all(os.pread(fd, 4, 0) for fd in fds))
r, w = os.pipe()
os.write(w, b'by pipe')
print(r, w, os.read(r, 100))
"""
GIVEN = """
import fcntl, os, sys
for number in map(int, sys.argv[1:]):
    r, w = os.pipe()
    print(os.dup2(w, number), fcntl.fcntl(r, fcntl.F_DUPFD, number))
    print(os.write(number, b'there'), os.read(r, 100))
    os.close(number)
"""
CLOSES = """
import os, resource
for fd in range(3, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 70000)):
    try:
        os.close(fd)
    except OSError:
        pass
print(os.open('/dev/null', os.O_RDONLY))
"""
RAISES = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (900, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
r, w = os.pipe()
print(os.dup2(w, 899), os.write(899, b'there'), os.read(r, 9))
try:
    os.dup2(w, 900)
except OSError as e:
    print(e)
"""


THREADS = """
import sys, threading
n = int(sys.argv[1])
gate = threading.Barrier(n + 1)
threads = [threading.Thread(target=gate.wait) for _ in range(n)]
for t in threads:
    t.start()
gate.wait()
for t in threads:
    t.join()
print(n)
"""


def limited(soft, hard):
    def set_limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return set_limit


def try_program(tap, place, name, text, arguments, soft, hard):
    path, trace = os.path.join(place, "program.py"), os.path.join(place, "%s.srec" % name.replace(" ", "-"))
    with open(path, "w") as f:
        f.write(text)
    command = ["python3", "-S", path] + [str(a) for a in arguments]
    limits = {"preexec_fn": limited(soft, hard)}
    bare = run(command, 60, **limits)
    recorded = run([SREPLAY, "record", "--from-start", "-o", trace, "--"] + command, 60, **limits)
    tap.ok(bare[:2] == recorded[:2], "%s: runs as without sreplay" % name, "%s\n%s" % (bare, recorded))
    for how, options in (("under the same limit", limits), ("under another limit", {"preexec_fn": limited(64, HARD)})):
        replayed = run([SREPLAY, "replay", "--timeout", "10", trace], 60, **options)
        tap.ok(replayed[:2] == recorded[:2] and "0 divergences: exact" in replayed[2], "%s: exact, %s" % (name, how), replayed)


HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as place:
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        try_program(tap, place, "700 open files", MANY, [700], 1024, HARD)
        try_program(tap, place, "3000 open files", MANY, [3000], 4096, HARD)
        try_program(tap, place, "a soft limit of 64", MANY, [40], 64, HARD)
        try_program(tap, place, "a hard limit of 64", MANY, [40], 64, 64)
        try_program(tap, place, "the numbers that sreplay once had", GIVEN, [509, 511, 512, 550, 600, 601, 602, 603, 700], 1024, HARD)
        try_program(tap, place, "the highest number", GIVEN, [1023], 1024, HARD)
        try_program(tap, place, "every number closed", CLOSES, [], 1024, HARD)
        try_program(tap, place, "every number closed below a hard limit", CLOSES, [], 1024, 1024)
        for n in (8, 12, 16, 20, 60):
            try_program(tap, place, "%d threads below a hard limit" % n, THREADS, [n], 1024, 1024)
        try_program(tap, place, "a limit of its own", RAISES, [], 1024, HARD)
    tap.finish()


if __name__ == "__main__":
    main()
