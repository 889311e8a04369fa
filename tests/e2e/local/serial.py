#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads that decide by plain atomics, recorded in turns (--threads=serial), replay exactly; no RDMA needed.

    serial.py [RUNS]

RUNS recordings of each case of tests/programs/atomics and a replay of each, which must print the same; as many in
parallel, of which some must not, or this test shows nothing. Then what else threads do, in turns: all of
tests/programs/threads and thread_ends, and threads that post and poll on the stand-in for libibverbs.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, run

APPS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
CASES = ["references", "flags", "futex", "queue", "sleepers", "handler"]
WAYS = {"by_exit": 3, "holding_a_lock": 3, "by_last_thread": 0, "detached": 4, "own_stacks": 4, "many": 4, "soon": 4, "leaving": 4,
        "with_child": 4, "not_begun": 4}
RUN_SECONDS = 60
STUCK_SECONDS = {"serial": 30, "parallel": 2} # these are expected to be


def record(trace, threads, command, **options):
    shutil.rmtree(trace, ignore_errors=True)
    return subprocess.run([SREPLAY, "record", "--threads=" + threads, "-o", trace, "--"] + command, capture_output=True,
                          timeout=RUN_SECONDS, **options)


def info(trace):
    return subprocess.run([SREPLAY, "info", trace], capture_output=True, text=True).stdout


def late(trace):
    """How often a thread made no call for so long that others did not wait for it."""
    times = re.search(r"threads one at a time .* except (\d+) time", info(trace))
    return int(times.group(1)) if times else 0


def runs_differ(trace, threads, command, runs, status=0, env=None):
    """Records and replays so many times: (what went wrong in each that did, how many were late, outputs)."""
    wrong, late_ones, outputs = [], 0, set()
    for n in range(runs):
        recorded = record(trace, threads, command, env=env)
        outputs.add(recorded.stdout)
        if recorded.returncode != status or recorded.stderr:
            wrong.append("run %d: recorded: status %s\n%s" % (n, recorded.returncode, recorded.stderr.decode()))
            continue
        late_ones += late(trace) > 0
        replayed, out, err = run([SREPLAY, "replay", "--timeout", str(STUCK_SECONDS[threads]), "--rank", "0", trace],
                                 RUN_SECONDS)
        if replayed != status or out != recorded.stdout:
            wrong.append("run %d: replayed: status %s, output %s\n%s" % (
                n, replayed, "equal" if out == recorded.stdout else "differs", err))
    return wrong, late_ones, outputs


def test_atomics(tap, trace, runs):
    parallel_wrong = varied = 0
    for case in CASES:
        command = [os.path.join(APPS, "atomics"), case]
        parallel, _, _ = runs_differ(trace, "parallel", command, runs)
        wrong, late_ones, outputs = runs_differ(trace, "serial", command, runs)
        print("# %s: %d of %d parallel recordings replay, %d of %d in turns, of which %d were late" % (
            case, runs - len(parallel), runs, runs - len(wrong), runs, late_ones), flush=True)
        tap.ok(not wrong, "plain atomics, %s: %d recordings in turns, %d exact replays" % (case, runs, runs), "\n".join(wrong))
        parallel_wrong += len(parallel)
        varied += len(outputs) > 1
    if runs > 1: # one alone varies from nothing
        tap.ok(parallel_wrong >= runs, "of those in parallel a good share is not", parallel_wrong)
        tap.ok(varied >= len(CASES) / 2, "most had printed something else in another recording in turns", varied)


def stopped(trace):
    times = re.search(r"(\d+) times? a thread made no call for long, and was stopped", info(trace))
    return int(times.group(1)) if times else 0


def test_spin(tap, trace):
    """Threads that spin without a call: they are stopped at places of the program's code, and in a replay at the same."""
    for case, where in (("made", " in code that the program has made"), ("spin", "")):
        wrong, late_ones, _ = runs_differ(trace, "serial", [os.path.join(APPS, "atomics"), case], 1)
        tap.ok(not wrong and late_ones == 0 and stopped(trace), "threads that spin without a call%s are stopped, and info says so" % where,
               "\n".join(wrong) + info(trace))
    status, _, err = run([SREPLAY, "replay", "--rank", "0", trace], RUN_SECONDS)
    tap.ok(status == 0 and " 0 divergences: exact\n" in err, "the verdict of its replay is exact", err)
    copy = trace + ".copy.srec" # no seal holds for it
    shutil.copytree(trace, copy)
    status, _, err = run([SREPLAY, "replay", "--rank", "0", copy], RUN_SECONDS)
    tap.ok(status == 0 and "sandbox" in err and " 0 divergences: exact\n" in err, "so is that of a replay in the sandbox", err)
    shutil.rmtree(copy)


