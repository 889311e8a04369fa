#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The recorder never stalls the program: a daemon that is stopped, slow, or stuck in a file system is waited for as long as
it gets on, and for 5 s if it does not.

    stalls.py [CASE...]

File systems that do not answer are played by tests/lib/freeze.c in the daemon.  Needs no RDMA.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, replay_problem, run, write_old  # noqa: E402

BUILD = os.path.realpath(BUILD)
PROGRAM = os.path.join(BUILD, "tests", "programs", "stalls")
LOGD = os.path.join(BUILD, "logd", "sreplay-logd")
FREEZE = os.path.join(BUILD, "tests", "lib", "freeze.so")
CASES = []
STALL = 5
# What a loaded machine may add.
SLACK = 8


def case(function):
    CASES.append(function)
    return function


class Daemon:
    """One whose traces below PLACE/frozen freeze when freeze() says so."""

    def __init__(self, place):
        self.place, self.socket = place, os.path.join(place, "logd.sock")
        self.frozen = os.path.join(place, "frozen")
        os.makedirs(self.frozen)
        env = dict(os.environ, LD_PRELOAD=FREEZE, FREEZE_BELOW=self.frozen)
        self.process = subprocess.Popen([LOGD, "--socket", self.socket, "--plain-io"], env=env, stderr=subprocess.DEVNULL)
        while subprocess.run([LOGD, "--status", "--socket", self.socket], capture_output=True).returncode:
            time.sleep(0.02)

    def freeze(self):
        open(self.frozen + ".frozen", "w").close()

    def thaw(self):
        os.unlink(self.frozen + ".frozen")

    def send(self, number):
        self.process.send_signal(number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if os.path.exists(self.frozen + ".frozen"):
            self.thaw()
        self.send(signal.SIGCONT)
        self.process.terminate()
        self.process.wait()


class Recording:
    """A program under `sreplay record`, which has begun."""

    def __init__(self, daemon, trace, *arguments, ring=65536, options=(), prefix=(), quiet="on"):
        env = dict(os.environ, SREPLAY_SOCKET=daemon.socket, SREPLAY_RING=str(ring), SREPLAY_QUIET=quiet)
        self.began = time.time()
        command = [*prefix, SREPLAY, "record", "--from-start", *options, "-o", trace, "--", PROGRAM, *arguments]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out, self.err, self.heard = b"", b"", []
        os.set_blocking(self.process.stderr.fileno(), False)

    def until_begun(self):
        self.out = self.process.stdout.readline()
        return self

    def listen(self, text, seconds):
        """Seconds until stderr has this text, or None."""
        start = time.time()
        while time.time() - start < seconds:
            self.err += self.process.stderr.read() or b""
            if text in self.err.decode():
                return time.time() - start
            time.sleep(0.02)
        return None

    def end(self, seconds=90):
        """(status, seconds since it began)"""
        os.set_blocking(self.process.stderr.fileno(), True)
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            return "hang", time.time() - self.began
        finally:
            self.took = time.time() - self.began
        self.out += out
        self.err += err
        return self.process.returncode, self.took


def is_whole(trace, recording):
    """'' if the trace verifies and replays exactly."""
    status, out, err = run([SREPLAY, "verify", trace], 60)
    return err + out.decode() if status else replay_problem(trace, 0, recording.out)


def wait_written(daemon, trace):
    run([LOGD, "--wait", trace, "--timeout", "30", "--socket", daemon.socket], 40)


def size_of(trace):
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(trace) for name in names)


def wait_until_larger(trace, size, most=3):
    """On a busy machine a daemon that was just continued may get no processor for a while."""
    end = time.monotonic() + most
    while size_of(trace) <= size and time.monotonic() < end:
        time.sleep(0.02)


def seconds(run_it):
    begin = time.monotonic()
    run_it()
    return time.monotonic() - begin


@case
def stopped(tap, place):
    """The daemon is stopped while two threads record: after 5 s, counted once, the program goes on."""
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        recording = Recording(daemon, trace, "fill", "8", "1500", "1", quiet="off").until_begun()
        time.sleep(0.1)
        daemon.send(signal.SIGSTOP)
        said = recording.listen("rank 0 waits for sreplay-logd (process %d, which is stopped)" % daemon.process.pid, 10)
        tap.ok(said is not None and said < 3, "that the program waits, and for what, is said at once", "%s %s" % (said, recording.err))
        status, took = recording.end()
        lines = recording.err.decode().count("not recorded any further")
        tap.ok(status == 0 and b"ends" in recording.out, "the program comes to its end", "%s %s" % (status, recording.err))
        tap.ok(lines == 1, "one line says that it is not recorded any further", recording.err.decode())
        tap.ok(took < 2 * STALL + SLACK, "eight threads wait 5 s together, and `sreplay record` 5 s for the trace", took)
        daemon.send(signal.SIGCONT)
        wait_written(daemon, trace)
        status, out, err = run([SREPLAY, "verify", trace], 60)
        tap.ok(status and b"STOPPED" in out.upper() + err.upper().encode(), "the trace says where it ends", "%s %s" % (out, err))


