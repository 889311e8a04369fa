#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A daemon that is stopped, killed and frozen again and again while many ranks record: none loses a record, and none is
held up for more than 5 s.

    storm.py [RANKS [SEED]]

The last part stops the daemon for longer than anybody waits: each rank then says that it goes on unrecorded, and its trace
has all up to there. Needs no RDMA.
"""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay, run  # noqa: E402

BUILD = os.path.realpath(BUILD)
PROGRAM = os.path.join(BUILD, "tests", "programs", "stalls")
LOGD = os.path.join(BUILD, "logd", "sreplay-logd")
FREEZE = os.path.join(BUILD, "tests", "lib", "freeze.so")
RANKS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(os.environ.get("SREPLAY_SEED", "1"))
# All ranks together record as much in a second as 20 do that pause for 10 ms: what is tested is their number, not the disk.
PAUSE_MS = max(10, RANKS // 2)
# The first rank records still when the last one begins.
PIECES = (300 + 10 * RANKS) * 10 // PAUSE_MS
# What a loaded machine adds to the 5 s.
SLACK_MS = 2500


class Storm:
    """Daemons at one socket, one after the other, and what happens to them."""

    def __init__(self, place, seed):
        self.place, self.chance = place, random.Random(seed)
        self.socket, self.traces = os.path.join(place, "logd.sock"), os.path.join(place, "traces")
        os.makedirs(self.traces, exist_ok=True)
        self.env = dict(os.environ, LD_PRELOAD=FREEZE, FREEZE_BELOW=self.traces)
        self.counts = {"stopped": 0, "frozen": 0, "killed": 0}
        self.daemons = []
        self.start()

    def start(self):
        self.daemons.append(subprocess.Popen([LOGD, "--socket", self.socket, "--plain-io"], env=self.env,
                                             stderr=subprocess.DEVNULL))
        while subprocess.run([LOGD, "--status", "--socket", self.socket], capture_output=True).returncode:
            time.sleep(0.02)

    def current(self):
        """That of this test, or one that an `sreplay record` was faster to start."""
        try:
            with open(self.socket + ".lock") as f:
                return int(f.read())
        except (OSError, ValueError):
            return self.daemons[-1].pid

    def send(self, number):
        try:
            os.kill(self.current(), number)
        except ProcessLookupError:
            pass

    def stop(self, seconds):
        pid = self.current()
        for number in signal.SIGSTOP, signal.SIGCONT:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
            if number == signal.SIGSTOP:
                time.sleep(seconds)
        self.counts["stopped"] += 1

    def freeze(self, seconds):
        open(self.traces + ".frozen", "w").close()
        time.sleep(seconds)
        os.unlink(self.traces + ".frozen")
        self.counts["frozen"] += 1

    def kill(self):
        self.send(signal.SIGKILL)
        for daemon in self.daemons:
            daemon.poll()
        self.start()
        self.counts["killed"] += 1

    def rage(self, until):
        """Nothing that lasts as long as anybody waits, with a while in between in which a daemon gets on."""
        while not until.is_set():
            self.chance.choice([lambda: self.stop(self.chance.uniform(0.1, 2)), lambda: self.freeze(self.chance.uniform(0.1, 2)),
                                self.kill])()
            until.wait(self.chance.uniform(0.2, 0.6))

    def end(self):
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()


def record(storm, trace, rank, *arguments):
    env = dict(os.environ, SREPLAY_SOCKET=storm.socket, SREPLAY_RING="65536")
    out, err = (open(os.path.join(storm.place, "%s-%d" % (name, rank)), "w+b") for name in ("out", "err"))
    process = subprocess.Popen([SREPLAY, "record", "--from-start", "-o", trace, "--rank", str(rank), "--", PROGRAM, *arguments],
                               env=env, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
    return process, out, err


def results(recordings):
    """(status, stdout, stderr) of each; 'hang' for one that does not end."""
    for process, out, err in recordings:
        try:
            status = process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            status = "hang"
        texts = []
        for f in out, err:
            f.seek(0)
            texts.append(f.read())
            f.close()
        yield status, texts[0], texts[1].decode(errors="replace")


def waiting_cpu(recordings, seconds):
    """What the recorded processes use meanwhile, in processors."""
    tick = os.sysconf("SC_CLK_TCK")

    def used():
        ticks = 0
        for process, _, _ in recordings:
            for child in open("/proc/%d/task/%d/children" % (process.pid, process.pid)).read().split():
                ticks += sum(map(int, open("/proc/%s/stat" % child).read().rsplit(")", 1)[1].split()[11:13]))
        return ticks / tick

    before = used()
    time.sleep(seconds)
    return (used() - before) / seconds


def longest(out):
    found = re.search(rb"longest (\d+) ms", out)
    return int(found.group(1)) if found else None


def storm_that_passes(tap, place):
    storm = Storm(place, SEED)
    trace, over = os.path.join(storm.traces, "t.srec"), threading.Event()
    recordings = []
    for rank in range(RANKS):
        recordings.append(record(storm, trace, rank, "fill", "2", str(PIECES), str(PAUSE_MS)))
    # Until all have begun: before that a stall prevents a recording, and is another test's.
    while not all(b"begins" in open(os.path.join(place, "out-%d" % r), "rb").read() or p[0].poll() is not None
                  for r, p in enumerate(recordings)):
        time.sleep(0.05)
    raging = threading.Thread(target=storm.rage, args=(over,))
    raging.start()
    ended = list(results(recordings))
    over.set()
    raging.join()
    run([LOGD, "--wait", trace, "--timeout", "60", "--socket", storm.socket], 70)
    bad = [(r, e) for r, e in enumerate(ended) if e[0] != 0 or b"ends" not in e[1]]
    tap.ok(not bad, "%d ranks end as if nothing had been: %s" % (RANKS, storm.counts), bad[:3])
    lost = [(r, e[2]) for r, e in enumerate(ended) if "not recorded" in e[2]]
    tap.ok(not lost, "none goes on unrecorded", lost[:3])
    worst = max((longest(e[1]) or 0) for e in ended)
    tap.ok(worst < 5000 + SLACK_MS, "none was held up for more than 5 s", "%d ms" % worst)
    status, out, err = run([SREPLAY, "verify", trace], 120)
    tap.ok(status == 0, "the trace is whole", err + out.decode()[:2000])
    for rank in sorted({0, RANKS // 2, RANKS - 1}):
        status, out, err = replay(trace, rank)
        tap.ok((status, out) == (0, ended[rank][1]), "rank %d replays exactly" % rank, err)
    storm.end()


def storm_that_stays(tap, place):
    storm = Storm(place, SEED + 1)
    trace = os.path.join(storm.traces, "t.srec")
    recordings = [record(storm, trace, rank, "fill", "2", str(PIECES), str(PAUSE_MS)) for rank in range(RANKS)]
    while not all(b"begins" in open(os.path.join(place, "out-%d" % r), "rb").read() or p[0].poll() is not None
                  for r, p in enumerate(recordings)):
        time.sleep(0.05)
    storm.send(signal.SIGSTOP)
    # Until all rings are full: each thread fills 64 KiB by its pieces of 4,000 bytes.
    time.sleep(0.1 + 18 * PAUSE_MS / 1000)
    cpu = waiting_cpu(recordings, 2)
    # Else those that wait take the processor from the daemon that they wait for.
    tap.ok(cpu < 0.2 + RANKS / 500, "while they wait for the daemon they use hardly a processor", "%.2f processors" % cpu)
    ended = list(results(recordings))
    storm.send(signal.SIGCONT)
    run([LOGD, "--wait", trace, "--timeout", "60", "--socket", storm.socket], 70)
    bad = [(r, e) for r, e in enumerate(ended) if e[0] != 0 or b"ends" not in e[1] or e[2].count("not recorded any further") != 1]
    tap.ok(not bad, "a daemon that stays stopped: %d ranks go on unrecorded, and say so" % RANKS, bad[:3])
    worst = max((longest(e[1]) or 0) for e in ended)
    tap.ok(worst < 5000 + SLACK_MS, "none was held up for more than 5 s", "%d ms" % worst)
    status, out, err = replay(trace, 0)
    tap.ok(status == 123 and "0 divergences: exact" in err and "gave up waiting" in err, "all up to there is in the trace", err)
    storm.end()


def main():
    tap = Tap()
    for part in storm_that_passes, storm_that_stays:
        with tempfile.TemporaryDirectory() as place:
            part(tap, place)
    tap.finish()


if __name__ == "__main__":
    main()
