#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay record` ends when its own processes are written, whatever the other ranks of the trace
still do.  Needs no RDMA."""

import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, kill_group, replay, start

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "environment")
HOSTILE = os.path.join(os.path.realpath(BUILD), "tests", "programs", "hostile")
LOGD = os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd")
# It would wait for a minute for the other rank, which takes longer than that.
SECONDS = 20


def exit_under_an_exit(tap):
    """Main has ended the process, and its last records are on their way, when another thread ends it as well."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        trace = os.path.join(directory, "t.srec")
        daemon = subprocess.Popen([LOGD])
        while not os.path.exists(os.environ["SREPLAY_SOCKET"]):
            time.sleep(0.01)
        try:
            process = subprocess.Popen([SREPLAY, "record", "-o", trace, "--", HOSTILE, "exit-under-an-exit"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.read(1)
            os.kill(daemon.pid, signal.SIGSTOP)
            process.stdin.write(b"x")
            process.stdin.flush()
            time.sleep(1)
            os.kill(daemon.pid, signal.SIGCONT)
            process.stdin.close()
            told = process.stderr.read()
            status = process.wait(SECONDS)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
        verified = subprocess.run([SREPLAY, "verify", trace], capture_output=True, text=True)
        tap.ok(status == 3 and not told and verified.returncode == 0,
               "a thread that ends the process while another one does: the first one's status, and all records",
               "%s %s\n%s" % (status, told, verified.stderr))
        status, _, err = replay(trace, 0)
        tap.ok(status == 3 and "0 divergences: exact" in err, "... and so in its replay", "%s %s" % (status, err))


def main():
    tap = Tap()
    exit_under_an_exit(tap)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        trace = os.path.join(directory, "t.srec")
        daemon = subprocess.Popen([LOGD])
        with open(os.path.join(directory, "out"), "wb") as out:
            other = start([SREPLAY, "record", "-o", trace, "--rank", "0", "--", PROGRAM, "100000000"], out, out)
        try:
            while not os.path.exists(os.path.join(trace, "rank-0")) and other.poll() is None:
                time.sleep(0.05)
            began = time.time()
            try:
                mine = subprocess.run([SREPLAY, "record", "-o", trace, "--rank", "1", "--", PROGRAM, "3"],
                                      capture_output=True, text=True, timeout=SECONDS)
                told = "%s\n%s" % (mine.returncode, mine.stderr)
                good = mine.returncode == 7
            except subprocess.TimeoutExpired:
                good, told = False, "still waiting after %d s" % SECONDS
            tap.ok(good, "a rank that ends does not wait for one that goes on (%.1f s)" % (time.time() - began), told)
            tap.ok(other.poll() is None, "the other rank goes on")
            verified = subprocess.run([SREPLAY, "verify", "--rank", "1", trace], capture_output=True, text=True)
            tap.ok(verified.returncode == 0 and ": whole," in verified.stdout, "its stream is whole then",
                   verified.stdout + verified.stderr)
            verified = subprocess.run([SREPLAY, "verify", "--rank", "0", trace], capture_output=True, text=True)
            tap.ok(verified.returncode == 1 and "without an end" in verified.stdout and
                   "rank 0 thread 0 has no end" in verified.stderr,
                   "verify says of the other one that it has no end", verified.stdout + verified.stderr)
            # The program and the daemon at once: nobody is left who could say that there was more.
            os.kill(daemon.pid, signal.SIGSTOP)
            time.sleep(0.3)
            kill_group(other)
            daemon.kill()
            daemon.wait()
            daemon = subprocess.Popen([LOGD])
            verified = subprocess.run([SREPLAY, "verify", "--rank", "0", trace], capture_output=True, text=True)
            tap.ok(verified.returncode == 1 and "without an end" in verified.stdout,
                   "verify says so too when the program and the daemon were both killed",
                   verified.stdout + verified.stderr)
            said = subprocess.run([SREPLAY, "info", "--rank", "0", trace], capture_output=True, text=True)
            tap.ok("1 of the threads without an end" in said.stdout, "and info does", said.stdout + said.stderr)
        finally:
            kill_group(other)
            other.wait()
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
    tap.finish()


if __name__ == "__main__":
    main()