@case
def stopped_for_a_while(tap, place):
    """Stopped for less than 5 s, or slow, again and again: nothing is lost."""
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        recording = Recording(daemon, trace, "fill", "3", "100", "10").until_begun()
        for _ in range(3):
            daemon.send(signal.SIGSTOP)
            size = size_of(trace)
            time.sleep(3)
            daemon.send(signal.SIGCONT)
            wait_until_larger(trace, size)
            time.sleep(0.1)
        status, took = recording.end()
        tap.ok(status == 0 and "not recorded" not in recording.err.decode(), "three stops of 3 s: it is recorded to its end",
               "%s %s" % (status, recording.err.decode()))
        tap.ok(not recording.err, "that it waits is not said with --quiet", recording.err.decode())
        tap.ok(not (problem := is_whole(trace, recording)), "nothing is lost", problem)


@case
def stopped_before_fork(tap, place):
    """A file that the program has read is replaced by its child, while the daemon is stopped for less than 5 s."""
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        write_old(os.path.join(place, "old"), "what the program reads\n")
        write_old(os.path.join(place, "new"), "what replaces it\n")
        recording = Recording(daemon, trace, "replaced", place).until_begun()
        daemon.send(signal.SIGSTOP)
        open(os.path.join(place, "go"), "w").close()
        time.sleep(0.7)
        daemon.send(signal.SIGCONT)
        status, _ = recording.end()
        tap.ok(status == 0 and recording.out.endswith(b"reads\n"), "a program whose child replaces its input is recorded", "%s %s" % (status, recording.err))
        tap.ok(not (problem := is_whole(trace, recording)), "the input is in the trace", problem)


@case
def slow(tap, place):
    """Each write takes a second: the program waits for longer than 5 s, since the daemon gets on."""
    with Daemon(place) as daemon:
        with open(daemon.frozen + ".slow", "w") as f:
            f.write("1000")
        trace = os.path.join(daemon.frozen, "t.srec")
        recording = Recording(daemon, trace, "fill", "1", "40").until_begun()
        status, took = recording.end()
        tap.ok(status == 0 and took > STALL and "not recorded" not in recording.err.decode(),
               "a slow disk is waited for (%d s)" % took, "%s %s %s" % (took, status, recording.err.decode()))
        os.unlink(daemon.frozen + ".slow")
        tap.ok(not (problem := is_whole(trace, recording)), "nothing is lost", problem)


@case
def stopped_before(tap, place):
    """The daemon is stopped before the program starts: a word at once, and no program, after 5 s."""
    with Daemon(place) as daemon:
        daemon.send(signal.SIGSTOP)
        trace = os.path.join(place, "t.srec")
        recording = Recording(daemon, trace, "fill", "1", "1")
        who = "sreplay-logd (process %d, which is stopped)" % daemon.process.pid
        said = recording.listen("waiting for " + who, 10)
        tap.ok(said is not None and said < 3, "the command says at once what it waits for", "%s %s" % (said, recording.err))
        status, took = recording.end()
        tap.ok(status == 125 and took < STALL + SLACK and "no answer for 5 s from " + who in recording.err.decode() and
               not recording.out, "after 5 s it refuses", "%s %s %s" % (status, took, recording.err.decode()))
        recording = Recording(daemon, trace, "fill", "1", "1", options=["--or-run"])
        status, took = recording.end()
        tap.ok(status == 0 and took < STALL + SLACK and b"ends" in recording.out, "... or runs it unrecorded, with --or-run",
               "%s %s %s" % (status, took, recording.err.decode()))


@case
def frozen(tap, place):
    """A file system that freezes while it is written to: what is recorded there waits for 5 s, and nothing else waits."""
    with Daemon(place) as daemon:
        bad, good = os.path.join(daemon.frozen, "t.srec"), os.path.join(place, "t.srec")
        recording = Recording(daemon, bad, "fill", "2", "750", "2", quiet="off").until_begun()
        daemon.freeze()
        said = recording.listen("which waits for the file system of the trace", 10)
        tap.ok(said is not None and said < 3, "what it waits for is said at once", "%s %s" % (said, recording.err))
        status, took = recording.end()
        tap.ok(status == 0 and b"ends" in recording.out and took < 2 * STALL + SLACK,
               "the program comes to its end", "%s %s %s" % (status, took, recording.err))
        daemon.thaw()
        wait_written(daemon, bad)
        recording = Recording(daemon, good, "fill", "1", "300")
        tap.ok(recording.end()[0] == 0 and not (problem := is_whole(good, recording)), "the daemon records on", recording.err)


