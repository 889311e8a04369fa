#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Traces without a name: COMMAND-N.srec, one N for all ranks of a launch, found again by `ls`, `ps` and readers.

    names.py [names] [launches] [lists] [errors] [guesses]
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, run, run_functions

SECONDS = 60
RECORD = [SREPLAY, "record", "--from-start", "--"]


def environment(directory, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI", "SLURM", "PALS", "MV2"))}
    return dict(env, SREPLAY_TRACE_DIR=directory, **more)


def record(directory, *command, **more):
    return run(RECORD + list(command), SECONDS, env=environment(directory, **more))


def launch(directory, ranks, command, **more):
    """All ranks at once; their exit statuses."""
    running = [subprocess.Popen(RECORD + command, env=environment(directory, PMIX_RANK=str(r), **more), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL) for r in range(ranks)]
    return [p.wait(SECONDS) for p in running]


def ranks(trace):
    return sorted(int(name[5:]) for name in os.listdir(trace) if name.startswith("rank-"))


def names(tap, directory):
    for _ in range(3):
        record(directory, "date", "+%N")
    tap.ok(sorted(n for n in os.listdir(directory) if "sreplay" not in n and n.startswith("date")) ==
           ["date-0.srec", "date-1.srec", "date-2.srec"], "each run has a number", os.listdir(directory))
    status, out, err = run([SREPLAY, "record", "--", "date"], SECONDS, env=environment(directory))
    left = [n for n in os.listdir(directory) if n.startswith((".sreplay", "date-3"))]
    tap.ok(status == 0 and not left, "where nothing was recorded nothing is left", (left, err))
    status, out, err = run([SREPLAY, "replay"], SECONDS, env=environment(directory))
    tap.ok(status == 0 and "date-2.srec is the newest trace" in err and "exact" in err, "replay takes the newest one", err)
    _, first, _ = run([SREPLAY, "replay", "date-0"], SECONDS, env=environment(directory))
    _, second, _ = run([SREPLAY, "replay", "date-1.srec"], SECONDS, env=environment(directory))
    tap.ok(first and second and first != second != out, "a name without its directory is found there", (first, second, out))


def launches(tap, directory):
    for n in range(6):
        statuses = launch(directory, 8, ["echo", "hi"], PMIX_NAMESPACE="job.%d" % n)
        if any(statuses):
            tap.ok(False, "a launch is recorded", statuses)
    traces = sorted(n for n in os.listdir(directory) if n.startswith("echo"))
    found = {n: ranks(os.path.join(directory, n)) for n in traces}
    tap.ok(found == {"echo-%d.srec" % n: list(range(8)) for n in range(6)}, "six launches of 8 ranks at once are six traces", found)
    launch(directory, 2, ["true"], SLURM_JOB_ID="7", SLURM_STEP_ID="0")
    launch(directory, 2, ["true"], SLURM_JOB_ID="7", SLURM_STEP_ID="1")
    launch(directory, 2, ["true"], SLURM_JOB_ID="7", SLURM_STEP_ID="1")
    found = [ranks(os.path.join(directory, "true-%d.srec" % n)) for n in range(3)]
    tap.ok(found == [[0, 1]] * 3, "steps of a job are launches, and so is a command that a step runs once more", found)
    launch(directory, 3, ["id"])
    tap.ok(ranks(os.path.join(directory, "id-0.srec")) == [0, 1, 2], "a launcher that says nothing is known by its process",
           os.listdir(directory))


def lists(tap, directory):
    record(directory, "date", "+%N")
    record(directory, "sh", "-c", "exit 7", SREPLAY_RANK="3")
    _, out, _ = run([SREPLAY, "ls", "--json"], SECONDS, env=environment(directory))
    traces = [json.loads(line) for line in out.splitlines()]
    tap.ok([(os.path.basename(t["trace"]), t["ranks"], t["command"]) for t in traces] ==
           [("sh-0.srec", 1, "sh -c exit 7"), ("date-0.srec", 1, "date +%N")] and traces[0]["bytes"] > 0,
           "ls lists them, the newest first", traces)
    _, out, _ = run([SREPLAY, "ps", "--json", "sh-0"], SECONDS, env=environment(directory))
    process = json.loads(out)
    tap.ok((process["rank"], process["status"], process["cut"], process["arguments"]) == (3, 7, False, ["sh", "-c", "exit 7"]),
           "ps says how a process ended", process)
    _, out, _ = run([SREPLAY, "ls"], SECONDS, env=environment(directory))
    tap.ok(len(out.splitlines()) == 3 and b"sh -c exit 7" in out, "as text with a line for each", out)


def errors(tap, directory):
    status, _, err = record(os.path.join(directory, "none"), "true")
    tap.ok(status == 125 and "SREPLAY_TRACE_DIR" in err, "a directory that is not there is named", err)
    status, _, err = run([SREPLAY, "info"], SECONDS, env=environment(directory))
    tap.ok(status == 125 and "there is no trace in" in err, "without a trace readers say so", err)
    status, _, err = run([SREPLAY, "ls"], SECONDS, env=environment(os.path.join(directory, "none")))
    tap.ok(status == 125 and "cannot read" in err, "so does ls", err)


def guesses(tap, directory):
    for wrong, right in (("repaly", "replay"), ("reprot", "report"), ("inof", "info"), ("expot", "export")):
        status, _, err = run([SREPLAY, wrong], SECONDS)
        tap.ok(status == 125 and 'did you mean "%s"' % right in err, "%s is near %s" % (wrong, right), err)
    status, _, err = run([SREPLAY, "frobnicate"], SECONDS)
    tap.ok(status == 125 and "did you mean" not in err and "--help" in err, "what is near nothing is not guessed", err)
    for wrong, right in (("--fromstart", "--from-start"), ("--clock-s", "--clocks")):
        status, _, err = run([SREPLAY, "record", wrong, "--", "true"], SECONDS, cwd=directory)
        tap.ok(status == 125 and 'did you mean "%s"' % right in err, "%s is near %s" % (wrong, right), err)


if __name__ == "__main__":
    run_functions([names, launches, lists, errors, guesses])
