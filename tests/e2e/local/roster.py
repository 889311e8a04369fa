#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs of the distribution, on the software device, recorded with default options: each rank, and each process that it
has forked, alone replays exactly.

    roster.py                  the test: those that are quick, once
    roster.py [--runs N] [--each] [--group] [--option OPTION]... [--keep DIR] all|NAME...

The second form prints a table, also of what does not work yet. --each: `mpirun sreplay record -- app` instead of
`sreplay record -- mpirun app`. --group: all ranks together, too. --option bare: without a recording. A program that is
not installed is skipped.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, free_port, kill_group, run, start, wait_for_listener

ROOT = os.path.realpath(os.path.join(HERE, "..", "..", ".."))
SOFTDEV = [os.path.join(ROOT, "ci", "softdev"), "--"]
SOURCES = os.path.join(ROOT, "tests", "programs", "stacks")
SECONDS = 60

UCX_VERBS = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "soft0:1"}
UCX = {"UCX_TLS": "rc_verbs,ud_verbs,sm,self", "UCX_NET_DEVICES": "soft0:1"}
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Pair:
    """A server that listens on a TCP port, and a client."""

    def __init__(self, server, client, env=None, quick=False):
        self.program, self.env, self.quick = server[0], env or {}, quick
        self.server, self.client = server, client

    def go(self, record, each, port):
        """The exit statuses of both; each with its own `sreplay record`, as there is no launcher."""
        put = lambda words: [w.replace("PORT", str(port)) for w in words]
        with tempfile.TemporaryFile() as log:
            server = start(record(0) + put(self.server), log, log)
            try:
                wait_for_listener(port, server, SECONDS)
                status, out, err = run(record(1) + put(self.client), SECONDS)
                end = time.monotonic() + 20
                while server.poll() is None and time.monotonic() < end:
                    time.sleep(0.01)
                log.seek(0)
                return [server.poll(), status], out.decode(errors="replace") + err + log.read().decode(errors="replace")
            finally:
                kill_group(server)


class Job:
    """A program with a launcher."""

    def __init__(self, launcher, command, env, compiler, quick=False):
        self.launcher, self.command, self.env, self.program, self.quick = launcher, command, env, compiler, quick

    def go(self, record, each, port):
        """Compiled where the job runs: SOURCE's name follows the compiled program's."""
        place = tempfile.gettempdir()
        binary, source = os.path.join(place, self.command[0] % self.command[1]), self.command[1]
        if not os.path.exists(binary):
            subprocess.run([self.program, "-O1", "-o", binary, os.path.join(SOURCES, source + ".c")], check=True)
        return self.run(record, each, [binary] + self.command[2:])

    def run(self, record, each, program):
        command = self.launcher + record(None) + program if each else record(None) + self.launcher + program
        status, out, err = run(command, SECONDS)
        return [status], out.decode(errors="replace") + err


class Hpcc(Job):
    """The HPC Challenge of the distribution, by a small problem: seven programs in one, their messages up to 2 MB."""

    def go(self, record, each, port):
        source = "/usr/share/doc/hpcc/examples/_hpccinf.txt"
        with open(source) as f:
            lines = f.read().split("\n")
        lines[5], lines[7], lines[10], lines[11] = "200 Ns", "40 NBs", "1 Ps", "2 Qs"
        # What the program read has to be there in its replays.
        place = os.path.join(tempfile.gettempdir(), "sreplay-hpcc")
        os.makedirs(place, exist_ok=True)
        os.chdir(place)
        with open("hpccinf.txt", "w") as f:
            f.write("\n".join(lines))
        if os.path.exists("hpccoutf.txt"):
            os.unlink("hpccoutf.txt")
        statuses, said = self.run(record, each, self.command)
        with open("hpccoutf.txt") as f:
            said += f.read()
        return statuses + [0 if "End of HPC Challenge tests" in said else 1], said


def fi_pingpong(provider, endpoint, quick=False):
    common = ["-p", provider, "-e", endpoint]
    return Pair(["fi_pingpong", "-B", "PORT"] + common, ["fi_pingpong", "-P", "PORT"] + common + ["127.0.0.1"], quick=quick)


def ucx(test, *options, env=UCX, quick=False):
    client = ["ucx_perftest", "-p", "PORT", "127.0.0.1", "-t", test, "-n", "30", "-w", "2"] + list(options)
    return Pair(["ucx_perftest", "-p", "PORT"], client, env, quick)


