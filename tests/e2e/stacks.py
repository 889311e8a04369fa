#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""MPI-3 RMA and OpenSHMEM on OpenMPI and UCX, unmodified, bare and recorded over rxe (under ci/rxe).

    stacks.py OUTDIR [RANKS...]

Both programs check themselves (tests/apps/mpi_rma.c, shmem_rma.c). What a recording lacks for a
replay is in docs/limits.md: UCX loads libibverbs when the program already runs.

Of bare launches with OpenMPI 4.1.4 one in some ten never ends here: all ranks have printed their
answers and spin in MPI_Finalize, in a fence of PMIx that nobody completes. Such a launch is made again.
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import BUILD, SREPLAY, Tap, fresh, kill_group, start

APPS = os.path.join(os.path.realpath(BUILD), "tests", "apps")
SECONDS = 60
LAUNCHES = 3

# UCX 1.13 drops rxe's UD packets as misaddressed unless told not to look.
ENVIRONMENT = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "rxe0:1", "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
               "SHMEM_SYMMETRIC_SIZE": "16M", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LAUNCH = "--oversubscribe --mca plm isolated --mca oob_tcp_if_include lo"
PROGRAMS = {
    "mpi_rma": "mpirun %s --mca pml ucx --mca osc ucx --mca btl self" % LAUNCH,
    "shmem_rma": "oshrun %s --mca spml ucx --mca opal_common_ucx_opal_mem_hooks 0" % LAUNCH,
}


def end(process):
    """mpirun's children are not of its process group: it has to end them itself."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        kill_group(process)


def launch(name, ranks, log, recorder):
    """(status, the ranks' lines sorted, everything that was printed)."""
    command = PROGRAMS[name].split() + ["-n", str(ranks)] + recorder + [os.path.join(APPS, name), "5"]
    process = start(command, open(log, "wb"), subprocess.STDOUT, env=dict(os.environ, **ENVIRONMENT))
    try:
        status = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        end(process)
        status = "hang"
    with open(log, errors="replace") as f:
        text = f.read()
    return status, sorted(re.findall(r"^%s: .*$" % name, text, re.M)), text


def run(name, ranks, log, trace=None):
    """Launches again what hung when all had printed their answers."""
    for _ in range(LAUNCHES):
        recorder = []
        if trace:
            shutil.rmtree(trace, ignore_errors=True)
            recorder = [SREPLAY, "record", "-o", trace, "--"]
        status, lines, text = launch(name, ranks, log, recorder)
        if status != "hang" or len(lines) < ranks:
            break
        print("# %s hung at its end%s" % (name, " when recorded" if trace else ""), flush=True)
    return status, lines, text


def right(name, ranks):
    return ["%s: rank %d of %d, 5 rounds: right" % (name, r, ranks) for r in range(ranks)]


def trace_problem(trace, ranks):
    verified = subprocess.run([SREPLAY, "verify", trace], capture_output=True, text=True)
    info = subprocess.run([SREPLAY, "info", trace], capture_output=True, text=True).stdout
    recorded = sorted(int(r) for r in re.findall(r"^rank (\d+):", info, re.M))
    if verified.returncode or recorded != list(range(ranks)):
        return "ranks %s\n%s%s%s" % (recorded, verified.stdout, verified.stderr, info)
    return None


def main():
    tap = Tap()
    directory = fresh(sys.argv[1])
    for ranks in [int(n) for n in sys.argv[2:]] or [2]:
        for name in PROGRAMS:
            if not os.path.exists(os.path.join(APPS, name)):
                print("ok %d - %s # SKIP not built: no OpenMPI here" % (tap.count + 1, name))
                tap.count += 1
                continue
            base = os.path.join(directory, "%s-%d" % (name, ranks))
            status, lines, text = run(name, ranks, base + ".bare")
            tap.ok(status == 0 and lines == right(name, ranks), "%s, %d ranks: right" % (name, ranks),
                   "%s\n%s" % (status, text))
            trace = base + ".srec"
            status, lines, text = run(name, ranks, base + ".recorded", trace)
            problem = trace_problem(trace, ranks)
            tap.ok(status == 0 and lines == right(name, ranks) and not problem,
                   "%s, %d ranks: right when recorded, and the trace is whole" % (name, ranks),
                   "%s\n%s\n%s" % (status, text, problem))
    tap.finish()


if __name__ == "__main__":
    main()
