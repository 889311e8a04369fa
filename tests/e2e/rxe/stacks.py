#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""MPI-3 RMA and OpenSHMEM on OpenMPI and UCX, unmodified, bare and recorded over rxe (under ci/rxe).

    stacks.py OUTDIR [--ranks N,...] [--launches N] [--with-fence] [--serial] [PROGRAM...]
    stacks.py OUTDIR --replay                                 on a machine that needs no device

Both programs check themselves (tests/programs/stacks/mpi_rma.c, shmem_rma.c). UCX loads libibverbs when the
program already runs; for a replay it is preloaded (docs/user/limits.md says what is missing besides). Where the
replay of rank 0 alone stops is printed. With --serial, one thread of a rank runs at a time while it is recorded, since
their libraries' threads meet by plain atomics; --replay replays each rank of such recordings alone: exact.

Of bare launches with OpenMPI 4.1.4 one in some ten never ended here: all ranks had printed their answers and
spun in MPI_Finalize, in a fence of PMIx that nobody completed. MPI_Finalize goes without one of its two fences
(async_mpi_finalize; --with-fence has it). The other one is UCX's, and bare launches hang in it as well: one rank is
there, and no longer serves the endpoints that another one is still closing (ucp_ep_destroy, in the
end of osc ucx), which so never comes to the fence. Recorded in the emulated machine, ranks reach their ends further
apart, and 7 of 8 launches hung; none of 5 did when each send has a completion of its own (UCX's default is each 64th):
then closing an endpoint sends nothing any more to a queue pair that the other rank may have destroyed. If one hangs there
nevertheless, a launch of which all ranks have answered and each main thread is seen in MPI_Finalize, it is void: it is
printed, and made again, VOID times at most. Any other hang is a failure, and shown with the stacks of all ranks.
--launches N launches bare and recorded in turn, and counts.

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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, kill_group, replay, run, start

APPS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SECONDS = 180  # the emulated machine of a busy host
GDB_SECONDS = 90
FINALIZE, FINALIZE_SECONDS, VOID = "ompi_mpi_finalize", 45, 3

# UCX 1.13 drops rxe's UD packets as misaddressed unless told not to look. PMIx gives its clients what
# they ask for by messages, not in shared memory, which is not recorded. UCX registers all its buffers for
# remote access, and initialises them one by one; with 256 instead of 4096 for each receive queue, and pools
# that grow by 128, shmem_rma has 34,000 faults in exposed memory and not 131,000, each of which the emulated processor
# takes 20 and more times as long for as a real one.
ENVIRONMENT = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "rxe0:1", "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
               "UCX_RC_VERBS_RX_QUEUE_LEN": "256", "UCX_UD_VERBS_RX_QUEUE_LEN": "256",
               "UCX_RC_VERBS_TX_BUFS_GROW": "128", "UCX_UD_VERBS_TX_BUFS_GROW": "128",
               "UCX_RC_VERBS_TX_CQ_MODERATION": "1",
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
        status, out, _ = run(["gdb", "-nx", "-batch", "-p", pid, "-ex", "thread apply 1 backtrace 25",
                              "-ex", "thread apply all backtrace 25"], GDB_SECONDS)
        lines = [line for line in out.decode(errors="replace").splitlines() if line.startswith(("#", "Thread"))]
        others = [i for i, line in enumerate(lines) if line.startswith("Thread")][1:]
        main = " ".join(re.findall(r" in (\w+) \(", "\n".join(lines[:others[0] if others else None])))
        text += "process %s, gdb ended with %s\nmain thread %s\n%s\n" % (pid, status, main, "\n".join(lines))
    return text


def answers(name, log):
    with open(log, errors="replace") as f:
        return sorted(re.findall(r"^%s: .*$" % name, f.read(), re.M))


class Launch:
    """What came of it. status: "hang" if it did not end."""

    def __init__(self, name, ranks, log, options, trace=None):
        recorder = []
        if trace:
            shutil.rmtree(trace, ignore_errors=True)
            threads = ["--threads=serial"] if options.serial else []
            recorder = ["env", "LD_PRELOAD=libibverbs.so.1", SREPLAY, "record"] + threads + ["-o", trace, "--"]
        command = (PROGRAMS[name] % (not options.with_fence)).split() + ["-n", str(ranks)] + recorder
        process = start(command + [os.path.join(APPS, name), "5"], open(log, "wb"), subprocess.STDOUT,
                        env=dict(os.environ, **ENVIRONMENT))
        self.where = ""
        began = time.monotonic()
        self.status = self.wait(process, name, ranks, log)
        if self.status in ("hang", "void"):
            end(process)
        self.seconds = time.monotonic() - began
        print("# %s, %s: status %s after %.0f s" % (name, "recorded" if trace else "bare", self.status, self.seconds), flush=True)
        for line in re.findall(r"^(?:process|main thread) .*$", self.where, re.M):
            print("# " + line, flush=True)
        self.wrong = answers(name, log) != right(name, ranks) or self.status != 0
        with open(log, errors="replace") as f:
            self.text = f.read()

    def wait(self, process, name, ranks, log):
        """The exit status; "void": it hangs in OpenMPI's end; "hang": elsewhere."""
        answered = None
        end_at = time.monotonic() + SECONDS
        while time.monotonic() < end_at:
            try:
                return process.wait(1)
            except subprocess.TimeoutExpired:
                pass
            if answers(name, log) != right(name, ranks):
                continue
            answered = answered or time.monotonic()
            # On a loaded machine some are on their way there for a while.
            if time.monotonic() - answered > FINALIZE_SECONDS:
                if self.all_in_finalize(name, ranks):
                    return "void"
                answered = time.monotonic()
        return "void" if answered and self.all_in_finalize(name, ranks) else "hang"

    def all_in_finalize(self, name, ranks):
        self.where = stacks(name)
        return len(re.findall(r"^main thread .*" + FINALIZE, self.where, re.M)) == ranks

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


def replay_all(tap, directory):
    """Each rank of each recording, alone."""
    traces = sorted(glob.glob(os.path.join(directory, "*.srec")))
    tap.ok(traces, "there are recordings in %s" % directory)
    for trace in traces:
        name, ranks = os.path.basename(trace)[:-len(".srec")].rsplit("-", 1)
        for rank in range(int(ranks)):
            status, out, err = replay(trace, rank)
            answer = "%s: rank %d of %s, 5 rounds: right" % (name, rank, ranks)
            tap.ok(status == 0 and answer in out.decode() and "exact" in err,
                   "%s, rank %d of %s: its replay alone is exact" % (name, rank, ranks), "%s\n%s" % (status, err))


def launch(name, ranks, log, options, trace=None):
    """The first one that is not void."""
    for _ in range(VOID):
        result = Launch(name, ranks, log, options, trace)
        if result.status != "void":
            break
    return result


def test(tap, options, name, ranks):
    base = os.path.join(options.directory, "%s-%d" % (name, ranks))
    trace = base + ".srec"
    bare, recorded = [], []
    for _ in range(options.launches):
        bare.append(launch(name, ranks, base + ".bare", options))
        recorded.append(launch(name, ranks, base + ".recorded", options, trace))
        problem = trace_problem(trace, ranks)
        recorded[-1].wrong = recorded[-1].wrong or problem
    for launches, how in ((bare, "right"), (recorded, "right when recorded, and the trace is whole")):
        failed = [launch.detail() for launch in launches if launch.wrong]
        tap.ok(not failed, "%s, %d ranks: %s, %d launches" % (name, ranks, how, len(launches)),
               "%d failed, %d of them hung\n%s" % (len(failed), sum(f.startswith("status hang") for f in failed), "\n".join(failed)))
    if not options.serial:
        print_replay(trace)


def main():
    parser = argparse.ArgumentParser(description="MPI and OpenSHMEM, bare and recorded")
    parser.add_argument("directory")
    parser.add_argument("program", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[2])
    parser.add_argument("--launches", type=int, default=1)
    parser.add_argument("--with-fence", action="store_true")
    parser.add_argument("--serial", action="store_true")
    parser.add_argument("--replay", action="store_true")
    options = parser.parse_intermixed_args()
    tap = Tap()
    if options.replay:
        replay_all(tap, options.directory)
        tap.finish()
        return
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
