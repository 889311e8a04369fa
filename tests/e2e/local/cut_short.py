#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Recordings that end before the program does: the replay goes as far, says why there is no more, and gives the status 123 (or that of a signal
which the program sent itself).

    cut_short.py [CASE...]

Needs no RDMA.
"""

import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, run, run_functions  # noqa: E402
from stalls import PROGRAM, Daemon, Recording, wait_written  # noqa: E402

AS_FAR = (r"sreplay: rank 0 thread \d SN \d+: the trace ends here, before the program does \(next would be %s\)\n"
          r"sreplay: the recording was cut short: %s\n"
          r"sreplay: rank 0: [1-9]\d* calls replayed, 0 divergences: exact, up to the end of the trace\n")
KILLED = r"sreplay: rank 0: [1-9]\d* calls replayed, 0 divergences: exact, up to where the recorded program was killed\n"
ENDED = (r"sreplay: rank 0: the program was ended by signal 9 \(Killed\), where the recording ends too\n"
         r"sreplay: rank 0: [1-9]\d* calls replayed, 0 divergences: exact\n")


def check(tap, trace, what, words, output=None, prefix=(), timeout=10, ends=123):
    status, out, err = run([*prefix, SREPLAY, "replay", "--timeout", str(timeout), trace], 60 + timeout)
    tap.ok(status == ends and re.fullmatch(words, err), "%s: so says the verdict" % what, "%s %s" % (status, err))
    if output is not None:
        tap.ok(out == output, "... and the replay went as far", out)


def killed(tap, place):
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        recording = Recording(daemon, trace, "fill", "1", "100000", "5").until_begun()
        while not os.path.exists(os.path.join(trace, "rank-0", "thread-1.srs")):
            time.sleep(0.02)
        recorded = subprocess.run(["pgrep", "-P", str(recording.process.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(recorded[0]), signal.SIGKILL)
        recording.end()
        wait_written(daemon, trace)
        check(tap, trace, "killed", KILLED, recording.out)


# One thread is in a call that never ends, and the other one makes none for more than a second.
COMPUTES = """import os, threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
time.sleep(0.2)
for k in range(3):
    os.write(1, b"%d\\n" % k)
    for i in range(15000000): k = (k * 31 + i) % 1000003
os.kill(os.getpid(), 9)"""


def computing(tap, place):
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, "--", sys.executable, "-c", COMPUTES], 
                       env=dict(os.environ, SREPLAY_SOCKET=daemon.socket), capture_output=True)
        wait_written(daemon, trace)
        check(tap, trace, "it computes, and kills itself", ENDED, b"0\n1\n2\n", timeout=60, ends=137)


SPINS = "import os; os.write(1, b'begins\\n')\nwhile True: pass"


def computed_for_long(tap, place):
    """Killed when it had computed for longer than a replay may do nothing: at an endless loop that waits for something, mostly."""
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        process = subprocess.Popen([SREPLAY, "record", "-q", "--from-start", "-o", trace, "--", sys.executable, "-c", SPINS],
                                   env=dict(os.environ, SREPLAY_SOCKET=daemon.socket), stdout=subprocess.PIPE, start_new_session=True)
        process.stdout.readline()
        time.sleep(6)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_written(daemon, trace)
        check(tap, trace, "killed after a long loop", KILLED, b"begins\n", timeout=3)


def dies_at_once(tap, place):
    """Without a record, a trace has no stream of the thread's. (With the trap, libc has made calls before main.)"""
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        Recording(daemon, trace, "dies", options=["--syscall-trap=off"]).end()
        wait_written(daemon, trace)
        status, _, err = run([SREPLAY, "replay", "--live-files", trace], 60)
        tap.ok(status == 128 + signal.SIGILL and "where the recording ends too" in err and
               "rank 0: 0 calls replayed, 0 divergences: exact" in err, "a program that dies before its first call", "%s %s" % (status, err))


def given_up(tap, place, what, *program):
    with Daemon(place) as daemon:
        trace = os.path.join(place, what + ".srec")
        recording = Recording(daemon, trace, *program).until_begun()
        time.sleep(0.1)
        daemon.send(signal.SIGSTOP)
        recording.end()
        daemon.send(signal.SIGCONT)
        wait_written(daemon, trace)
        check(tap, trace, what, AS_FAR % ("(getrandom|clock_gettime)", "the process gave up waiting for sreplay-logd"),
              recording.out.splitlines(True)[0])


def unrecorded(tap, place):
    """The program goes on without a daemon that does not answer.  What a thread then leads to, others have in their records."""
    given_up(tap, os.path.join(place, "1"), "not recorded any further", "fill", "1", "1500", "1")
    given_up(tap, os.path.join(place, "2"), "others are recorded further", "leads", "1500")


def forbidden(tap, place):
    with Daemon(place) as daemon:
        for how in "list", "strict":
            trace = os.path.join(place, how + ".srec")
            recording = Recording(daemon, trace, "filter", how)
            recording.end()
            check(tap, trace, "a filter of system calls (%s)" % how,
                  AS_FAR % ("write", "the program forbade what a recording needs"), b"before\n")


def out_of_space(tap, place):
    """In a small file system of its own, which lives as long as the shell."""
    script = 'mount -t tmpfs -o size=300k none "$1" && "$2" record -s -o "$1/t" -- "$3" fill 1 300 1 >&2; exec "$2" replay "$1/t"'
    env = dict(os.environ, SREPLAY_SOCKET=os.path.join(place, "l.sock"))
    status, out, err = run(["unshare", "-rm", "sh", "-c", script, "sh", place, SREPLAY, PROGRAM], 60, env=env)
    if "unshare" in err:
        print("# no user namespaces: %s" % err)
        return
    words = ".*sreplay-logd cannot write its trace \\(No space left on device\\)\n.*" + AS_FAR % (
        r"\w+", "recording of this thread ended: No space left on device")
    tap.ok(status == 123 and re.fullmatch(words, err, re.DOTALL), "no space: so says the verdict", "%s %s" % (status, err))
    tap.ok(out == b"begins\n", "... and the replay went as far", out)


if __name__ == "__main__":
    run_functions([killed, computing, computed_for_long, dies_at_once, unrecorded, forbidden, out_of_space])
