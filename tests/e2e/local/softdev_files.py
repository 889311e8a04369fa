#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The files of sysfs and /dev that the software device has (tests/lib/softdev/files), by each function of libc.

A program of two threads and a child looks at them: bare, under valgrind, with the address sanitizer, and recorded and replayed.
Without a fabric, and with the library preloaded, it finds none.
"""

import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay, run

BUILD = os.path.realpath(BUILD)
PROGRAM = os.path.join(BUILD, "tests", "programs", "softdev_files")
LIBRARY = os.path.join(BUILD, "tests", "lib", "softdev", "files", "libsoftdev_files.so")
SECONDS = 60


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        trace = os.path.join(directory, "trace.srec")
        preloaded = dict(os.environ, LD_PRELOAD=LIBRARY, SREPLAY_SOCKET=os.path.join(directory, "logd.sock"))
        there = dict(preloaded, SOFTDEV_FABRIC=directory)
        # The sanitizer wants to be the first library, but does not need to be.
        for name, command, env in (
                ("bare", [PROGRAM], there),
                ("under valgrind", ["valgrind", "-q", "--trace-children=no", "--error-exitcode=9", PROGRAM], there),
                ("with the address sanitizer", [PROGRAM + "_asan"], dict(there, ASAN_OPTIONS="verify_asan_link_order=0")),
                ("recorded", [SREPLAY, "record", "--from-start", "-o", trace, "--", PROGRAM], there)):
            if not shutil.which(command[0]):
                print("ok %d - %s # SKIP no %s here" % (tap.count + 1, name, command[0]))
                tap.count += 1
                continue
            status, out, err = run(command, SECONDS, env=env)
            tap.ok(status == 0 and out == b"0 wrong\n", "all functions find the files, " + name,
                   "status %s\n%s%s" % (status, out.decode(), err))
        status, out, err = replay(trace, 0)
        tap.ok(status == 0 and out == b"0 wrong\n", "replayed", "status %s\n%s%s" % (status, out.decode(), err))
        status, out, err = run([PROGRAM], SECONDS, env=preloaded)
        tap.ok(status == 1 and b"check_others" not in out and b"open(path" not in out, "without a fabric none is found", out.decode() + err)
    tap.finish()


if __name__ == "__main__":
    main()
