#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""With default options threads that compute do so at the same time, which is said, and those that wait for each other replay
exactly; no RDMA needed.

    computing.py [RUNS]
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, run, some

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SECONDS = 60
STOPPED_SECONDS = 5.5
STARVED_SECONDS = 4
SEVERAL = len(os.sched_getaffinity(0)) > 1
EXACT = " 0 divergences: exact\n"
BESIDE = "not compared is what threads decided while they ran beside each other"


class Recording:
    def __init__(self, trace, command, *options, meanwhile=lambda recorder: None, timeout="20"):
        subprocess.run(["rm", "-rf", trace], check=True)
        recorder = subprocess.Popen([SREPLAY, "record", *options, "-o", trace, "--"] + command, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        meanwhile(recorder)
        self.output, said = recorder.communicate(timeout=SECONDS)
        self.status, self.said = recorder.returncode, said.decode()
        self.info = subprocess.run([SREPLAY, "info", trace], capture_output=True, text=True).stdout
        self.beside = self.count(r"except (\d+) times? when one computed")
        self.stops = self.count(r"(\d+) times? a thread made no call for long, and was stopped")
        self.replayed, self.printed, self.verdict = run([SREPLAY, "replay", "--timeout", timeout, trace], SECONDS)

    def count(self, pattern):
        found = re.search(pattern, self.info)
        return int(found.group(1)) if found else 0

    def ends_well(self):
        return self.status == 0 and not self.said and self.replayed == 0 and self.printed == self.output

    def __str__(self):
        return "recorded %d %s\n%s\nreplayed %d, output %s\n%s" % (
            self.status, self.said, self.info, self.replayed, "equal" if self.printed == self.output else "differs", self.verdict)


def stop_for_long(recorder):
    """As a virtual machine that is halted, or a process in front of a terminal's Ctrl-Z: its clock goes on."""
    program = None
    while program is None and recorder.poll() is None:
        time.sleep(0.02)
        for pid in children(recorder.pid):
            try:
                if os.path.basename(os.readlink("/proc/%d/exe" % pid)) == "computes" and len(os.listdir("/proc/%d/task" % pid)) > 2:
                    program = pid
            except FileNotFoundError: # a process of the recorder's start that has ended
                pass
    if program:
        os.kill(program, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        os.kill(program, signal.SIGCONT)


def children(pid):
    try:
        return [int(c) for c in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]
    except OSError:
        return []


def cpu_of(what):
    """What this does, and the CPU time that its processes took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = what()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_made(tap, trace, computes):
    """In code that a program may write there is no place to stop at: to look for one costs little (2.7 times once)."""
    for case in ("made", "writable"):
        command = [computes, case, "2", "600"]
        _, bare = cpu_of(lambda: subprocess.run(command, capture_output=True, timeout=SECONDS))
        _, recorded = cpu_of(lambda: subprocess.run([SREPLAY, "record", "-o", trace + ".cpu-" + case, "--"] + command,
                                                    capture_output=True, timeout=SECONDS))
        tap.ok(recorded < 2 * bare, "threads that compute in code of their own (%s) take little more CPU time" % case, (bare, recorded))
        r = Recording(trace, command)
        tap.ok(r.ends_well() and EXACT in r.verdict, "... and replay exactly", r)


def test_draws(tap, trace, atomics):
    """A thread that makes one operation on what libc keeps after the other stops in front of one."""
    r = Recording(trace, [atomics, "draws", "2", "300"])
    slept = re.search(rb"thread 1 found (\d+)", r.output)
    tap.ok(r.ends_well() and EXACT in r.verdict and slept and int(slept.group(1)) > 20,
           "a thread has its turn while another one draws random numbers, and replays exactly", r)


def test_openmp(tap, trace, threads):
    """What OpenMP's runtime decides is replayed, though threads compute beside each other."""
    program = os.path.join(PROGRAMS, "openmp")
    if not os.path.exists(program):
        print("# OpenMP is not installed")
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)
    for case in some(("dynamic", "barriers", "critical", "tasks"), 2):
        r = Recording(trace, [program, case, "8"])
        tap.ok(r.ends_well(), "OpenMP with %d threads, %s: a replay prints the same" % (threads, case), r)
    for case in ("dynamic", "last"):
        r = Recording(trace, [os.path.join(PROGRAMS, "loads_main"), program + "_module.so", case, "8"], "--from-start")
        tap.ok(r.ends_well(), "OpenMP in a library that is loaded for itself alone, as Python's modules are, %s: a replay prints the same" % case, r)
    r = Recording(trace, [program, "dynamic", "20"], "--threads=serial")
    tap.ok(r.ends_well() and not r.beside and EXACT in r.verdict, "OpenMP, --threads=serial: exact", r)


def test_llvm(tap, trace, directory, threads):
    """LLVM's runtime decides by atomics, so its threads run one at a time, and all of it is replayed."""
    program = os.path.join(directory, "llvm")
    source = os.path.join(os.path.dirname(PROGRAMS), "..", "..", "tests", "programs", "process", "openmp.c")
    if not shutil.which("clang") or subprocess.run(["clang", "-O2", "-fopenmp", source, "-o", program], capture_output=True).returncode:
        print("# LLVM's OpenMP is not installed")
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)
    # Of its tasks some recordings are not exact: docs/user/limits.md.
    for case in some(("reduction", "dynamic", "barriers", "critical"), 2):
        r = Recording(trace, [program, case, "8"], "--from-start")
        tap.ok(r.ends_well() and not r.beside and " 0 divergences: exact" in r.verdict,
               "LLVM's OpenMP with %d threads, %s: exact" % (threads, case), r)


