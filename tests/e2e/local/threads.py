#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What threads do takes effect in a replay in the recorded order: recorded and replayed here, no RDMA needed.

    threads.py [RUNS]

For each kind of contention, and for all at the same time, RUNS recordings of
tests/programs/threads and a replay of each, which must print the same.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, replay

APPS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
CASES = ["locks", "robust", "conditions", "semaphores", "barriers", "c11", "c11threads", "heap", "sockets",
         "descriptors", "times", "ends", "stdio", "all"]
WAYS = ["by_exit", "holding_a_lock", "by_last_thread", "detached", "own_stacks", "many", "soon", "above_frames", "with_unwinder",
        "leaving", "with_child", "computing", "new_ids"]
CANCELLED = ["computes", "calls", "allocates", "waits", "is_disabled", "is_deferred_again", "cancels_itself", "forks", "has_new_ids"]
RUN_SECONDS = 60


def record(trace, command, **options):
    shutil.rmtree(trace, ignore_errors=True)
    return subprocess.run([SREPLAY, "record", "-o", trace, "--"] + command, capture_output=True,
                          timeout=RUN_SECONDS, **options)


def runs_differ(directory, command, runs, status, env=None):
    """Records and replays so many times: ('' or what went wrong, what the recordings printed)."""
    outputs = set()
    trace = os.path.join(directory, "threads.srec")
    for run in range(runs):
        recorded = record(trace, command, env=env)
        outputs.add(recorded.stdout)
        if recorded.returncode != status or recorded.stderr:
            return "run %d: recorded: status %s\n%s" % (run, recorded.returncode, recorded.stderr.decode()), outputs
        replayed, out, err = replay(trace, 0)
        if replayed != status or out != recorded.stdout:
            return "run %d: replayed: status %s, output %s\n%s" % (
                run, replayed, "equal" if out == recorded.stdout else "differs", err), outputs
    return "", outputs


def killed_differs(directory):
    """Killed from outside: its replay comes to where it was killed."""
    trace = os.path.join(directory, "killed.srec")
    recorder = subprocess.Popen([SREPLAY, "record", "-o", trace, "--", os.path.join(APPS, "thread_ends"), "killed"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    recorder.stdout.readline()
    recorded = int(subprocess.check_output(["pgrep", "-P", str(recorder.pid)]))
    while os.path.exists("/proc/%d/fd/0" % recorded):
        time.sleep(0.002)
    os.kill(recorded, signal.SIGKILL)
    recorder.communicate(timeout=RUN_SECONDS)
    status, out, err = replay(trace, 0)
    return "" if status == 123 and out == b"running\n" and "was killed" in err else "%s %s\n%s" % (status, out, err)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5 if FULL else 1
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        varied = 0
        for case in CASES:
            detail, outputs = runs_differ(directory, [os.path.join(APPS, "threads"), case], runs, 5)
            tap.ok(not detail, "8 threads, %s: %d recordings, %d exact replays" % (case, runs, runs), detail)
            varied += len(outputs) > 1
        if runs > 1: # one alone varies from nothing
            tap.ok(varied >= len(CASES) / 2, "most had printed something else in another recording", varied)
        detail, _ = runs_differ(directory, [os.path.join(APPS, "threads"), "-t", "60", "-n", "20"], runs, 5)
        tap.ok(not detail, "some 700 threads, 60 at a time, everything: %d recordings, %d exact replays" % (runs, runs), detail)
        for way in WAYS:
            status = {"by_exit": 3, "holding_a_lock": 3, "by_last_thread": 0}.get(way, 4)
            detail, _ = runs_differ(directory, [os.path.join(APPS, "thread_ends"), way], runs, status)
            tap.ok(not detail, "threads, %s: %d recordings, %d exact replays" % (way, runs, runs), detail)
        for way in CANCELLED:
            detail, outputs = runs_differ(directory, [os.path.join(APPS, "cancelled"), way], runs, 4)
            ends = all(o.endswith(b"\n") and b"cleanup" in o and b"\ncancelled" in o and b"never" not in o for o in outputs)
            tap.ok(not detail and ends, "a thread that may be cancelled at any instruction, and %s: %d exact replays" % (way, runs), "%s %s" % (detail, outputs))
        detail, outputs = runs_differ(directory, [os.path.join(APPS, "cancelled_waits")], runs, 4)
        ends = {line.split(b": ")[1] for o in outputs for line in o.splitlines()}
        tap.ok(not detail and ends == {b"cancelled, cleaned up"}, "threads that are cancelled in calls in which they wait: %d exact replays" % runs, "%s %s" % (detail, outputs))
        detail, _ = runs_differ(directory, [os.path.join(APPS, "allocates")], runs, 6)
        tap.ok(not detail, "threads whose malloc() takes locks and reads clocks: %d exact replays" % runs, detail)
        for where in ("", "_library"):
            detail, outputs = runs_differ(directory, [os.path.join(APPS, "begins_early" + where)], runs, 3)
            tap.ok(not detail and len(outputs) == runs, "what malloc() reads at its first use, and a thread of its own, in %s: %d "
                   "exact replays" % ("a library" if where else "the executable", runs), "%s %s" % (detail, outputs))
        detail, _ = runs_differ(directory, [os.path.join(APPS, "loads_main"), os.path.join(APPS, "thread_module.so")], runs, 0,
                                dict(os.environ, SREPLAY_FROM_START="on"))
        tap.ok(not detail, "a library that makes the first threads while it is loaded: %d exact replays" % runs, detail)
        detail = killed_differs(directory)
        tap.ok(not detail, "a process with threads that was killed replays up to there", detail)

        env = dict(os.environ, LD_LIBRARY_PATH=SOFTDEV)
        for mode, text in (("turns", "on queue pairs of their own"), ("turns-shared", "on one queue pair")):
            detail, _ = runs_differ(directory, [os.path.join(APPS, "loopback"), mode], runs, 0, env)
            tap.ok(not detail, "threads that post %s and poll one completion queue: %d exact replays" % (text, runs),
                   detail)
        trace = os.path.join(directory, "atomics.srec")
        record(trace, [os.path.join(APPS, "loopback"), "threads"], env=env)
        status, _, err = replay(trace, 0)
        tap.ok(status == 0 and "0 divergences: exact" in err,
               "threads that count by plain atomics replay with default options", "%s\n%s" % (status, err))
        record(trace, [os.path.join(APPS, "loopback"), "threads"], env=dict(env, SREPLAY_THREADS="parallel"))
        status, _, err = replay(trace, 0)
        tap.ok(status == 124 and "plain atomics" in err,
               "those recorded in parallel diverge, and the report names the reason", "%s\n%s" % (status, err))
    tap.finish()


if __name__ == "__main__":
    main()
