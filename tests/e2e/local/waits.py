#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs that wait on exposed memory, on the software device: recording one must not make it wait longer, and its
replay must tell a long computation from a loop that waits in vain, and be as fast as the run.

The bounds are some ten times what a quiet machine takes, and half of what it took where a loop waited for ticks.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, replay, run

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")
SECONDS = 60


def record(directory, trace, ranks, program):
    """All ranks.  (status, seconds that rank 0 says it took, what was said)."""
    recorded = ",".join(map(str, range(ranks)))
    out = fresh(os.path.join(directory, program[0]))
    command = [os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", str(SECONDS), "-o", out, "-w", recorded,
               "%s record -o %s --rank %%r --group %s --" % (SREPLAY, trace, recorded), os.path.join(PROGRAMS, program[0])]
    status, _, err = run([SOFTDEV, "--"] + command + program[1:], SECONDS, env=dict(os.environ, PGAS_STATISTICS="1"))
    with open(os.path.join(out, "0.err")) as f:
        said = f.read()
    seconds = re.search(r"seconds=([\d.]+)", said)
    return status, float(seconds.group(1)) if seconds else None, err + said


def timed_replay(trace, rank):
    began = time.monotonic()
    status, _, err = replay(trace, rank)
    return status == 0 and "0 divergences: exact" in err, time.monotonic() - began, err


def yields(tap, directory):
    """
    A rank between two others reads the row of one and then waits, by sched_yield, for the other's, whose number lies on
    the same page: what it has of that page is older. Four ranks on two processors; rank 2 is late, rank 1 waits for it.
    """
    trace = os.path.join(directory, "laplace.srec")
    status, seconds, said = record(directory, trace, 4, ["laplace", "64", "300", "2"])
    events = subprocess.run([SREPLAY, "dump", trace], capture_output=True, text=True).stdout
    tap.ok(status == 0 and seconds and seconds < 4, "a loop that gives up its processor sees what has come", "%s\n%s" % (status, said))
    tap.ok("yield" in events, "it was shown that as it gave up its processor", events[:2000])
    for rank in (1, 2):
        exact, took, err = timed_replay(trace, rank)
        tap.ok(exact and took < 4, "its replay, rank %d, is exact, and does not wait for ticks" % rank, "%.1f s\n%s" % (took, err))
    counted = os.path.join(directory, "yields")
    status, _, err = run(["strace", "-f", "-e", "trace=sched_yield", "-o", counted, SREPLAY, "replay", "--no-sandbox", "--rank", "1",
                          trace], SECONDS)
    with open(counted) as f:
        made = f.read().count("sched_yield()")
    tap.ok(status == 0 and made < 10, "a replay gives up no processor: nobody else brings what it waits for", "%d times\n%s" % (made, err))


def computes(tap, directory):
    """Each task looks at the deque, without a call: over 300,000 times between two calls."""
    trace = os.path.join(directory, "nqueens.srec")
    status, seconds, said = record(directory, trace, 2, ["nqueens", "14", "5"])
    tap.ok(status == 0, "a computation that looks at exposed memory is recorded", "%s\n%s" % (status, said))
    events = subprocess.run([SREPLAY, "dump", trace], capture_output=True, text=True).stdout
    many = [int(n) for n in re.findall(r'record="exposed" access=(\d+).* many', events)]
    tap.ok(many and max(many) > 300000, "the trace says how often it looked", str(many))
    for rank in range(2):
        exact, took, err = timed_replay(trace, rank)
        tap.ok(exact, "rank %d replays exactly" % rank, err)
        tap.ok(seconds and took < 3 * seconds + 1, "... by jumps, as the recording", "%.1f s, recorded %s s" % (took, seconds))


def computes_for_long(tap, directory):
    """For longer than a replay waits for a call: its accesses are what the recording has."""
    trace = os.path.join(directory, "longer.srec")
    status, _, said = record(directory, trace, 2, ["nqueens", "15", "5"])
    tap.ok(status == 0, "a computation of some seconds is recorded", "%s\n%s" % (status, said))
    status, _, err = run([SREPLAY, "replay", "--timeout", "1", "-r", "0", trace], SECONDS)
    tap.ok(status == 0 and "0 divergences: exact" in err, "its replay is not stuck as long as it makes the recorded accesses", err)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        yields(tap, directory)
        computes(tap, directory)
        computes_for_long(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
