#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Groups replayed over a device: each rank prints what it printed, and who produced which value is, byte for byte,
what it is over shared memory, each time.

    group_rxe.py rxe OUTDIR [NAME...]   records and replays, where there is rxe (run it under ci/rxe); "rc" has
                                        to be among the programs
    group_rxe.py alone                  on the stand-in for verbs, and where there is no device at all
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import group_rdma
import programs
from group_apps import difference, found, replay
from harness import BUILD, SREPLAY, Tap, fresh, read
from record_pingpong import run_pair

SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
SECONDS = 60

# (program, options): what goes over the device, the first in two pieces each; and what does not.
PAIRS = {
    "rc": ("ibv_rc_pingpong", ["-n", "10", "-s", "300000", "-m", "4096"]),
    "srq": ("ibv_srq_pingpong", ["-n", "20", "-q", "8", "-s", "64", "-e"]),
    "uc": ("ibv_uc_pingpong", ["-n", "20"]),
}
JOBS = (("uts", 3, (0, 2)), ("dht", 2, (0, 1)))


def carried(err):
    """Of what was made again over the device: WRITEs, SENDs, READs, atomics, bytes; and requests that were not."""
    over = re.search(rb"over \S+ \(\S+\): (\d+) WRITEs, (\d+) SENDs, (\d+) READs, (\d+) atomics, (\d+) bytes", err)
    past = re.search(rb"through shared memory: (\d+) requests", err)
    return [int(n) for n in over.groups()] if over else None, int(past.group(1)) if past else 0


def test_same(tap, name, trace, group, printed, directory, goes=lambda over, past: sum(over[:4])):
    """goes: does it go the way that it should?"""
    output = os.path.join(directory, "output")
    problem, reports, ways = "", set(), []
    for way in ("rxe", "rxe", "shm"):
        r = replay(trace, group, output, "--transport", way)
        problem = problem or difference(r, trace, group, output, printed)
        reports.add(tuple(found(trace, group)))
        ways.append(carried(r.stderr))
    if not problem and (not ways[0][0] or ways[0] != ways[1] or not goes(*ways[0]) or ways[2][0]):
        problem = "what went over the device: %s" % ways
    if not problem and len(reports) > 1:
        problem = "reports differ"
    tap.ok(not problem, "%s: ranks %s over the device twice and over shared memory: exact, one report (%s)"
           % (name, list(group), ways[0]), problem)


def on_rxe(tap, directory, names):
    fresh(directory)
    port = 18700
    for name in [name for name in PAIRS if name in names]:
        program, options = PAIRS[name]
        port += 1
        status = run_pair(directory, name, program, options, port)
        trace = os.path.join(directory, name + ".srec")
        tap.ok(status == (0, 0), "%s: recorded" % name, status)
        goes = (lambda over, past: past and not sum(over)) if name == "uc" else (lambda over, past: over[1] and not past)
        test_same(tap, name, trace, (0, 1), lambda rank: group_rdma.recorded_output(trace, rank), directory, goes)
    for name, ranks, group in [job for job in JOBS if job[0] in names]:
        base = os.path.join(directory, name)
        job = programs.run(programs.named([name])[0].small, ranks, base + ".recorded", base + ".srec", group, clocks=True)
        tap.ok(job.status == 0, "%s: recorded" % name, job.detail())
        test_same(tap, name, base + ".srec", group, lambda rank: read("%s.recorded/%d.out" % (base, rank)), directory)
    # By itself it goes over the device, where there is one.
    group_rdma.test_falsified(tap, os.path.join(directory, "rc.srec"), directory)
    r = group_rdma.replay(os.path.join(directory, "rc.srec"), os.path.join(directory, "output"))
    tap.ok("is done again over rxe0 (" in r.stderr, "a device is taken where there is one, and named", r.stderr)
    test_link_lost(tap, os.path.join(directory, "rc.srec"), directory)


def record_alone(name, directory):
    base = os.path.join(directory, name)
    os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
    programs.run(programs.named([name])[0].small, 1, base + ".recorded", base + ".srec", [0])
    return base


def test_no_device(tap, trace):
    """Without the stand-in: this machine's own library, or none."""
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        tap.ok(True, "without a device # SKIP there is one here")
        return
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    r = subprocess.run([SREPLAY, "replay", "--transport", "rxe", trace], stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=SECONDS, env=environment)
    tap.ok(r.returncode == 125 and re.search(rb"--transport rxe: .*\brdma link add\b.*--transport shm", r.stderr),
           "without a device: refused, with what helps", r.stderr)


def replay_when(command, trace, directory, *arguments):
    """Over the device; the command is done when it is ready, and rank 0 not yet started."""
    script = os.path.join(directory, "before")
    with open(script, "w") as f:
        f.write("#!/bin/sh -e\n%s\nexec \"$@\"\n" % command)
    os.chmod(script, 0o755)
    return subprocess.run([SREPLAY, "replay", "--transport", "rxe", "--timeout", "0", "--exec", script, "--rank", "0", *arguments, trace],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS)


def test_stalls(tap, trace, directory):
    """A device that does not answer."""
    stop = """for child in $(cat /proc/$PPID/task/*/children)
do grep -qx sreplay-proxy /proc/$child/comm && kill -STOP $child
done || :"""
    r = replay_when(stop, trace, directory)
    tap.ok(r.returncode == 125 and
           re.search(rb"rank 0 thread 0 SN \d+: the device did not do again what the call does: it was not done within", r.stderr)
           and re.search(rb"recorded: \w+ @0x", r.stderr), "a device that stalls ends the replay: rank, SN, and site", r.stderr)


def test_link_lost(tap, trace, directory):
    """The last test here: the device's network goes down."""
    link = read("/sys/class/infiniband/rxe0/parent").decode().strip()
    r = replay_when("ip link set %s down" % link, trace, directory, "--group", "0,1")
    subprocess.run(["ip", "link", "set", link, "up"])  # for the tests after this one
    tap.ok(r.returncode == 125 and
           re.search(rb"rank \d thread 0 SN \d+: the device did not do again what the call does: \w+ of \d+ bytes to rank \d: ", r.stderr)
           and re.search(rb"rank \d ends the replay; the others:", r.stderr), "a device that fails ends the replay, with the others' states",
           r.stderr)


def alone(tap):
    os.environ["LD_LIBRARY_PATH"] = SOFTDEV
    with tempfile.TemporaryDirectory() as directory:
        for name in ("uts", "dht", "guppie"):
            base = record_alone(name, directory)
            test_same(tap, name, base + ".srec", (0,), lambda rank: read("%s.recorded/%d.out" % (base, rank)), directory)
        test_no_device(tap, base + ".srec")
        test_stalls(tap, base + ".srec", directory)


def main():
    tap = Tap()
    if sys.argv[1:] == ["alone"]:
        alone(tap)
    elif sys.argv[1:2] == ["rxe"] and len(sys.argv) > 2:
        on_rxe(tap, sys.argv[2], sys.argv[3:] or list(PAIRS) + [job[0] for job in JOBS])
    else:
        sys.exit(__doc__)
    tap.finish()


if __name__ == "__main__":
    main()