@case
def frozen_place(tap, place):
    """No directory can be made on a frozen file system: others are recorded meanwhile, without delay."""
    with Daemon(place) as daemon:
        other = tempfile.mkdtemp(dir="/dev/shm")
        daemon.freeze()
        bad = [Recording(daemon, os.path.join(daemon.frozen, "%d.srec" % i), "fill", "1", "300") for i in range(3)]
        good = Recording(daemon, os.path.join(other, "t.srec"), "fill", "2", "300")
        status, took = good.end()
        tap.ok(status == 0 and took < STALL - 1, "a healthy file system is not held up", "%s %s %s" % (status, took, good.err))
        tap.ok(not (problem := is_whole(os.path.join(other, "t.srec"), good)), "... and nothing is lost there", problem)
        for b in bad:
            status, took = b.end()
            tap.ok(status == 125 and took < STALL + SLACK and "no answer for 5 s" in b.err.decode(),
                   "where no directory can be made the program does not run", "%s %s %s" % (status, took, b.err.decode()))
        subprocess.run(["rm", "-r", other])


@case
def many_threads(tap, place):
    """Threads that live at once and end together cost the same each, however many they are."""
    with Daemon(place) as daemon:
        seconds, (few, many) = {}, (1000, 5000) if FULL else (300, 1500)
        for n in few, many:
            bare = time.time()
            run([PROGRAM, "together", str(n)], 60)
            bare = time.time() - bare
            recording = Recording(daemon, os.path.join(place, "%d.srec" % n), "together", str(n), ring=4 << 20)
            status, seconds[n] = recording.end()
            tap.ok(status == 0 and b"ends" in recording.out, "%d threads: %.2f s, %.2f s bare" % (n, seconds[n], bare),
                   recording.err.decode())
        # 120 s for 2,000 when it was quadratic.
        tap.ok(seconds[many] < 12 * seconds[few] + 5, "five times as many cost some five times as much", seconds)
        problem = replay_problem(os.path.join(place, "%d.srec" % many), 0, b"ends\n")
        tap.ok(not problem, "%d of them replay" % many, problem)


@case
def descriptors(tap, place):
    """1,500 live threads leave a program that may have 64 descriptors its own ones."""
    with Daemon(place) as daemon:
        bare = run([PROGRAM, "descriptors", "1500"], 60)
        trace = os.path.join(place, "t.srec")
        recording = Recording(daemon, trace, "descriptors", "1500")
        status, _ = recording.end()
        tap.ok((status, recording.out) == (0, bare[1]) and b"40 files opened" in bare[1], "it opens its files",
               "%s %s %s" % (status, recording.out, recording.err.decode()))
        tap.ok(not (problem := is_whole(trace, recording)), "nothing is lost", problem)


@case
def large_input(tap, place):
    """16 bytes of a file of 300 GB: nobody reads the rest, and a change is still noticed."""
    with Daemon(place) as daemon:
        large, trace = os.path.join(place, "large"), os.path.join(place, "t.srec")
        with open(large, "wb") as f:
            f.write(b"0123456789abcdef")
            f.truncate(300 << 30)
        os.symlink(large, os.path.join(place, "0"))
        recording = Recording(daemon, trace, "inputs", place, "1")
        status, took = recording.end()
        tap.ok((status, recording.out, recording.err) == (0, b"16 bytes\n", b"") and took < STALL,
               "it costs nothing (%.2f s)" % took, "%s %s" % (status, recording.err.decode()))
        tap.ok(not (problem := is_whole(trace, recording)), "it replays", problem)
        with open(large, "rb+") as f:
            f.write(b"another")
        _, _, err = run([SREPLAY, "replay", trace], 60)
        tap.ok("has changed since it was recorded" in err, "a change is noticed", err)