def fio(verb, *options, quick=False):
    """The engine's own options have to come behind its name."""
    common = ["--ioengine=rdma", "--port=PORT", "--bs=4k", "--size=64k", "--iodepth=4"] + list(options)
    return Pair(["fio", "--name=s", "--rw=read"] + common,
                ["fio", "--name=c", "--rw=write"] + common[:1] + ["--hostname=127.0.0.1", "--verb=" + verb] + common[1:], quick=quick)


def perftest(program, *options):
    common = [program, "-d", "soft0", "-x", "1", "-F", "-p", "PORT"] + list(options) + ([] if "-D" in options else ["-n", "50"])
    return Pair(common, common + ["127.0.0.1"])


ISOLATED = ["--oversubscribe", "--mca", "plm", "isolated", "--mca", "oob_tcp_if_include", "lo"]
OVER_UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self"]


def mpich(program, env=None, ranks=2, quick=False, kinds=(), rounds=3):
    """Its job's processes on one node would talk through shared memory alone: MPIR_CVAR_NOLOCAL."""
    return Job(["mpiexec.hydra", "-launcher", "fork", "-iface", "lo", "-n", str(ranks)], ["mpich-%s", program, str(rounds)] + list(kinds),
               dict(UCX_VERBS, **(env or {})), "mpicc.mpich", quick)


def openmpi(program, env=None, ranks=2, kinds=(), quick=False, rounds=3):
    return Job(["mpirun.openmpi"] + ISOLATED + OVER_UCX + ["-n", str(ranks)], ["openmpi-%s", program, str(rounds)] + list(kinds),
               dict(UCX_VERBS, **ROOT_MAY, **(env or {})), "mpicc.openmpi", quick)


def oshmem(program, env=None, ranks=2):
    return Job(["oshrun"] + ISOLATED + ["--mca", "spml", "ucx"] + OVER_UCX + ["-n", str(ranks)], ["oshmem-%s", program, "3"],
               dict(UCX_VERBS, **ROOT_MAY, SHMEM_SYMMETRIC_SIZE="16M", **(env or {})), "oshcc")


# Shared windows need a transport of theirs within the node.
NOT_SHARED = ["messages", "passive", "active", "dynamic"]
SHARED_FILE = os.path.join(tempfile.gettempdir(), "sreplay-mpi_files")

