#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What programs do that recorders trip over (tests/programs/process/hostile.c, and with verbs ../hostile_verbs on the stand-in
for libibverbs): each case bare, recorded, replayed.

Needs no RDMA.  Nearly each case was a bug once.
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
import cases
from harness import BUILD, SREPLAY, Tap, replay

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "hostile")
VERBS_PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "hostile_verbs")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
SHIM = os.path.join(os.path.realpath(BUILD), "shim", "libsreplay_verbs.so")

# What a run prints that another run need not: times and addresses.
VARYING = re.compile(rb"time \d+|^\d{9,}$|0x[0-9a-f]+", re.M)
# The process dies of a signal, in all three.
STATUS = {"crash": -signal.SIGSEGV, "exit-in-a-handler-at-exit": 7, "trap-instruction": -signal.SIGTRAP, "trap-signal": -signal.SIGTRAP}
# What is said of these while they are recorded.
SAID = {name: rb"sreplay: process \d+, which a recorded one has forked, uses verbs \(ibv_open_device\): children are not recorded\n"
        for name in ("a-child-with-a-device", "children-while-threads-post")}
# Their replay is not promised: what decides it are plain loads and stores.
RECORDED_ONLY = {"variables-beside-an-exposed-region", "polls-in-turn"}


def run(command, **options):
    return subprocess.run(command, capture_output=True, timeout=100, **options)


def same(one, two):
    return VARYING.sub(b"#", one) == VARYING.sub(b"#", two)


def check(tap, directory, program, name, **options):
    status = STATUS.get(name, 3)
    shell_status = 128 - status if status < 0 else status
    bare = run([program, name], **options)
    trace = os.path.join(directory, name + ".srec")
    begin = time.time()
    recorded = run([SREPLAY, "record", "-o", trace, "--", program, name], **options)
    seconds = time.time() - begin
    tap.ok(bare.returncode == status and recorded.returncode == shell_status and same(bare.stdout, recorded.stdout)
           and re.fullmatch(SAID.get(name, b""), recorded.stderr) and seconds < 20,
           "%s: recorded as bare" % name, "%s %s after %.1f s\n%s\n%s\n%s" % (
               bare.returncode, recorded.returncode, seconds, bare.stdout, recorded.stdout, recorded.stderr))
    if name in RECORDED_ONLY:
        return
    replayed = replay(trace, 0)
    tap.ok(replayed[0] == shell_status and replayed[1] == recorded.stdout and "0 divergences: exact" in replayed[2],
           "%s: replayed exactly" % name, "%s\n%s\n%s" % (recorded.stdout, replayed[1], replayed[2]))


def by_another_path(tap, directory):
    """The path by which a program is executed, and the stack's limit, decide where things lie."""
    link = os.path.join(directory, "a-link-to-the-program-with-a-long-name")
    os.symlink(PROGRAM, link)
    trace = os.path.join(directory, "link.srec")
    recorded = run([SREPLAY, "record", "-o", trace, "--", link, "addresses"])
    tap.ok(replay(trace, 0)[1] == recorded.stdout, "executed through a link: the same addresses", recorded.stdout)
    unlimited = replay(trace, 0, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_STACK, (1 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1])))
    tap.ok(unlimited[1] == recorded.stdout, "replayed with another limit on the stack: the same addresses",
           "%s\n%s" % (recorded.stdout, unlimited[1]))


def compared_memory_vanishes(tap, directory):
    """Nothing intercepts the munmap; a handler of the program's for SIGSEGV would make calls amidst the comparison."""
    name = "an-exposed-region-that-vanishes"
    trace = os.path.join(directory, "vanishes.srec")
    recorded = run([SREPLAY, "record", "-o", trace, "--exposed=compare", "--syscall-trap=off", "--", VERBS_PROGRAM, name],
                   env=dict(os.environ, LD_LIBRARY_PATH=SOFTDEV))
    tap.ok(recorded.returncode == 3 and recorded.stdout.startswith(b"dereg 0"),
           "memory that is compared vanishes: as bare", "%s %s" % (recorded.stdout, recorded.stderr))


