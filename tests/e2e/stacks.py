#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""MPI-3 RMA and OpenSHMEM on OpenMPI and UCX, unmodified, bare and recorded over rxe (under ci/rxe).

    stacks.py OUTDIR [--ranks N,...] [--launches N] [--with-fence] [PROGRAM...]

Both programs check themselves (tests/apps/mpi_rma.c, shmem_rma.c). UCX loads libibverbs when the
program already runs; for a replay it is preloaded (docs/limits.md says what is missing besides). Where the
replay of rank 0 alone stops is printed.

Of bare launches with OpenMPI 4.1.4 one in some ten never ended here: all ranks had printed their answers and
spun in MPI_Finalize, in a fence of PMIx that nobody completed. MPI_Finalize goes without that fence
(async_mpi_finalize; --with-fence has it), so a launch that hangs is a failure, and is shown with the
stacks of all ranks. --launches N launches bare and recorded in turn, and counts.

OpenMPI prefers its own TCP and shared memory to UCX where it does not know the device, also for what
OpenSHMEM starts by messages: both programs name UCX for these (pml), or are refused with "unreachable",
since neither transport is allowed (btl self).
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import BUILD, SREPLAY, Tap, fresh, kill_group, replay, start

APPS = os.path.join(os.path.realpath(BUILD), "tests", "apps")
SECONDS = 180 # the emulated machine of a busy host

# UCX 1.13 drops rxe's UD packets as misaddressed unless told not to look. PMIx gives its clients what
# they ask for by messages, not in shared memory, which is not recorded. UCX registers all its buffers for
# remote access, and initialises them one by one; with 256 instead of 4096 for each receive queue, and pools
# that grow by 128, shmem_rma has 34,000 faults in windows and not 131,000, each of which the emulated processor
# takes 20 and more times as long for as a real one.
ENVIRONMENT = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "rxe0:1", "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
               "UCX_RC_VERBS_RX_QUEUE_LEN": "256", "UCX_UD_VERBS_RX_QUEUE_LEN": "256",
               "UCX_RC_VERBS_TX_BUFS_GROW": "128", "UCX_UD_VERBS_TX_BUFS_GROW": "128",
               "SHMEM_SYMMETRIC_SIZE": "16M", "PMIX_MCA_gds": "hash", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LAUNCH = "--oversubscribe --mca plm isolated --mca oob_tcp_if_include lo --mca async_mpi_finalize %d"
PROGRAMS = {
    "mpi_rma": "mpirun " + LAUNCH + " --mca pml ucx --mca osc ucx --mca btl self",
    "shmem_rma": "oshrun " + LAUNCH + " --mca spml ucx --mca pml ucx --mca osc ucx --mca btl self --mca opal_common_ucx_opal_mem_hooks 0",
}


def end(process):
    """mpirun's children are not of its process group: it has to end them itself."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        kill_group(process)


def ranks_of(name):
    """The processes of a job that hangs, replayed ones and launchers aside."""
    found = []
    for path in glob.glob("/proc/[0-9]*/exe"):
        try:
            if os.readlink(path) == os.path.join(APPS, name):
                found.append(path.split("/")[2])
        except OSError:
            pass
    return found


def stacks(name):
    """Where the ranks are."""
    text = ""
    for pid in ranks_of(name):
        r = subprocess.run(["gdb", "-nx", "-batch", "-p", pid, "-ex", "thread apply 1 backtrace 25", "-ex", "thread apply all backtrace 25"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        text += "process %s\n%s" % (pid, "".join(line + "\n" for line in r.stdout.splitlines() if line.startswith(("#", "Thread"))))
    return text


class Launch:
    """What came of it. status: "hang" if it did not end."""

    def __init__(self, name, ranks, log, trace=None, with_fence=False):
        recorder = []
        if trace:
            shutil.rmtree(trace, ignore_errors=True)
            recorder = ["env", "LD_PRELOAD=libibverbs.so.1", SREPLAY, "record", "-o", trace, "--"]
        command = (PROGRAMS[name] % (not with_fence)).split() + ["-n", str(ranks)] + recorder
        process = start(command + [os.path.join(APPS, name), "5"], open(log, "wb"), subprocess.STDOUT,
                        env=dict(os.environ, **ENVIRONMENT))
        self.where = ""
        began = time.monotonic()
        try:
            self.status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.status = "hang"
            self.where = stacks(name)
            end(process)
        self.seconds = time.monotonic() - began
        with open(log, errors="replace") as f:
            self.text = f.read()
        print("# %s, %s: status %s after %.0f s" % (name, "recorded" if trace else "bare", self.status, self.seconds), flush=True)
        self.lines = sorted(re.findall(r"^%s: .*$" % name, self.text, re.M))
        self.wrong = self.lines != right(name, ranks) or self.status != 0

    def detail(self):
        return "status %s\n%s\n%s" % (self.status, self.where, self.text)


def right(name, ranks):
    return ["%s: rank %d of %d, 5 rounds: right" % (name, r, ranks) for r in range(ranks)]


def trace_problem(trace, ranks):
    verified = subprocess.run([SREPLAY, "verify", trace], capture_output=True, text=True)
    info = subprocess.run([SREPLAY, "info", trace], capture_output=True, text=True).stdout
    recorded = sorted(int(r) for r in re.findall(r"^rank (\d+):", info, re.M))
    if verified.returncode or recorded != list(range(ranks)):
        return "ranks %s\n%s%s%s" % (recorded, verified.stdout, verified.stderr, info)
    return None


def print_replay(trace):
    """Of rank 0, alone: exact, or where it stops."""
    status, _, err = replay(trace, 0)
    for line in err.splitlines()[-12:]:
        print("# replay, status %s: %s" % (status, line[:300]), flush=True)


def test(tap, options, name, ranks):
    base = os.path.join(options.directory, "%s-%d" % (name, ranks))
    trace = base + ".srec"
    bare, recorded = [], []
    for _ in range(options.launches):
        bare.append(Launch(name, ranks, base + ".bare", None, options.with_fence))
        recorded.append(Launch(name, ranks, base + ".recorded", trace, options.with_fence))
        problem = trace_problem(trace, ranks)
        recorded[-1].wrong = recorded[-1].wrong or problem
    for launches, how in ((bare, "right"), (recorded, "right when recorded, and the trace is whole")):
        failed = [launch.detail() for launch in launches if launch.wrong]
        tap.ok(not failed, "%s, %d ranks: %s, %d launches" % (name, ranks, how, len(launches)),
               "%d failed, %d of them hung\n%s" % (len(failed), sum(f.startswith("status hang") for f in failed), "\n".join(failed)))
    print_replay(trace)


def main():
    parser = argparse.ArgumentParser(description="MPI and OpenSHMEM, bare and recorded")
    parser.add_argument("directory")
    parser.add_argument("program", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[2])
    parser.add_argument("--launches", type=int, default=1)
    parser.add_argument("--with-fence", action="store_true")
    options = parser.parse_intermixed_args()
    tap = Tap()
    fresh(options.directory)
    for ranks in options.ranks:
        for name in options.program:
            if os.path.exists(os.path.join(APPS, name)):
                test(tap, options, name, ranks)
                continue
            print("ok %d - %s # SKIP not built: no OpenMPI here" % (tap.count + 1, name))
            tap.count += 1
    tap.finish()


if __name__ == "__main__":
    main()