def paths_that_json_quotes(tap, place, daemon):
    for name in (b'say "yes"\\no', b"two\nlines", "gr\u00fc\u00df".encode(), b"not \xff UTF-8"):
        odd = os.path.join(place.encode(), name)
        os.mkdir(odd)
        with open(os.path.join(odd, b"0"), "w") as f:
            f.write("small\n")
        trace = os.path.join(place, "odd-%s.srec" % name.hex())
        Recording(daemon, trace, "inputs", os.fsdecode(odd), "1").end()
        with open(os.path.join(trace, "rank-0", "files.jsonl")) as f:
            paths = [json.loads(line)["path"] for line in f]
        tap.ok(any((bytes.fromhex(p["hex"]) if isinstance(p, dict) else p.encode()) == os.path.join(odd, b"0") for p in paths),
               "an input's path is noted, as odd as %r" % name, str(paths))


@case
def small_inputs(tap, place):
    """20,000 small files: they are noted without a round trip to the daemon for each."""
    many = 20000
    for i in range(many):
        with open(os.path.join(place, str(i)), "w") as f:
            f.write("small %d\n" % i)
    with Daemon(place) as daemon:
        # The least of three tries: the machine is busy.
        bare = min(seconds(lambda: run([PROGRAM, "inputs", place, str(many)], 60)) for _ in range(3))
        took = []
        for n in range(3):
            trace = os.path.join(place, "t%d.srec" % n)
            recording = Recording(daemon, trace, "inputs", place, str(many))
            status, lasted = recording.end()
            took.append(lasted)
            if (status, recording.err) != (0, b""):
                break
        tap.ok((status, recording.err) == (0, b""), "20,000 small inputs are recorded", recording.err.decode())
        tap.ok(min(took) < 4 * bare + 0.5, "they take %.2f s, %.2f bare" % (min(took), bare))
        with open(os.path.join(trace, "rank-0", "files.jsonl")) as f:
            lines = f.read().splitlines()
        tap.ok(sum('"xxh3"' in line for line in lines) >= many, "each has a hash in the trace", str(len(lines)))
        tap.ok(not (problem := is_whole(trace, recording)), "it replays", problem)
        # The first ones, as new as they are, are kept.
        with open(os.path.join(place, "7777"), "r+") as f:
            f.write("SMALL")
        _, _, err = run([SREPLAY, "replay", trace], 60)
        tap.ok(err.count("has changed since it was recorded") == 1 and "/7777, " in err, "one that has changed is named", err)
        paths_that_json_quotes(tap, place, daemon)


@case
def file_size_limit(tap, place):
    """ulimit -f: what the recorder shares with the daemon is no file of the program's."""
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        recording = Recording(daemon, trace, "together", "1500", ring=4 << 20, prefix=["sh", "-c", 'ulimit -f 8; exec "$@"', "sh"])
        status, _ = recording.end()
        tap.ok((status, recording.err) == (0, b""), "1,500 threads under ulimit -f 8 are recorded",
               "%s %s" % (status, recording.err.decode()))
        tap.ok(not (problem := is_whole(trace, recording)), "nothing is lost", problem)


@case
def filters(tap, place):
    """A program's own seccomp filter does not kill it, and what is lost is said."""
    with Daemon(place) as daemon:
        for mode in "strict", "list", "all", "own":
            trace = os.path.join(place, mode + ".srec")
            recording = Recording(daemon, trace, "filter", mode)
            status, _ = recording.end()
            err = recording.err.decode()
            tap.ok((status, recording.out) == (5, b"before\nafter\n"), mode + ": it ends as it does bare", "%s %s" % (status, err))
            replayed, out, report = run([SREPLAY, "replay", trace], 60)
            if mode == "all":
                tap.ok(not err and (replayed, out) == (5, recording.out), "a filter that forbids nothing is recorded over", err + report)
                continue
            tap.ok(err.count("\n") == 1 and "is recorded up to here: the program %s its" % ("traps" if mode == "own" else "restricts") in err,
                   mode + ": one line says what is lost", err)
            tap.ok((replayed, out) == (123, b"before\n") and "forbade what a recording needs" in report, "... and so does a replay", report)


@case
def asks_to_be_traced(tap, place):
    """PTRACE_TRACEME: the program goes on."""
    with Daemon(place) as daemon:
        trace = os.path.join(place, "t.srec")
        recording = Recording(daemon, trace, "traced")
        status, _ = recording.end(20)
        tap.ok((status, recording.out) == (6, b"0 -1\n") and "PTRACE_TRACEME" in recording.err.decode(), "it goes on",
               "%s %s" % (status, recording.err.decode()))
        problem = replay_problem(trace, 6, recording.out)
        tap.ok(not problem, "it replays", problem)


def main():
    names = sys.argv[1:]
    tap = Tap()
    for function in CASES:
        if names and function.__name__ not in names:
            continue
        with tempfile.TemporaryDirectory() as place:
            print("# " + function.__name__)
            function(tap, place)
    tap.finish()


if __name__ == "__main__":
    main()