def polls_in_turn(tap, directory):
    """Where threads run one at a time, what they store is seen at the same poll again."""
    trace = os.path.join(directory, "in-turn.srec")
    for options in ([], ["--stamps"], ["--exposed=compare"]):
        recorded = run([SREPLAY, "record", "-o", trace, "--from-start", "--threads=serial"] + options + ["--", VERBS_PROGRAM, "polls-in-turn"],
                       env=dict(os.environ, LD_LIBRARY_PATH=SOFTDEV))
        status, out, err = replay(trace, 0)
        tap.ok(recorded.returncode == 3 and status == 3 and out == recorded.stdout and "0 divergences: exact" in err,
               "polls of several queues in turn, beside threads%s: replayed exactly" % "".join(" " + o for o in options),
               "%s\n%s\n%s\n%s" % (recorded.stdout, recorded.stderr, out, err))
        shutil.rmtree(trace)


def futexes(tap, directory):
    """Beside each other as well, threads find each other's words, whatever becomes of the page meanwhile."""
    trace, name = os.path.join(directory, "futexes.srec"), "futexes-beside-a-region"
    recorded = run([SREPLAY, "record", "-o", trace, "--threads=parallel", "--", VERBS_PROGRAM, name],
                   env=dict(os.environ, LD_LIBRARY_PATH=SOFTDEV))
    status, out, err = replay(trace, 0)
    tap.ok(recorded.returncode == 3 and status == 3 and out == recorded.stdout and "0 divergences: exact" in err,
           "%s, in parallel: replayed exactly" % name, "%s\n%s\n%s\n%s" % (recorded.stdout, recorded.stderr, out, err))


def sums(tap, directory):
    """Without probes each load faults, and the instruction is executed in a copy, where a timer's signal may come as well."""
    trace = os.path.join(directory, "sums.srec")
    on_standin = dict(os.environ, LD_LIBRARY_PATH=SOFTDEV)
    bare = run([VERBS_PROGRAM, "sums-in-an-exposed-region"], env=on_standin)
    recorded = run([SREPLAY, "record", "-o", trace, "--probes=off", "--", VERBS_PROGRAM, "sums-in-an-exposed-region"], env=on_standin)
    status, out, err = replay(trace, 0)
    tap.ok(recorded.returncode == 3 and recorded.stdout == bare.stdout and status == 3 and out == recorded.stdout
           and "0 divergences: exact" in err,
           "sums beside a timer, without probes: as bare, and exact",
           "%s\n%s %s\n%s\n%s" % (bare.stdout, recorded.returncode, recorded.stdout, out, err))


def plain_preload(tap, directory):
    trace = os.path.join(directory, "plain.srec")
    environment = dict(os.environ, LD_PRELOAD=SHIM, SREPLAY_TRACE=trace)
    r = run([PROGRAM, "duplicates"], env=environment)
    status, out, err = replay(trace, 0)
    tap.ok(r.returncode == 3 and not r.stderr and status == 3 and out == r.stdout,
           "plain LD_PRELOAD with a daemon records as sreplay record does", "%s %s" % (r.stderr, err))
    environment["SREPLAY_SOCKET"] = os.path.join(directory, "nobody")
    r = run([PROGRAM, "duplicates"], env=environment)
    tap.ok(r.returncode == 3 and len(r.stderr.splitlines()) == 1 and b"is not recorded" in r.stderr,
           "without a daemon, one line, and the program runs", r.stderr)
    for name, value in (("SREPLAY_RANK", "x"), ("SREPLAY_GROUP", "1-"), ("SREPLAY_RING", "1"), ("SREPLAY_LOSSY", "2"), ("SREPLAY_TRACE", "r")):
        r = run([PROGRAM, "duplicates"], env=dict(environment, **{name: value}))
        tap.ok(r.returncode == 3 and name.encode() in r.stderr, "%s=%s is named" % (name, value), r.stderr)


