#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The data path recorded and replayed natively, on the stand-in for libibverbs: no RDMA needed.

    loopback.py [SEEDS [EPOCHS]]

For each seed tests/programs/loopback runs bare and recorded, and is replayed.  A
second time the stand-in executes requests in an order of chance, another one in
each run: only the recording and its replay can be equal then.  A failure is
reduced: to as few features of the program and as few epochs as still show it.

A third time its requests carry clocks, as if the program's other queue pairs were
another process's: nothing of the shim's own requests may be seen.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, first_difference, replay, some

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "loopback")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
FEATURES = "lmufisxerbcpd"
# Seeds of program and stand-in, epochs, and features, that failed once:
# - A failure that may be a receive's was taken for a send's: it vouched for READs that were flushed.
# - A reset took the completions of READs whose bytes were in memory, and the program read them there.
FOUND = ((16, "2", 10, "lufsrbp"), (3, "58", 4, FEATURES))
RUN_SECONDS = 60
THREAD_RUNS = 20 if FULL else 5


class Case:
    def __init__(self, directory, seed, epochs, features=FEATURES, device_seed=None, clocks=False):
        self.directory, self.seed, self.epochs = directory, seed, epochs
        self.features, self.device_seed, self.clocks = features, device_seed, clocks

    def __str__(self):
        by_chance = "SOFTDEV_SEED=%s " % self.device_seed if self.device_seed else ""
        by_chance += "SREPLAY_CLOCKS=2 " if self.clocks else ""
        return by_chance + " ".join(self.command()[:1] + [str(w) for w in self.command()[1:]])

    def command(self):
        # an empty list of features would be all of them
        return [PROGRAM, str(self.seed), str(self.epochs), self.features or "-"]

    def run(self, prefix=()):
        env = dict(os.environ, LD_LIBRARY_PATH=SOFTDEV)
        env.pop("SOFTDEV_SEED", None)
        if self.clocks:
            env["SREPLAY_CLOCKS"] = "2"
        if self.device_seed:
            env["SOFTDEV_SEED"] = self.device_seed
        try:
            return subprocess.run(list(prefix) + self.command(), env=env, capture_output=True, timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired as e:
            return subprocess.CompletedProcess(e.cmd, "hang", e.stdout or b"", e.stderr or b"")

    def difference(self):
        """'' if all is as it must be, else what is not."""
        trace = os.path.join(self.directory, "loopback.srec")
        shutil.rmtree(trace, ignore_errors=True)
        bare = self.run()
        recorded = self.run([SREPLAY, "record", "-o", trace, "--"])
        if recorded.returncode != bare.returncode:
            return "recorded exit status %s, not %s\n%s" % (recorded.returncode, bare.returncode,
                                                            recorded.stderr.decode(errors="replace"))
        if not self.device_seed and self.visible(recorded.stdout) != self.visible(bare.stdout):
            return "recorded output\n" + first_difference(self.visible(recorded.stdout), self.visible(bare.stdout))
        status, out, err = replay(trace, 0)
        if status != recorded.returncode:
            return "replayed exit status %s, not %s\n%s" % (status, recorded.returncode, err)
        if out != recorded.stdout:
            return "replayed output\n" + first_difference(out, recorded.stdout)
        # Its queue pairs are its own peers: what it receives is what it sends.
        r = subprocess.run([SREPLAY, "replay", "--transport", "shm", trace], capture_output=True,
                           stdin=subprocess.DEVNULL, timeout=RUN_SECONDS)
        if r.returncode != recorded.returncode or r.stdout != recorded.stdout:
            return "replayed with its requests compared: exit status %s\n%s" % (r.returncode, r.stderr.decode())
        if self.clocks and not clock_records(trace):
            return "no request carried a clock"
        return ""

    def visible(self, output):
        """What may not differ. The stand-in's time is the number of its completions, the shim's included."""
        return b"\n".join(line for line in output.splitlines() if not (self.clocks and line.startswith(b"  tag ")))

    def reduced(self):
        """The same with fewer features and epochs, as long as something differs."""
        case = self
        for letter in FEATURES:
            fewer = case.with_(features=case.features.replace(letter, ""))
            if fewer.difference():
                case = fewer
        for epochs in range(1, case.epochs):
            if case.with_(epochs=epochs).difference():
                return case.with_(epochs=epochs)
        return case

    def with_(self, **changes):
        arguments = dict(seed=self.seed, epochs=self.epochs, features=self.features, device_seed=self.device_seed,
                         clocks=self.clocks)
        arguments.update(changes)
        return Case(self.directory, **arguments)


def clock_records(trace):
    dump = subprocess.run([SREPLAY, "dump", trace], capture_output=True).stdout
    return dump.count(b'record="clock"')


class Xrc(Case):
    """XRC, where a request reaches the memory of the shared receive queue's protection domain: the shim's as well."""

    rounds = 20

    def command(self):
        return [os.path.join(os.path.dirname(PROGRAM), "xrc"), str(self.rounds)]

    def difference(self):
        """Each round has two posts with an event."""
        trace = os.path.join(self.directory, "loopback.srec")
        detail = super().difference()
        return detail or self.clocks and clock_records(trace) < 2 * self.rounds and "too few events" or ""


class Alone(Case):
    """A program that as a group of one gets nothing from outside, or from nobody, and whose messages nothing contradicts."""

    def __init__(self, directory, program):
        super().__init__(directory, 1, 1)
        self.program = program.split()

    def command(self):
        return [os.path.join(os.path.dirname(PROGRAM), self.program[0]), *self.program[1:]]

    def difference(self):
        trace = os.path.join(self.directory, "loopback.srec")
        detail = super().difference()
        r = subprocess.run([SREPLAY, "replay", "--transport", "shm", trace], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                           timeout=RUN_SECONDS)
        return detail or "not those" in r.stderr or re.search(r"[1-9]\d* from outside", r.stderr) and r.stderr


class InOrder(Alone):
    """With --order."""

    def run(self, prefix=()):
        return super().run(list(prefix[:2]) + ["--order"] + list(prefix[2:]) if prefix else ())


def threads_differ(directory, runs):
    """Threads that poll one completion queue each see their own completions: '' or what they said."""
    env = dict(os.environ, LD_LIBRARY_PATH=SOFTDEV)
    for run in range(runs):
        trace = os.path.join(directory, "threads%d.srec" % run)
        r = subprocess.run([SREPLAY, "record", "-o", trace, "--", PROGRAM, "threads"], env=env, capture_output=True,
                           timeout=RUN_SECONDS)
        shutil.rmtree(trace, ignore_errors=True)
        if r.returncode:
            return "run %d: exit status %d\n%s%s" % (run, r.returncode, r.stdout.decode(), r.stderr.decode())
    return ""


def late_differs(directory):
    """A program that loads libibverbs by dlopen is recorded from its first device on; the shell around
    it is none.  '' or what is wrong."""
    late = os.path.join(os.path.realpath(BUILD), "tests", "programs", "late")
    trace = os.path.join(directory, "late.srec")
    r = subprocess.run([SREPLAY, "record", "-o", trace, "--", "sh", "-c", late + " && exit 3"],
                       env=dict(os.environ, LD_LIBRARY_PATH=SOFTDEV), capture_output=True, timeout=RUN_SECONDS)
    if r.returncode != 3 or r.stderr:
        return "exit status %d\n%s" % (r.returncode, r.stderr.decode())
    with open(os.path.join(trace, "rank-0", "process.json")) as f:
        process = json.load(f)
    dump = subprocess.run([SREPLAY, "dump", trace], capture_output=True).stdout.decode()
    first = next((line for line in dump.splitlines() if "(" in line), "")
    if process["extra"]["recorded_from"] != "open" or "ibv_open_device" not in first or "poll_cq" not in dump:
        return "%s\n%s" % (process, dump)
    return ""


def orders_of_one(directory, name, options, env=None):
    """(what `sreplay orders` says of a recording with clocks, how that replayed, what was said on stderr)"""
    trace = os.path.join(directory, name + ".srec")
    r = subprocess.run([SREPLAY, "record", "-o", trace, "--clocks"] + options + ["--", PROGRAM, "1", "3"],
                       env=dict(os.environ, LD_LIBRARY_PATH=SOFTDEV, **(env or {})), capture_output=True, timeout=RUN_SECONDS)
    said = subprocess.run([SREPLAY, "orders", trace], capture_output=True).stdout.decode()
    again = subprocess.run([SREPLAY, "replay", trace], env=dict(os.environ, LD_LIBRARY_PATH=SOFTDEV), capture_output=True,
                           timeout=RUN_SECONDS)
    return said, again.stderr.decode() if again.returncode else "", r.stderr.decode()


def untold(directory):
    """Who carries clocks, and who carries none and why, is in the trace; '' or what is wrong."""
    key = os.path.join(directory, "everybodys.key")
    with open(key, "w") as f:
        f.write("not a secret: others may read it")
    os.chmod(key, 0o644)
    said, replayed, stderr = orders_of_one(directory, "unjoined", ["--key", key])
    if replayed or stderr.count("carries no clocks") != 1 or "may be read" not in stderr and "key" not in stderr:
        return "refused: %s\n%s" % (stderr, replayed)
    if "rank 0: the process carries no clocks from thread 0 SN 1 on: this process could not join its job (E" not in said:
        return "refused, and orders says: " + said
    said, replayed, stderr = orders_of_one(directory, "joined", [], {"SREPLAY_CLOCKS": "2"})
    m = re.search(r"^rank 0: (\d+) of (\d+) queue pairs carry clocks$", said, re.M)
    if replayed or not m or m[1] != m[2] or m[1] == "0" or "carries no" in said:
        return "joined: %s\n%s\n%s" % (said, stderr, replayed)
    return ""


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 8 if FULL else 2
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for device_seed, clocks in ((None, False), ("time", False), (None, True), ("time", True)):
            for seed in range(1, seeds + 1):
                case = Case(directory, seed, epochs, device_seed=device_seed, clocks=clocks)
                detail = case.difference()
                if detail:
                    small = case.reduced()
                    detail = "%s\nreduced to: %s\n%s" % (detail, small, small.difference())
                tap.ok(not detail, "seed %d, requests executed %s%s: bare, recorded and replayed alike" % (
                    seed, "by chance" if device_seed else "at once", ", with clocks" if clocks else ""), detail)
        for seed, device_seed, epochs, features in some(FOUND, 3):
            case = Case(directory, seed, epochs, features, device_seed)
            detail = case.difference()
            tap.ok(not detail, "%s: bare, recorded and replayed alike" % case, detail)
        for clocks in (False, True):
            detail = Xrc(directory, 1, 1, clocks=clocks).difference()
            tap.ok(not detail, "XRC%s: bare, recorded and replayed alike" % (", with clocks" if clocks else ""), detail)
        for program, what in (("overlaid", "READs over messages"), ("abandoned", "messages in receives of queue pairs that end"), ("lock_in_region", "locks in a region"),
                              ("file_region file", "reads of a file that peers write"), ("file_region file_in_memory", "the same in /dev/shm")):
            detail = Alone(directory, program).difference()
            tap.ok(not detail, "%s: bare, recorded and replayed alike, and all from the group" % what, detail)
        detail = InOrder(directory, "abandoned").difference()
        tap.ok(not detail, "messages in receives of queue pairs that end, with --order: bare, recorded and replayed alike", detail)
        detail = threads_differ(directory, THREAD_RUNS)
        tap.ok(not detail, "threads that poll one completion queue, recorded %d times" % THREAD_RUNS, detail)
        detail = untold(directory)
        tap.ok(not detail, "orders tells of queue pairs that carry clocks, and why others do not", detail)
        detail = late_differs(directory)
        tap.ok(not detail, "a program that loads libibverbs late is recorded from there on", detail)
    tap.finish()


if __name__ == "__main__":
    main()
