#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Jobs as mpirun and srun start them, without RDMA: the rank comes from the launcher, one daemon serves a
node, and the traces of nodes are collected into one.

    launchers.py
"""

import getpass
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from daemon_killed import daemons as daemons_at
from harness import BUILD, SREPLAY, Tap

NAMES = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "GASPI_RANK", "SLURM_PROCID"]
PROGRAM = [os.path.join(os.path.realpath(BUILD), "tests", "programs", "loopback"), "1", "1"]
# Set by srun in each process of a job step, and by mpirun inside of a batch job for all alike.
SLURM_STEP = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}


def environment(directory, node, **more):
    env = {k: v for k, v in os.environ.items() if k not in NAMES and not k.startswith(("SREPLAY_", "SLURM_", "PMI"))}
    env.update(LD_LIBRARY_PATH=os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev"), SREPLAY_CLOCKS="1",
               SREPLAY_BUILD=BUILD, SREPLAY_SOCKET=os.path.join(directory, node + ".sock"), **more)
    return env


def record(trace):
    return [SREPLAY, "record", "-o", trace, "--"] + PROGRAM


def ranks(trace):
    """{rank: did its recording begin and end?}"""
    found = {}
    for name in sorted(os.listdir(trace)):
        if name.startswith("rank-"):
            found[int(name[5:])] = os.path.exists(os.path.join(trace, name, "process.json"))
    verified = subprocess.run([SREPLAY, "verify", trace], capture_output=True)
    return found, verified.returncode, (verified.stdout + verified.stderr).decode()


def daemons(directory, node):
    """How many serve this node's socket."""
    return len(list(daemons_at(os.path.join(directory, node + ".sock"))))


def together(directory, node, tasks):
    """All tasks at once, as a launcher starts them: (environment, trace); their exit statuses and words."""
    running = [subprocess.Popen(record(trace), env=environment(directory, node, **env), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE) for env, trace in tasks]
    words = [p.communicate(timeout=60)[1].decode() for p in running]
    return [p.returncode for p in running], "".join(words)


def ranks_by_variable(tap, directory):
    for name in NAMES:
        trace = os.path.join(directory, name + ".srec")
        status, words = together(directory, "one", [({name: str(rank)}, trace) for rank in (0, 1, 2)])
        found, verified, text = ranks(trace)
        tap.ok(status == [0, 0, 0] and found == {0: True, 1: True, 2: True} and not verified,
               "%s says which rank a process is" % name, (status, found, words, text))
    tap.ok(daemons(directory, "one") == 1, "processes that start together share one daemon", daemons(directory, "one"))


def mpirun_in_a_batch_job(tap, directory):
    trace = os.path.join(directory, "batch.srec")
    status, words = together(directory, "one", [(dict(SLURM_STEP, SLURM_PROCID="0", OMPI_COMM_WORLD_RANK=str(rank)), trace)
                                                for rank in (0, 1)])
    found, _, text = ranks(trace)
    tap.ok(status == [0, 0] and found == {0: True, 1: True}, "mpirun's rank goes before the batch job's",
           (status, found, words, text))


def srun_on_two_nodes(tap, directory):
    """Nodes that share no file system: a trace directory each."""
    status, words, traces = [], "", []
    for node, of_node in (("node0", (0, 1)), ("node1", (2, 3))):
        traces.append(os.path.join(directory, node + ".srec"))
        s, w = together(directory, node, [(dict(SLURM_STEP, SLURM_PROCID=str(rank)), traces[-1]) for rank in of_node])
        status, words = status + s, words + w
    everything = os.path.join(directory, "all.srec")
    r = subprocess.run([SREPLAY, "collect", "-o", everything] + traces, capture_output=True)
    found, verified, text = ranks(everything)
    tap.ok(status == [0] * 4 and r.returncode == 0 and found == dict.fromkeys(range(4), True) and not verified,
           "srun on two nodes: their traces are collected into one", (status, words, r.stderr.decode(), found, text))
    tap.ok(daemons(directory, "node0") == daemons(directory, "node1") == 1, "each node has a daemon of its own")


def mpirun(tap, directory):
    if not shutil.which("mpirun"):
        print("# there is no mpirun")
        return
    trace = os.path.join(directory, "mpirun.srec")
    r = subprocess.run(["mpirun", "-n", "3", "--oversubscribe", "--allow-run-as-root"] + record(trace),
                       env=environment(directory, "one"), capture_output=True, timeout=120)
    found, verified, text = ranks(trace)
    members = []
    for rank in found:
        with open(os.path.join(trace, "rank-%d" % rank, "process.json")) as f:
            members.append(json.load(f)["extra"]["member"])
    tap.ok(r.returncode == 0 and found == {0: True, 1: True, 2: True} and not verified and members == [0, 1, 2],
           "mpirun starts a recorder for each rank", (r.returncode, r.stderr.decode(), found, members, text))


