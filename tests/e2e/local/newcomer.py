#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each command with what a newcomer gives it by mistake: it says what is wrong in a line or two, and fails with its own status.

    newcomer.py [arguments] [no_trace] [damaged] [found] [narrow]
"""

import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from export import record_group
from harness import SREPLAY, run, run_functions, some
from oddities import on_terminal

SECONDS = 60
# What reads a trace, and what it needs besides.
READERS = {"replay": [], "dump": [], "verify": [], "process": [], "explain": ["0:1"], "graph": [], "report": ["-o", "OUT"], "export": ["-o", "OUT"], "races": [],
           "suggest": [], "orders": [], "pack": [], "collect": ["-o", "OUT.srec"], "info": [], "ps": []}
FAILED = 125


def commands():
    return re.findall(r"^  (\w+) ", run([SREPLAY, "--help"], SECONDS)[1].decode(), re.M)


def sreplay(directory, command, trace, *more):
    extra = [os.path.join(directory, w) if w.startswith("OUT") else w for w in READERS[command]]
    shutil.rmtree(os.path.join(directory, "OUT.srec"), ignore_errors=True)
    places = [w for w in extra if ":" in w]
    options = [w for w in extra if ":" not in w]
    return run([SREPLAY, command] + options + list(more) + ([trace] if trace else []) + places, SECONDS, cwd=directory,
               env={k: v for k, v in os.environ.items() if k != "SREPLAY_TRACE_DIR"})


def is_told(status, err, wanted=(FAILED,)):
    lines = err.splitlines()
    return status in wanted and 0 < len(lines) <= 6 and all(len(l) < 400 for l in lines) and any(l.startswith("sreplay") for l in lines)


def arguments(tap, directory):
    for command in commands():
        status, out, err = run([SREPLAY, command, "--no-such-option"], SECONDS)
        tap.ok(is_told(status, err) and not out, "%s: an unknown option" % command, (status, err))
        status, out, err = run([SREPLAY, command, "--help"], SECONDS)
        tap.ok(status == 0 and not err and out.startswith(b"Usage: sreplay %s" % command.encode()), "%s --help" % command, err)
        status, out, err = run([SREPLAY, command, "--rank=x", "a", "b", "c", "d"], SECONDS, cwd=directory)
        if command != "record":
            tap.ok(is_told(status, err), "%s: too many arguments, and wrong ones" % command, (status, err))
    status, out, err = run([SREPLAY, "help", "replay"], SECONDS)
    tap.ok(status == 0 and (out, err) == run([SREPLAY, "replay", "--help"], SECONDS)[1:] and run([SREPLAY, "help"], SECONDS)[0] == 0, "help COMMAND", err)
    status, out, err = run([SREPLAY, "record", "--form-start", "ls"], SECONDS, cwd=directory)
    tap.ok(status == FAILED and 'did you mean "--from-start"' in err and not out, "record: an option that was meant", err)
    status, out, err = run([SREPLAY, "record", "ls", "--form-start"], SECONDS, cwd=directory)
    tap.ok("did you mean" not in err, "... but not of the command's", err)
    status, out, err = run([SREPLAY, "record", "no-such-program"], SECONDS, cwd=directory, env=dict(os.environ, SREPLAY_QUIET="off"))
    tap.ok(status == 127 and err.count("\n") == 1 and "cannot run no-such-program" in err, "record: a program that is not there", err)
    status, out, err = run([SREPLAY, "record"], SECONDS, cwd=directory)
    tap.ok(is_told(status, err), "record: no command", (status, err))


def no_trace(tap, directory):
    empty, page, file = (os.path.join(directory, n) for n in ("empty", "page", "file"))
    os.mkdir(empty)
    os.mkdir(page)
    with open(os.path.join(page, "manifest.json"), "w") as f:
        f.write('{"name": "a web page"}')
    with open(file, "w") as f:
        f.write("no trace")
    bad = []
    for command in READERS:
        for trace in ("nothing.srec", empty, page, file, "", None):
            status, out, err = sreplay(directory, command, trace)
            if not is_told(status, err) or out:
                bad.append((command, trace, status, out[:100], err))
    tap.ok(not bad, "what is no trace is said to be none, by each of %d commands" % len(READERS), "\n".join(map(str, bad)))
    status, out, err = run([SREPLAY, "ls"], SECONDS, cwd=directory)
    tap.ok(status == 0 and not out and not err, "ls does not take it for one", (status, out, err))


def damaged(tap, directory):
    whole, (status, _, err) = record_group(directory, "dht", 2)
    tap.ok(status == 0, "a trace to be damaged", err)
    trace = os.path.join(directory, "bad.srec")

    def cut(path):
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)

    def garble(path):
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) // 3)
            f.write(b"\xff" * 64)

    def empty(path):
        open(path, "w").close()

    stream, process, schema = "rank-1/thread-0.srs", "rank-1/process.json", "rank-1/schema.json"
    harms = some([(harm, name) for name in (stream, process, schema, "manifest.json") for harm in (cut, garble, empty, os.remove)] +
                 [(shutil.rmtree, "rank-1")], 2)
    bad, said = [], 0
    for harm, name in harms:
        shutil.rmtree(trace, ignore_errors=True)
        shutil.copytree(whole, trace)
        harm(os.path.join(trace, name))
        for command in READERS:
            status, out, err = sreplay(directory, command, trace, *(["--timeout=5"] if command == "replay" else []))
            lines = err.splitlines()
            said += bool(err)
            # A torn end is read up to there; what is around it may be whole.
            if not isinstance(status, int) or status < 0 or status > FAILED or (status and not err and command not in ("verify", "races")):
                bad.append((harm.__name__, name, command, status, out[-200:], err[-500:]))
            if any(len(line) > 500 for line in lines) or "assert" in err.lower():
                bad.append((harm.__name__, name, command, err[-500:]))
        status, _, err = sreplay(directory, "verify", trace)
        if status == 0 and name != schema and harm is not shutil.rmtree:
            bad.append((harm.__name__, name, "verify finds nothing"))
    tap.ok(not bad and said > 3 * len(harms), "%d kinds of damage: each command ends with a status of its own and says why" % len(harms),
           "\n".join(map(str, bad[:6])) + "\n%d of them" % len(bad))


def found(tap, directory):
    """The newest trace is the one that was just made, whatever its name."""
    for name, command in (("first.srec", "true"), ("second", "false")):
        run([SREPLAY, "record", "--from-start", "-o", os.path.join(directory, name), "--", "sh", "-c", command], SECONDS)
    status, out, err = run([SREPLAY, "ls", "--json"], SECONDS, cwd=directory)
    tap.ok([json.loads(line)["trace"] for line in out.splitlines()] == ["second", "first.srec"], "a trace without the ending is listed", (out, err))
    status, _, err = run([SREPLAY, "replay"], SECONDS, cwd=directory)
    tap.ok(status == 1 and "second is the newest trace" in err, "... and is the newest", err)
    status, _, err = run([SREPLAY, "replay", "first"], SECONDS, cwd=directory)
    tap.ok(status == 0, "the other one is found without its ending", err)


def narrow(tap, directory):
    trace = os.path.join(directory, "a.srec")
    run([SREPLAY, "record", "--from-start", "-o", trace, "--", "sh", "-c", "read l < $0", __file__], SECONDS)
    bad = []
    for command in READERS:
        words = " ".join(os.path.join(directory, w) if w.startswith("OUT") else w for w in READERS[command] if ":" not in w)
        shutil.rmtree(os.path.join(directory, "OUT.srec"), ignore_errors=True)
        line = "stty cols 20 rows 5; %s %s %s %s %s" % (SREPLAY, command, words, trace, " ".join(w for w in READERS[command] if ":" in w))
        status, said = on_terminal(["/bin/sh", "-c", line])
        help_status, text = on_terminal(["/bin/sh", "-c", "stty cols 20 rows 5; %s %s --help" % (SREPLAY, command)])
        if status >> 8 not in (0, 1) or status & 127 or help_status or "Usage" not in text:
            bad.append((command, status, said[-300:], help_status))
    tap.ok(not bad, "a terminal of 20 columns", bad)


run_functions([arguments, no_trace, damaged, found, narrow])
