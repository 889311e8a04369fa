#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Several ranks replayed at once: their output, one end for all, tools around one of them. Needs no RDMA:
the ranks are processes that do not talk to each other."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, read

DIVERGE = os.path.join(os.path.realpath(BUILD), "tests", "programs", "diverge")
ENVIRONMENT = os.path.join(os.path.realpath(BUILD), "tests", "programs", "environment")
SECONDS = 60


def record(trace, rank, *command):
    r = subprocess.run([SREPLAY, "record", "-o", trace, "--rank", str(rank), "--"] + list(command),
                       capture_output=True, timeout=SECONDS)
    return r.stdout, r.returncode


def replay(*arguments, **options):
    return subprocess.run([SREPLAY, "replay"] + list(arguments), stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=SECONDS, **options)


def change_mode(trace, rank, mode):
    path = os.path.join(trace, "rank-%d" % rank, "process.json")
    with open(path) as f:
        process = json.load(f)
    process["arguments"][1] = mode
    with open(path, "w") as f:
        json.dump(process, f)


def prefixed(rank, text):
    return [b"[rank %d] " % rank + line for line in text.splitlines()]


def of_rank(output, rank):
    return [line for line in output.splitlines() if line.startswith(b"[rank %d] " % rank)]


def replayed_processes(trace):
    """Processes that have to do with this trace, or run its programs."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = read("/proc/%s/cmdline" % pid).split(b"\0")
        except OSError:
            continue
        ours = os.fsencode(trace) in command or command[0] in (os.fsencode(DIVERGE), os.fsencode(ENVIRONMENT))
        if int(pid) != os.getpid() and ours:
            found.append((pid, command))
    return found


def none_left(trace, seconds=10):
    end = time.time() + seconds
    while replayed_processes(trace) and time.time() < end:
        time.sleep(0.05)
    return replayed_processes(trace)


def test_output(tap, directory):
    trace = os.path.join(directory, "output.srec")
    recorded = {rank: record(trace, rank, ENVIRONMENT, "20") for rank in (0, 2, 3)}
    for ranks in ((0, 2, 3), (0, 3), (2,)):
        kept = fresh(os.path.join(directory, "kept"))
        r = replay("--group", ",".join(map(str, ranks)), "-o", kept, trace)
        wrong = ""
        if len(ranks) == 1:
            wrong = "" if (r.returncode, r.stdout) == (7, recorded[ranks[0]][0]) else r
        else:
            for rank in ranks:
                if of_rank(r.stdout, rank) != prefixed(rank, recorded[rank][0]):
                    wrong += "rank %d: %s\n" % (rank, of_rank(r.stdout, rank)[:5])
                if read(os.path.join(kept, "rank-%d.out" % rank)) != recorded[rank][0]:
                    wrong += "rank %d: its file differs\n" % rank
            if r.returncode or b"all %d ranks ended as recorded" % len(ranks) not in r.stderr:
                wrong += "status %d\n%s" % (r.returncode, r.stderr.decode())
        tap.ok(not wrong, "ranks %s: each prints what it printed, and they end as recorded" % (ranks,), wrong)
    r = replay(trace)
    tap.ok(not r.returncode and b"all 3 ranks" in r.stderr, "without --group: all that were recorded", r.stderr)
    r = replay("--group", "0,1", trace)
    tap.ok(r.returncode == 125 and b"holds: 0 2 3" in r.stderr, "a rank that is not there is refused", r.stderr)
    r = replay("--group", "0-x", trace)
    tap.ok(r.returncode == 125 and b"expected ranks" in r.stderr, "so is a list that is none", r.stderr)


def test_ends(tap, directory):
    trace = os.path.join(directory, "ends.srec")
    for rank in (0, 1):
        record(trace, rank, DIVERGE, "same")
    record(trace, 2, ENVIRONMENT, "20")
    r = replay(trace)
    tap.ok(not r.returncode, "three ranks end as recorded", r.stderr.decode())

    change_mode(trace, 0, "hang")
    change_mode(trace, 1, "args")
    r = replay(trace)
    err = r.stderr.decode()
    tap.ok(r.returncode == 124 and re.search(r"^\[rank 1\] sreplay: rank 1 thread 0 SN \d+: send writes other bytes", err, re.M)
           and re.search(r"^sreplay: rank 1 ends the replay; the others:$", err, re.M)
           and re.search(r"^sreplay:   rank 0 (thread 0 SN \d+: \w+|had made no call yet)", err, re.M)
           and re.search(r"^sreplay:   rank 2 ", err, re.M),
           "a rank that diverges ends all, with its report and where the others are", err)
    tap.ok(not none_left(trace), "nobody is left", none_left(trace))

    change_mode(trace, 1, "same")
    r = replay("--timeout", "2", trace)
    err = r.stderr.decode()
    tap.ok(r.returncode == 124 and "[rank 0] sreplay: rank 0 made no recorded call for 2 s" in err
           and "rank 1 had ended as recorded" in err, "so does one that hangs", err)
    tap.ok(not none_left(trace), "nobody is left", none_left(trace))

    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        p = subprocess.Popen([SREPLAY, "replay", trace], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
        end = time.time() + SECONDS
        while len(replayed_processes(trace)) < 3 and time.time() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        p.send_signal(number)
        out = p.communicate(timeout=SECONDS)[0].decode()
        left = none_left(trace)
        tap.ok(p.returncode == status and not left, "%s ends all" % signal.Signals(number).name,
               "status %s\n%s\n%s" % (p.returncode, out, left))


def gdb(trace, *commands, arguments=()):
    words = [word for c in commands for word in ("-ex", c)]
    return replay(*arguments, trace, "--", "-nx", "-batch", *words)


def position(output):
    """What a stop shows from the program's frame on, without the numbers of processes."""
    lines = output.decode(errors="replace").splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("#") and " in turn (" in line), len(lines))
    return [line for line in lines[start:] if not line.startswith("[")]