def stdbuf(tap, directory):
    trace = os.path.join(directory, "stdbuf.srec")
    recorded = run(["stdbuf", "-oL", SREPLAY, "record", "-o", trace, "--", PROGRAM, "crash"])
    tap.ok(recorded.stdout.endswith(b"\nbuffered\n") and replay(trace, 0)[1] == recorded.stdout,
           "under stdbuf: its output comes line by line", "%s %s" % (recorded.stdout, recorded.stderr))


def audited(tap, directory):
    """A profiler's LD_AUDIT leaves little room for thread-local variables."""
    audit = os.path.join(os.path.realpath(BUILD), "tests", "programs", "libaudit.so")
    trace = os.path.join(directory, "audit.srec")
    recorded = run([SREPLAY, "record", "-o", trace, "--", PROGRAM, "duplicates"], env=dict(os.environ, LD_AUDIT=audit))
    status, out, err = replay(trace, 0)
    tap.ok(recorded.returncode == 3 and not recorded.stderr and status == 3 and out == recorded.stdout,
           "under LD_AUDIT: recorded and replayed", "%s %s" % (recorded.stderr, err))


def file_size_limit(tap, directory):
    trace = os.path.join(directory, "fsize.srec")
    limited = run([SREPLAY, "record", "-o", trace, "--", PROGRAM, "duplicates"], preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1])))
    status, out, err = replay(trace, 0)
    tap.ok(limited.returncode == 3 and not limited.stderr and status == 3 and out == limited.stdout,
           "under a limit on file sizes: recorded and replayed",
           "%s %s\n%s %s" % (limited.returncode, limited.stderr, status, err))


def path_that_is_not_utf8(tap, directory):
    path = os.path.join(directory.encode(), b"caf\xe9")
    shutil.copy(PROGRAM, path)
    trace = os.path.join(directory, "path.srec")
    recorded = run([SREPLAY, "record", "-o", trace, "--", path, "addresses"])
    tap.ok(recorded.returncode == 3 and replay(trace, 0)[1] == recorded.stdout,
           "executed by a path that is not UTF-8", recorded.stderr)


def many_at_once(tap, directory):
    """Twenty ranks start with no daemon running: one daemon, all recorded."""
    bad = []
    for turn in range(3):
        environment = dict(os.environ, SREPLAY_SOCKET=os.path.join(directory, "many-%d" % turn))
        trace = os.path.join(directory, "many-%d.srec" % turn)
        processes = [subprocess.Popen([SREPLAY, "record", "-o", trace, "--rank", str(rank), "--", PROGRAM, "duplicates"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
                     for rank in range(20)]
        for process in processes:
            errors = process.communicate()[1]
            if process.returncode != 3 or errors:
                bad.append("%s %s" % (process.returncode, errors))
        verified = run([SREPLAY, "verify", trace])
        if verified.stdout.count(b": whole") != 20:
            bad.append(verified.stdout.decode())
    tap.ok(not bad, "twenty recordings started at once, thrice", "\n".join(bad))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in cases.names_of(tap, PROGRAM):
            check(tap, directory, PROGRAM, name)
        on_standin = dict(os.environ, LD_LIBRARY_PATH=SOFTDEV)
        for name in cases.names_of(tap, VERBS_PROGRAM, env=on_standin):
            check(tap, directory, VERBS_PROGRAM, name, env=on_standin)
        by_another_path(tap, directory)
        compared_memory_vanishes(tap, directory)
        polls_in_turn(tap, directory)
        sums(tap, directory)
        futexes(tap, directory)
        plain_preload(tap, directory)
        stdbuf(tap, directory)
        audited(tap, directory)
        file_size_limit(tap, directory)
        path_that_is_not_utf8(tap, directory)
        many_at_once(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
