#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Options of `sreplay record`: each sets its variable, refuses what it cannot have, and has the name that the table
(settings.def) says; names from before are refused with the new ones."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "lib"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "shim", "core"))
from harness import BUILD, SREPLAY, Tap, run  # noqa: E402
from settings_docs import read_table  # noqa: E402

DEVICE = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
PROGRAM = [os.path.join(os.path.realpath(BUILD), "tests", "programs", "loopback"), "1", "3"]
RIGHT = {"RANKS": ["0,2-5", "3"], "PATH": ["/tmp/x", "x"], "TEXT": ["10.0.0.1,10.0.0.2"],
         "RANGES": ["0x6a0000000000+4096", "4096+1,0x10000+0x1000"]}
WRONG = {"RANKS": ["1-", "x", "2-1"], "PATH": [""], "TEXT": [], "RANGES": ["x", "1", "1+", "-1+4", "1+4,"]}


def right(s):
    """Values that the option may have; [None]: it has no argument."""
    if not s.has_argument:
        return [None]
    return s.words or (["%d" % n for n in s.range[1:]] if s.range else RIGHT[s.kind])


def wrong(s):
    if not s.has_argument:
        return []
    if s.words:
        return ["", "frozen", "%d" % len(s.words)]
    return ["", "x", "1x", "%d" % (s.range[1] - 1), "%d" % (s.range[2] + 1)] if s.range else WRONG[s.kind]


def record(directory, *options, **variables):
    """(exit status, the variables of the command, standard error)"""
    r = subprocess.run([SREPLAY, "record", *options, "--", "env"], cwd=directory, capture_output=True, text=True, timeout=60,
                       env=dict(os.environ, **variables))
    return r.returncode, dict(line.split("=", 1) for line in r.stdout.splitlines() if "=" in line), r.stderr


def values(tap, directory, s):
    """Each value in each form of the option is what the variable has."""
    for value in right(s):
        expected = os.path.join(directory, value) if s.kind == "PATH" else value if value is not None else "on"
        for form in (["--" + s.option] if value is None else ["--%s=%s" % (s.option, value)],
                     ["-" + s.letter] + ([] if value is None else [value])):
            if s.name == "FROM_START":
                continue
            if s.kind == "PATH" and value.startswith("/"):
                expected, form = directory + "/x", [f.replace("/tmp", directory) for f in form]
            status, variables, err = record(directory, *form)
            tap.ok(status == 0 and variables.get(s.variable) == expected, "%s sets %s=%s" % (" ".join(form).replace(directory, ""),
                   s.variable, expected.replace(directory, "")), "%s %s %s" % (status, variables.get(s.variable), err))


def from_start(tap, directory):
    """The variable is for the command alone, not for what that starts: it has another value there."""
    for form in ("--from-start", "-s"):
        trace = os.path.join(directory, "from%s.srec" % form)
        status, variables, err = record(directory, form, "-o", trace)
        tap.ok(status == 0 and os.path.isdir(trace) and int(variables["SREPLAY_FROM_START"]) == 0,
               "%s records a command without libibverbs" % form, err)


def recorded_with(tap, directory, s):
    """Whatever the choice is, a program records and replays."""
    choices = ["--" + s.option] if not s.has_argument else ["--%s=%s" % (s.option, word) for word in s.words]
    for option in choices:
        trace = os.path.join(directory, "chosen%s.srec" % option)
        environment = dict(os.environ, LD_LIBRARY_PATH=DEVICE)
        recorded = run([SREPLAY, "record", option, "-o", trace, "--"] + PROGRAM, 60, env=environment)
        # Without the trap, files cannot be kept apart.
        live = ["--live-files"] if option == "--syscall-trap=off" else []
        replayed = run([SREPLAY, "replay", *live, trace], 60, env=environment)
        tap.ok(recorded[0] == replayed[0] == 0 and not recorded[2] and recorded[1] == replayed[1] and ": exact" in replayed[2],
               "a recording with %s is replayed" % option, "%s\n%s" % (recorded, replayed))


def wrong_values(tap, directory, s):
    for value in wrong(s):
        status, _, err = record(directory, "--%s=%s" % (s.option, value))
        tap.ok(status == 125 and err.startswith("sreplay: --%s" % s.option) and err.count("\n") == 1
               and all(word in err for word in s.words), "--%s=%s is refused in a line" % (s.option, value), err)


def old_names(tap, directory, settings, renamed):
    for option, letter, variable, name, note in renamed:
        now = next(s for s in settings if s.name == name)
        remedy = "sreplay: --%s is now --%s=%s%s\n" % (option, now.option, now.argument, "; " + note if note else "")
        for form in (["--" + option], ["--%s=off" % option]) + ((["-" + letter],) if letter else ()):
            status, _, err = record(directory, *form)
            tap.ok(status == 125 and err == remedy, "%s is refused, with the new name" % form[0], err)


def wrong_variables(tap, directory, settings, renamed):
    """The command would run unrecorded, so `sreplay record` refuses them first."""
    for s in settings:
        value = "./x" if s.kind == "PATH" else "frozen"
        if s.kind == "TEXT" or s.name == "TRACE":
            continue
        status, _, err = record(directory, **{s.variable: value})
        tap.ok(status == 125 and err.startswith("sreplay: %s=%s: expected " % (s.variable, value)) and err.count("\n") == 1,
               "%s=%s is refused" % (s.variable, value), err)
    status, variables, err = record(directory, "--rank=1", SREPLAY_RANK="frozen")
    tap.ok(status == 0 and variables["SREPLAY_RANK"] == "1", "an option counts more than its variable", err)
    for option, letter, variable, name, note in renamed:
        now = next(s for s in settings if s.name == name)
        status, _, err = record(directory, **{variable: "1"})
        tap.ok(status == 125 and err == "sreplay: %s is now %s\n" % (variable, now.variable), "%s is refused" % variable, err)


def main():
    tap = Tap()
    settings, renamed = read_table()
    with tempfile.TemporaryDirectory() as directory:
        directory = os.path.realpath(directory)
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for s in settings:
            if s.option:
                values(tap, directory, s)
                wrong_values(tap, directory, s)
            if s.option and s.words:
                recorded_with(tap, directory, s)
        from_start(tap, directory)
        old_names(tap, directory, settings, renamed)
        wrong_variables(tap, directory, settings, renamed)
        status, variables, err = record(directory)
        tap.ok(status == 0 and variables["SREPLAY_TRACE"] == directory + "/env-0.srec",
               "without --output the trace is named after the command", err)
        tap.ok(not os.path.exists(os.path.join(directory, "env-0.srec")), "where nothing was recorded, no directory is left")
        os.mkdir(os.path.join(directory, "env-6.srec"))
        status, variables, err = record(directory)
        tap.ok(status == 0 and variables["SREPLAY_TRACE"] == directory + "/env-7.srec",
               "an earlier trace of that name is not written over", err)
    tap.finish()


if __name__ == "__main__":
    main()
