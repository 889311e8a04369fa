#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two recorded processes talk through shared memory by plain loads and stores; each is replayed alone, exactly."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "shared_memory")
ROUNDS = "300"


def remove(how, name):
    if how != "system-v":
        os.unlink("/dev/shm/" + name)
    else:
        subprocess.run(["ipcrm", "-M", name], check=True)


def check(tap, directory, how, name):
    trace = os.path.join(directory, how + ".srec")
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "-o", trace, "--rank", str(rank), "--", PROGRAM, how, name,
                               str(rank), ROUNDS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
    said = [rank.communicate(timeout=100) for rank in ranks]
    remove(how, name)
    tap.ok(all(rank.returncode == 0 for rank in ranks) and all(len(out) > 5 for out, _ in said),
           "%s: both run" % how, str(said))
    for rank in range(2):
        status, out, err = replay(trace, rank)
        tap.ok(status == 0 and out == said[rank][0] and "0 divergences: exact" in err,
               "%s: rank %d replays exactly, without the other and without the memory" % (how, rank),
               "%s\n%s\n%s\n%s" % (status, said[rank][0], out, err))


    status, out, err = run([SREPLAY, "replay", trace], 100)
    tap.ok(status == 0 and "all 2 ranks ended as recorded" in err and "through memory shared with other processes" in err,
           "%s: both together replay exactly, and what came through the memory is said" % how, "%s\n%s" % (status, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        check(tap, directory, "posix", "sreplay-test-%d" % os.getpid())
        check(tap, directory, "copied", "sreplay-copied-%d" % os.getpid())
        check(tap, directory, "system-v", "0x%x" % (0x53520000 + os.getpid() % 65536))
    tap.finish()


if __name__ == "__main__":
    main()