def test_writable_code(tap, trace):
    """There no breakpoint can be: the threads run beside each other, and that is said."""
    wrong, late_ones, _ = runs_differ(trace, "serial", [os.path.join(APPS, "atomics"), "writable"], 1)
    tap.ok(not wrong and late_ones == 1, "threads that spin in code that they may write are not waited for, and info says so",
           "\n".join(wrong) + info(trace))
    status, _, err = run([SREPLAY, "replay", "--rank", "0", trace], RUN_SECONDS)
    tap.ok(status == 0 and "a thread computed, or made no call for long, and others ran beside it" in err and
           "not compared is what threads decided while they ran beside each other" in err,
           "the verdict of its replay says so, too", err)


def test_libcs_lock(tap, trace):
    """Where threads meet at libc's own locks depends on what a replay does not do (a fork holds that of malloc)."""
    wrong, _, _ = runs_differ(trace, "serial", [os.path.join(APPS, "atomics"), "libcs_lock"], 1)
    calls = subprocess.run([SREPLAY, "dump", trace], capture_output=True, text=True).stdout
    tap.ok(not wrong and "pthread_join" in calls and "kernel_futex" not in calls,
           "that a thread waits or wakes at a lock of libc's own is not recorded", "\n".join(wrong) + calls)


def test_new_thread(tap, trace):
    """It runs, and ends the process, while the thread that creates it is in pthread_create."""
    for threads in ("serial", "parallel"):
        record(trace, threads, [os.path.join(APPS, "thread_ends"), "crashing"])
        status, out, err = run([SREPLAY, "replay", "--rank", "0", trace], RUN_SECONDS)
        tap.ok(status == 139 and out == b"the new thread\n" and "0 divergences: exact\n" in err,
               "a new thread crashes before pthread_create returns: so it does in the replay, threads %s" % threads, "%s %s\n%s" % (status, out, err))
        record(trace, threads, ["sh", "-c", os.path.join(APPS, "thread_ends") + " by_new_thread; exit 0"])
        status, out, err = run([SREPLAY, "replay", "--rank", "0", trace], RUN_SECONDS)
        tap.ok(status == 137 and out == b"the new thread\n" and "ended by signal 9" in err and "0 divergences: exact\n" in err,
               "what a new thread does before pthread_create returns is replayed, threads %s" % threads, "%s %s\n%s" % (status, out, err))


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 4 if FULL else 1
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        trace = os.path.join(directory, "serial.srec")
        test_atomics(tap, trace, runs)
        test_spin(tap, trace)
        test_writable_code(tap, trace)
        test_libcs_lock(tap, trace)
        test_new_thread(tap, trace)
        wrong, _, _ = runs_differ(trace, "serial", [os.path.join(APPS, "threads")], runs, 5)
        tap.ok(not wrong, "8 threads, everything, in turns: %d exact replays" % runs, "\n".join(wrong))
        for way, status in WAYS.items():
            n = runs + 15 if way == "not_begun" else runs # whether its thread is there when it ends differs
            wrong, _, _ = runs_differ(trace, "serial", [os.path.join(APPS, "thread_ends"), way], n, status)
            tap.ok(not wrong, "threads, %s, in turns: %d exact replays" % (way, n), "\n".join(wrong))
        env = dict(os.environ, LD_LIBRARY_PATH=SOFTDEV)
        for mode in ("threads", "turns-shared"):
            wrong, _, _ = runs_differ(trace, "serial", [os.path.join(APPS, "loopback"), mode], runs, 0, env)
            tap.ok(not wrong, "loopback %s, in turns: %d exact replays" % (mode, runs), "\n".join(wrong))
    tap.finish()


if __name__ == "__main__":
    main()