ROSTER = {
    "fi_pingpong": fi_pingpong("verbs", "msg", quick=True),
    # libfabric 1.17 uses its endpoint after it has freed it: bare, 5 of 200 runs crash.
    "fi_pingpong-rxm": fi_pingpong("verbs;ofi_rxm", "rdm"),
    "ucx-tag_lat": ucx("tag_lat", quick=True),
    "ucx-am_lat": ucx("am_lat", "-d", "soft0:1", "-x", "rc_verbs"),
    "ucx-put_lat": ucx("ucp_put_lat"),
    "ucx-get": ucx("ucp_get"),
    "ucx-fadd": ucx("ucp_fadd"),
    "ucx-verbs": ucx("tag_lat", env={"UCX_TLS": "rc_verbs,ud_verbs", "UCX_NET_DEVICES": "soft0:1"}, quick=True),
    "ucx-threads": ucx("tag_lat", "-T", "2", "-M", "multi"),
    "fio-write": fio("write", quick=True),
    "fio-read": fio("read"),
    "fio-send": fio("send"),
    "fio-write-thread": fio("write", "--thread"),
    "fio-read-thread": fio("read", "--thread"),
    "fio-send-thread": fio("send", "--thread"),
    "mpich-rma": mpich("mpi_rma", {"MPIR_CVAR_NOLOCAL": "1"}, quick=True),
    "mpich-rma-local": mpich("mpi_rma"),
    "mpich-rma-sm": mpich("mpi_rma", UCX),
    "openmpi-rma": openmpi("mpi_rma"),
    "openmpi-rma-sm": openmpi("mpi_rma", UCX),
    "oshmem-rma": oshmem("shmem_rma"),
    "oshmem-rma-sm": oshmem("shmem_rma", UCX),
    "hpcc": Hpcc(["mpirun.openmpi"] + ISOLATED + OVER_UCX + ["-n", "2"], ["hpcc"], dict(UCX_VERBS, **ROOT_MAY), "hpcc"),
    "mpich-windows": mpich("mpi_windows", {"MPIR_CVAR_NOLOCAL": "1"}, kinds=NOT_SHARED),
    # Its shared windows lie at addresses that are drawn at random.
    "mpich-windows-sm": mpich("mpi_windows", UCX, quick=True),
    "openmpi-windows": openmpi("mpi_windows", kinds=NOT_SHARED),
    "openmpi-windows-sm": openmpi("mpi_windows", UCX, kinds=NOT_SHARED),
    "mpich-windows-4": mpich("mpi_windows", {"MPIR_CVAR_NOLOCAL": "1"}, ranks=4, kinds=NOT_SHARED),
    "mpich-windows-sm-4": mpich("mpi_windows", UCX, ranks=4),
    "openmpi-windows-4": openmpi("mpi_windows", ranks=4, kinds=NOT_SHARED),
    "mpich-rma-4": mpich("mpi_rma", {"MPIR_CVAR_NOLOCAL": "1"}, ranks=4),
    "openmpi-rma-4": openmpi("mpi_rma", ranks=4),
    "oshmem-rma-4": oshmem("shmem_rma", ranks=4),
    "ucx-stream_lat": ucx("stream_lat"),
    "ucx-tag_bw-4-threads": ucx("tag_bw", "-T", "4", "-M", "multi"),
    "ucx-am_bw": ucx("ucp_am_bw"),
    "ucx-tag_bw": ucx("tag_bw", "-s", "4000", "-n", "600", env=UCX_VERBS),
    "ucx-put_bw": ucx("ucp_put_bw", "-s", "16000", "-n", "600", env=UCX_VERBS),
    "openmpi-files": openmpi("mpi_files", kinds=[SHARED_FILE]),
    "mpich-files": mpich("mpi_files", {"MPIR_CVAR_NOLOCAL": "1"}, kinds=[SHARED_FILE], quick=True),
    "openmpi-data": openmpi("mpi_data", rounds=60),
    "mpich-data": mpich("mpi_data", {"MPIR_CVAR_NOLOCAL": "1"}, rounds=60),
    "ib_send_bw-queues": Pair(["ib_send_bw", "-p", "PORT", "-q", "4", "-s", "512", "-n", "300"],
                              ["ib_send_bw", "-p", "PORT", "-q", "4", "-s", "512", "-n", "300", "127.0.0.1"]),
    "ib_send_bw-srq": Pair(["ib_send_bw", "-p", "PORT", "--use-srq", "-q", "2", "-s", "1024"],
                           ["ib_send_bw", "-p", "PORT", "--use-srq", "-q", "2", "-s", "1024", "127.0.0.1"]),
    "ucx-sleeping": ucx("tag_lat", "-E", "sleep"),
    "ucx-get-big": ucx("ucp_get", "-s", "1000000"),
    "ucx-cswap": ucx("ucp_cswap"),
    "fi_pingpong-dgram": fi_pingpong("verbs", "dgram"),
    "fi_pingpong-tcp": fi_pingpong("tcp", "msg"),
    "fi_pingpong-shm": fi_pingpong("shm", "rdm"),
    "fi_pingpong-sockets": fi_pingpong("sockets", "rdm"),
    "fi_pingpong-udp-rxd": fi_pingpong("udp;ofi_rxd", "rdm"),
    "ucmatose": Pair(["ucmatose", "-p", "PORT"], ["ucmatose", "-p", "PORT", "-s", "127.0.0.1"]),
    "udaddy": Pair(["udaddy", "-p", "PORT"], ["udaddy", "-p", "PORT", "-s", "127.0.0.1"]),
    "rstream": Pair(["rstream", "-p", "PORT", "-S", "1000", "-C", "20"],
                    ["rstream", "-p", "PORT", "-s", "127.0.0.1", "-S", "1000", "-C", "20"]),
    "riostream": Pair(["riostream", "-p", "PORT", "-S", "1000", "-C", "20"],
                      ["riostream", "-p", "PORT", "-s", "127.0.0.1", "-S", "1000", "-C", "20"]),
    "cmtime": Pair(["cmtime", "-p", "PORT", "-c", "4"], ["cmtime", "-p", "PORT", "-s", "127.0.0.1", "-c", "4"]),
    "qperf": Pair(["qperf", "-lp", "PORT"], ["qperf", "-lp", "PORT", "-t", "1", "127.0.0.1", "rc_lat", "rc_rdma_write_bw", "tcp_lat", "quit"]),
    "rping": Pair(["rping", "-s", "-a", "127.0.0.1", "-p", "PORT", "-C", "5"], ["rping", "-c", "-a", "127.0.0.1", "-p", "PORT", "-C", "5"]),
}
ROSTER.update({program + "".join(options): perftest(program, *options) for program, options in (
    ("ib_write_bw", []), ("ib_write_lat", []), ("ib_read_bw", []), ("ib_atomic_lat", []), ("ib_send_bw", []),
    ("ib_send_lat", ["-e"]), ("ib_send_bw", ["-r", "64", "-a"]), ("ib_send_lat", ["-c", "UD"]), ("ib_send_bw", ["-c", "UC"]),
    ("ib_write_bw", ["-q", "4"]), ("ib_write_bw", ["-R"]), ("ib_write_bw", ["-b"]), ("ib_send_bw", ["--use-srq"]), ("ib_write_bw", ["-D", "1"]))})