COMPUTES = "import os\nfor k in range(8):\n    os.write(1, b'.')\n    for i in range(3000000): k = (k * 31 + i) % 1000003"


def test_starved(tap, trace):
    """Others have the processor for much longer than --timeout says: the replay is late, not stuck."""
    Recording(trace, [sys.executable, "-S", "-c", COMPUTES], "--from-start")
    replayer = subprocess.Popen([SREPLAY, "replay", "--timeout", "2", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    replayer.stdout.read(1) # it computes now
    all_processors = os.sched_getaffinity(0)
    one = min(all_processors)
    spin = [sys.executable, "-c", "import os\nos.sched_setaffinity(0, [%d])\nwhile True: pass" % one]
    others = [subprocess.Popen(spin) for _ in range(2)]
    threads = [int(thread) for pid in children(replayer.pid) for thread in os.listdir("/proc/%d/task" % pid)]
    for thread in threads:
        os.sched_setaffinity(thread, [one])
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    time.sleep(STARVED_SECONDS)
    late = replayer.poll() is None
    for thread in threads if late else []:
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(thread, all_processors)
    for other in others:
        other.kill()
        other.wait()
    out, said = replayer.communicate(timeout=SECONDS)
    tap.ok(late and out == 7 * b"." and replayer.returncode == 0 and EXACT in said.decode(), "a replay that gets no processor for long is not stuck",
           "%s %s %s %s" % (late, out, replayer.returncode, said.decode()))


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    tap = Tap()
    computes = os.path.join(PROGRAMS, "computes")
    atomics = os.path.join(PROGRAMS, "computes_atomics")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        trace = os.path.join(directory, "computing.srec")
        for _ in range(runs):
            for case in ("sums", "steps", "pool"):
                r = Recording(trace, [computes, case])
                tap.ok(r.ends_well(), "%s: a replay prints the same" % case, r)
                if case == "sums" and SEVERAL:
                    tap.ok(r.beside and r.stops < 40 and BESIDE in r.verdict,
                           "threads that compute for long are stopped a few times, then run beside each other, which is said", r)
            for case, what in some((("flags", "count while they wait for each other"),
                               ("open", "do so, and could be cancelled at any instruction"),
                               ("mapped", "do so in code that is mapped behind their last call"),
                               ("shares", "compute what they take by atomics"),
                               ("stop", "compute, and look at what others store")), 2):
                r = Recording(trace, [atomics, case, "2", "100"])
                tap.ok(r.ends_well() and not r.beside and r.stops and EXACT in r.verdict,
                       "threads that %s are taken one at a time, and replay exactly" % what, r)
            r = Recording(trace, [atomics, "turns", "6"])
            tap.ok(r.ends_well() and not r.beside and r.stops < 1000 and EXACT in r.verdict,
                   "a thread that makes calls has its turn, though others spin", r)
            test_draws(tap, trace, atomics)
            # The replay of `deep` compares in each of millions of turns: in these seconds it makes no call, but gets on.
            for case, ms, timeout, what in (("deep", "60", "1", "beside memory on the stack that they never wrote"),
                                            ("locks", "200", "20", "in words on the stack of which they write a part")):
                r = Recording(trace, [computes, case, "4", ms], "--threads=serial", timeout=timeout)
                tap.ok(r.ends_well() and r.stops and EXACT in r.verdict, "--threads=serial: those that compute " + what, r)
            r = Recording(trace, [computes, "sums", "3", "300"], "--threads=serial", meanwhile=stop_for_long)
            tap.ok(r.ends_well() and not r.beside and EXACT in r.verdict,
                   "no thread runs beside another one because the process was stopped for long", r)
            test_starved(tap, trace)
            test_made(tap, trace, computes)
            test_openmp(tap, trace, 4)
            test_llvm(tap, trace, directory, 4)
    tap.finish()


if __name__ == "__main__":
    main()
