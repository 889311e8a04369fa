#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A race of an MPI program: found, with its lines, and confirmed; possible where the ranks talk through shared memory; none where there is none."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import FULL, SREPLAY, Tap, run

HERE = os.path.dirname(os.path.realpath(__file__))
SOFTDEV = os.path.join(HERE, "..", "..", "..", "ci", "softdev")
SOURCE = os.path.join(HERE, "..", "..", "programs", "stacks", "mpi_race.c")
JOB = ["mpiexec.hydra", "-launcher", "fork", "-iface", "lo", "-n", "3"]
SECONDS = 120


def record(trace, *command):
    return run([SOFTDEV, "--"] + JOB + [SREPLAY, "record", "-q", "--clocks", "-o", trace, "--"] + list(command), SECONDS)


def find(trace):
    """What is more than a note, and what is one."""
    out = run([SREPLAY, "races", "--json", trace], SECONDS)[1]
    races = [json.loads(line) for line in out.splitlines()[1:]]
    return [r for r in races if r.get("severity") in ("error", "warning")], [r for r in races if r.get("severity") == "note"]


def main():
    tap = Tap()
    if not shutil.which("mpicc.mpich"):
        tap.ok(True, "# SKIP there is no MPICH")
        return tap.finish()
    os.environ.update(MPIR_CVAR_NOLOCAL="1", UCX_TLS="rc_verbs,ud_verbs,self")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        program, trace = os.path.join(directory, "mpi_race"), os.path.join(directory, "racing.srec")
        subprocess.run(["mpicc.mpich", "-g", "-O1", "-o", program, SOURCE], check=True)
        line = [n for n, text in enumerate(open(SOURCE, encoding="utf-8"), 1) if "argc > 1 ?" in text][0]
        recorded = record(trace, program)
        loud, _ = find(trace)
        where = [[f for f in a["frames"] if "mpi_race.c" in f] for r in loud for a in r["accesses"]]
        tap.ok(len(loud) == 1 and loud[0]["class"] == "data" and where == [["main (mpi_race.c:%d)" % line]] * 2,
               "one race, at the line of both puts", "%s %s" % (recorded, loud))
        status, out, err = run([SOFTDEV, "--", SREPLAY, "confirm", "--race", "1", trace, "--"] + JOB + [program], SECONDS)
        tap.ok(b"race 1: confirmed" in out and b"effect of the order: result" in out, "... which comes in both orders", "%s %s %s" % (status, out, err))
        if FULL:
            trace = os.path.join(directory, "apart.srec")
            recorded = record(trace, program, "apart")
            loud, _ = find(trace)
            tap.ok(recorded[0] == 0 and not loud, "puts to places of their own: none", "%s %s" % (recorded, loud))
        del os.environ["UCX_TLS"]
        trace = os.path.join(directory, "sharing.srec")
        recorded = record(trace, program)
        loud, notes = find(trace)
        out = run([SREPLAY, "races", trace], SECONDS)[1].decode()
        tap.ok(not loud and [r for r in notes if "memory that they share" in " ".join(r["reasons"])], "messages through shared memory: it is possible, and why",
               "%s %s" % (recorded, notes))
        tap.ok("cannot be decided as the ranks share memory" in out and "UCX_TLS=" in out, "... and how to decide it", out)
    tap.finish()


if __name__ == "__main__":
    main()