def inside(name, trace, each, options):
    """In the fabric: runs the recording; prints what was said, exits with 0 if all did."""
    entry = ROSTER[name]

    def record(rank):
        if options == ["bare"]:
            return []
        return [SREPLAY, "record", "-o", trace] + options + (["--rank", str(rank)] if rank is not None else []) + ["--"]

    began = time.monotonic()
    statuses, said = entry.go(record, each, free_port())
    print(said[-3000:])
    print("statuses %s in %.2f s" % (statuses, time.monotonic() - began))
    sys.exit(0 if all(s == 0 for s in statuses) else 1)


def verdict(err):
    """The last word of a replay, in one line."""
    lines = [line for line in err.splitlines() if line.strip()]
    for line in lines:
        if "divergence" in line or "stuck" in line or "diverge" in line:
            return line.strip()[:200]
    return (lines or ["nothing said"])[-1].strip()[:200]


def numbers(directory, pattern):
    return sorted(int(m.group(1)) for m in (re.match(pattern, d) for d in os.listdir(directory)) if m)


def with_children(name, directory, rank):
    """The rank, or child of one, and the processes that it has forked."""
    yield name
    for child in numbers(directory, r"child-(\d+)\.srec$"):
        inner = os.path.join(directory, "child-%d.srec" % child, "rank-%d" % rank)
        yield from with_children("%s/%d" % (name, child), inner, rank)


def ranks_of(trace):
    for rank in numbers(trace, r"rank-(\d+)$"):
        yield from with_children(str(rank), os.path.join(trace, "rank-%d" % rank), rank)


def try_one(name, directory, args):
    trace = os.path.join(directory, name + ".srec")
    shutil.rmtree(trace, ignore_errors=True)
    command = SOFTDEV + [sys.executable, os.path.realpath(__file__), "--inside", name, trace, "each" if args.each else "all"] + args.option
    status, out, err = run(command, 2 * SECONDS, env=dict(os.environ, **ROSTER[name].env))
    took = re.search(r"statuses .*", out.decode(errors="replace"))
    result = {"recorded": status == 0, "said": out.decode(errors="replace") + err, "took": took.group(0) if took else "hang", "ranks": []}
    if os.path.isdir(trace):
        for rank in ranks_of(trace):
            began = time.monotonic()
            status, out, err = run([SREPLAY, "replay", "--timeout", "10", "--rank", rank, trace], SECONDS)
            result["ranks"].append((rank, status, "0 divergences: exact" in err, "%.1f s: " % (time.monotonic() - began) + verdict(err), err))
        if args.group:
            began = time.monotonic()
            status, out, err = run([SREPLAY, "replay", "--timeout", "10", trace], 2 * SECONDS)
            result["group"] = (status, "%.1f s: " % (time.monotonic() - began) + verdict(err))
    return result


def test(directory, args):
    tap = Tap()
    for name, entry in ROSTER.items():
        if not entry.quick:
            continue
        if not shutil.which(entry.program):
            tap.count += 1
            print("ok %d - %s # SKIP no %s here" % (tap.count, name, entry.program))
            continue
        r = try_one(name, directory, args)
        tap.ok(r["recorded"], "%s: runs, recorded with default options" % name, r["said"])
        tap.ok(r["ranks"] and all(exact for _, _, exact, _, _ in r["ranks"]), "%s: each rank alone replays exactly" % name,
               "\n".join(err for _, _, exact, _, err in r["ranks"] if not exact))
    tap.finish()


def show(name, r):
    print("%s: recorded %s, %s; exact %d of %d" % (name, r["recorded"], r["took"], sum(x[2] for x in r["ranks"]), len(r["ranks"])), flush=True)
    if not r["recorded"]:
        print("    " + "\n    ".join(r["said"].splitlines()[-12:]))
    for rank, status, exact, word, _ in r["ranks"]:
        if not exact:
            print("    rank %s: %s %s" % (rank, status, word))
    if "group" in r:
        print("    group: %s %s" % r["group"], flush=True)


def main():
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2], sys.argv[3], sys.argv[4] == "each", sys.argv[5:])
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--group", action="store_true")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--keep")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        directory = args.keep or place
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        if not args.names:
            test(directory, args)
        for name in ROSTER if args.names == ["all"] else args.names:
            if not shutil.which(ROSTER[name].program):
                print("%s: no %s here" % (name, ROSTER[name].program))
                continue
            for _ in range(args.runs):
                show(name, try_one(name, directory, args))


if __name__ == "__main__":
    main()