def test_tools(tap, directory):
    trace = os.path.join(directory, "ends.srec")
    change_mode(trace, 0, "same")
    dump = subprocess.run([SREPLAY, "dump", "--json", "--rank", "0", "--thread", "0", trace], capture_output=True)
    send = next(c for c in map(json.loads, dump.stdout.splitlines()) if c.get("call") == "send")
    wanted = ("sreplay break %d" % send["sn"], "continue", "bt -frame-arguments all", "frame function turn",
              "info locals", "print text[150]@4", "sreplay sn", "sreplay next 2", "continue")
    for arguments in (("--gdb", "0", "--group", "0"), ("--gdb", "0", "--group", "0,1")):
        runs = [gdb(trace, *wanted, arguments=arguments) for _ in range(2)]
        shown = [position(r.stdout) for r in runs]
        text = "\n".join(shown[0])
        tap.ok(shown[0] == shown[1] and "turn () at" in text and "diverge.c" in text and '"aaaa"' in text
               and "rank 0 thread 0 SN %d;" % send["sn"] in text and re.search(r"^ +%d  send\(" % send["sn"], text, re.M),
               "gdb %s: a stop at an SN, twice: the same stack, line and variables" % " ".join(arguments),
               "\n".join(map(str, runs)))
        tap.ok(all(b"rank 0: " in r.stderr and b"0 divergences: exact" in r.stderr for r in runs),
               "... and the run goes on to its recorded end", runs[0].stderr)
    calls = os.path.join(directory, "calls")
    r = replay("--exec", "strace -o " + calls, "--rank", "0", trace)
    tap.ok(r.returncode == 7 and b"exact" in r.stderr and b"exit_group(7)" in read(calls),
           "--exec: exact under strace", r.stderr.decode())
    r = replay("--exec", "strace -o " + calls, trace)
    tap.ok(r.returncode == 125 and b"which rank" in r.stderr, "--exec of several ranks wants to know which", r.stderr)
    r = replay("--exec", "/no/such/tool", "--rank", "0", trace)
    tap.ok(r.returncode == 125, "a tool that is not there: 125", r)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        test_output(tap, directory)
        test_ends(tap, directory)
        test_tools(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