SLURM_CONF = """\
ClusterName=sreplay
SlurmctldHost=%(host)s(127.0.0.1)
SlurmctldPort=%(port)d
SlurmUser=%(user)s
SlurmdUser=%(user)s
AuthType=auth/munge
AuthInfo=socket=%(dir)s/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
StateSaveLocation=%(dir)s/state
SlurmdSpoolDir=%(dir)s/spool-%%n
SlurmctldPidFile=%(dir)s/slurmctld.pid
SlurmdPidFile=%(dir)s/slurmd-%%n.pid
NodeName=node0 NodeHostname=%(host)s NodeAddr=127.0.0.1 Port=%(port0)d CPUs=4
NodeName=node1 NodeHostname=%(host)s NodeAddr=127.0.0.1 Port=%(port1)d CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    """One of our own, of two nodes on this machine: its controller, a daemon for each node, and munge for them."""

    def __init__(self, directory):
        self.dir = os.path.join(directory, "slurm")
        os.makedirs(os.path.join(self.dir, "state"), mode=0o700)
        os.chmod(self.dir, 0o700)
        port = 20000 + os.getpid() % 9000 * 3
        with open(self.path("munge.key"), "wb", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(os.urandom(1024))
        with open(self.path("slurm.conf"), "w") as f:
            f.write(SLURM_CONF % {"dir": self.dir, "host": os.uname().nodename.split(".")[0], "port": port, "port0": port + 1,
                                  "port1": port + 2, "user": getpass.getuser()})
        self.environment = dict(os.environ, SLURM_CONF=self.path("slurm.conf"))
        self.daemons = []
        self.start("munged", "--foreground", "--force", "--key-file=" + self.path("munge.key"),
                   "--socket=" + self.path("munge.sock"), "--pid-file=" + self.path("munge.pid"),
                   "--log-file=" + self.path("munge.log"), "--seed-file=" + self.path("munge.seed"))
        self.wait_until(lambda: os.path.exists(self.path("munge.sock")))
        self.start("slurmctld", "-D", "-c")
        for node in ("node0", "node1"):
            self.start("slurmd", "-D", "-N", node)
        self.wait_until(lambda: self.idle_nodes() == 2)

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, *command):
        with open(self.path("daemons.log"), "ab") as log:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def idle_nodes(self):
        out = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=self.environment, capture_output=True).stdout
        return out.split().count(b"idle")

    @staticmethod
    def wait_until(condition, seconds=30):
        end = time.time() + seconds
        while not condition() and time.time() < end:
            time.sleep(0.1)

    def words(self):
        with open(self.path("daemons.log"), errors="replace") as f:
            return f.read()[-3000:]

    def end(self, seconds=30):
        # a daemon of a node does not go before its last step has
        self.wait_until(lambda: self.idle_nodes() == 2, seconds)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def srun(tap, directory):
    """The real one: two nodes that share nothing but the key, two tasks on each."""
    if not all(shutil.which(p) for p in ("srun", "slurmctld", "slurmd", "munged")):
        print("# there is no srun")
        return
    slurm = Slurm(directory)
    if slurm.idle_nodes() != 2:
        print("# Slurm does not start here: " + slurm.words().replace("\n", "\n# "))
        slurm.end(0)
        return
    of_node = os.path.join(directory, "srun-$SLURMD_NODENAME")
    command = "SREPLAY_SOCKET=%s.sock exec %s record --clocks --key %s -o %s.srec -- %s" % (
        of_node, SREPLAY, os.path.join(directory, "srun.key"), of_node, " ".join(PROGRAM))
    env = dict(environment(directory, "none"), SLURM_CONF=slurm.path("slurm.conf"))
    try:
        r = subprocess.run(["srun", "-N", "2", "-n", "4", "--ntasks-per-node", "2", "sh", "-c", command], env=env,
                           capture_output=True, timeout=120)
    except subprocess.TimeoutExpired as e:
        r = subprocess.CompletedProcess([], "hang", e.stdout or b"", e.stderr or b"")
    finally:
        slurm.end()
    everything = os.path.join(directory, "srun.srec")
    traces = [os.path.join(directory, "srun-node%d.srec" % node) for node in (0, 1)]
    of = [sorted(ranks(t)[0]) if os.path.isdir(t) else None for t in traces]
    tap.ok(r.returncode == 0 and of == [[0, 1], [2, 3]], "srun: a trace for each of two nodes, with its ranks",
           "%s %s\n%s\n%s" % (r.returncode, of, r.stderr.decode(), slurm.words()))
    c = subprocess.run([SREPLAY, "collect", "-o", everything] + traces, capture_output=True)
    found, verified, text = ranks(everything) if c.returncode == 0 else ({}, 1, c.stderr.decode())
    tap.ok(found == dict.fromkeys(range(4), True) and not verified, "srun: they are collected into one", (found, text))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        ranks_by_variable(tap, directory)
        mpirun_in_a_batch_job(tap, directory)
        srun_on_two_nodes(tap, directory)
        mpirun(tap, directory)
        srun(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
