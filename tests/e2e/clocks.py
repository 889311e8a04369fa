#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Clocks between processes, on Soft-RoCE: what came before what, in the traces of real programs.

    clocks.py DIRECTORY [CASE...]

Cases: pingpong perftest shvar nodes refused. The environment's SREPLAY_APPS is where tests/apps was
built, if not in the build tree.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from harness import BUILD, SREPLAY, Tap, replay, start

os.environ["SREPLAY_CLOCKS"] = "1"
APPS = os.environ.get("SREPLAY_APPS", os.path.join(os.path.realpath(BUILD), "tests", "apps"))
LOGD = os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd")
ADDRESS = "198.18.0.1"  # of rxe0
PORT = 29471
ROUNDS = int(os.environ.get("SREPLAY_ROUNDS", "300"))
SECONDS = 60


class Node:
    """A daemon of its own, as on another node."""

    def __init__(self, directory, name, listen):
        self.socket = os.path.join(directory, name + ".sock")
        self.command = [LOGD, "--socket", self.socket, "--listen", "%s:%d" % (listen, PORT)]
        self.log = open(os.path.join(directory, name + ".log"), "wb")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=self.log)
        end = time.time() + 20
        while time.time() < end and subprocess.run([LOGD, "--status", "--socket", self.socket],
                                                   capture_output=True).returncode:
            time.sleep(0.1)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def words(self):
        with open(self.log.name, errors="replace") as f:
            return f.read()


class Pair:
    """Two programs, a server and its client, each recorded as a rank."""

    def __init__(self, directory, name, command, client_arguments, options=((), ()), env=(None, None), delay=3):
        self.traces = [os.path.join(directory, name + ".srec")] * 2
        self.outputs = []
        self.status = []
        processes = []
        for rank in (0, 1):
            if rank:
                time.sleep(delay)
            own = list(options[rank])
            if "-o" not in own:
                own += ["-o", self.traces[rank]]
            else:
                self.traces[rank] = own[own.index("-o") + 1]
            arguments = list(command) + (list(client_arguments) if rank else [])
            processes.append(start([SREPLAY, "record", "--rank", str(rank)] + own + ["--"] + arguments,
                                   subprocess.PIPE, subprocess.PIPE, env=dict(os.environ, **(env[rank] or {}))))
        for p in processes:
            try:
                out, err = p.communicate(timeout=SECONDS)
                self.status.append(p.returncode)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                out, err = p.communicate()
                self.status.append("hang")
            self.outputs.append((out + err).decode(errors="replace"))

    def detail(self):
        return "%s\n%s" % (self.status, "\n".join(self.outputs))


def orders(trace):
    """{(earlier, later): number of orders}, exit status, what it printed"""
    r = subprocess.run([SREPLAY, "orders", trace], capture_output=True)
    text = (r.stdout + r.stderr).decode()
    found = {(int(m[1]), int(m[2])): int(m[3])
             for m in re.finditer(r"rank (\d+) before rank (\d+): (\d+) orders", text)}
    return found, r.returncode, text


def records(trace, rank):
    dump = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), trace], capture_output=True).stdout
    return [json.loads(line) for line in dump.decode().splitlines()]


def pingpong(tap, directory):
    command = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100"]
    pair = Pair(directory, "pingpong", command, ["127.0.0.1"])
    found, status, text = orders(pair.traces[0])
    tap.ok(pair.status == [0, 0], "ping-pong runs with clocks", pair.detail())
    # one of each message but the first few, which may go out together
    tap.ok(status == 0 and min(found.get((0, 1), 0), found.get((1, 0), 0)) >= 50,
           "each side of a ping-pong is found to come before the other, again and again", text + pair.detail())
    for rank in (0, 1):
        status, out, err = replay(pair.traces[0], rank)
        tap.ok(status == 0 and "exact" in err, "rank %d of it replays exactly" % rank, err)


PERFTEST = [("ib_write_bw", "-s", "4096", "-n", "200"), ("ib_read_lat", "-n", "100"), ("ib_atomic_lat", "-n", "100"),
            ("ib_send_bw", "-n", "200", "-s", "1024"), ("ib_read_bw", "-n", "100", "-s", "1024"),
            ("ib_write_bw", "-c", "UC", "-n", "100", "-s", "1024")]


def perftest(tap, directory):
    for command in PERFTEST:
        name = "".join(command).replace("-", "")
        pair = Pair(directory, name, list(command) + ["-d", "rxe0", "-x", "1", "-F"], ["127.0.0.1"])
        found, status, text = orders(pair.traces[0])
        events = re.search(r"rank 1: (\d+) events", text)
        reads = "read" in command[0]
        tap.ok(pair.status == [0, 0] and status == 0, "%s runs with clocks" % " ".join(command), pair.detail() + text)
        tap.ok(reads or (events and int(events[1]) >= 20), "its posts are events", text)


def producers_found(trace):
    """Of the values of rank 0's that rank 2 read: how many there were, and how many were ordered behind the
    event of the post that produced them."""
    event, addresses, posts = 0, set(), []
    reader = records(trace, 2)
    for r in reader:
        for wr in r.get("in", {}).get("wr", []) if r.get("call") == "post_send" else []:
            if wr["opcode"] == 4 and wr["sg_list"] and wr["sg_list"][0]["length"] == 8:
                addresses.add(wr["remote_addr"])
    for r in records(trace, 0):
        if r.get("record") == "clock":
            event = r["event"]
        for wr in r.get("in", {}).get("wr", []) if r.get("call") == "post_send" else []:
            if wr["opcode"] == 0 and wr["remote_addr"] in addresses:
                posts.append(event)
    values = found = known = own = 0
    for r in reader:
        if r.get("record") == "clock":
            known = max([known] + [o["event"] for o in r["after"] if o.get("member") == 0])
        for segment in r.get("out", {}).get("arrived", []) if r.get("call") == "poll_cq" else []:
            data = segment["data"]
            data = bytes.fromhex(data["hex"]) if isinstance(data, dict) else data.encode()
            if len(data) != 8:
                continue
            value = int.from_bytes(data, "little")
            # its own number of the round before says nothing of rank 0
            if value != own - 1 and value < len(posts):
                values += 1
                found += known >= posts[value]
            own += 1
    return values, found


def shvar(tap, directory):
    if not os.path.exists(os.path.join(APPS, "pgasrun")):
        return
    trace = os.path.join(directory, "shvar.srec")
    run = subprocess.run([os.path.join(APPS, "pgasrun"), "-n", "3", "-w", "0,1,2",
                          "%s record -o %s --rank %%r --group 0,2 --" % (SREPLAY, trace),
                          os.path.join(APPS, "shvar"), str(ROUNDS)], capture_output=True, timeout=3 * SECONDS)
    found, status, text = orders(trace)
    tap.ok(run.returncode == 0 and status == 0, "two ranks race for a third one's variable, with clocks",
           (run.stdout + run.stderr).decode() + text)
    values, right = producers_found(trace)
    print("# %d values of rank 0's read by rank 2, the producer of %d ordered before" % (values, right))
    print("# " + text.replace("\n", "\n# "))
    tap.ok(values > 5 and values == right, "each value's producer is ordered before its read",
           "%d of %d\n%s" % (right, values, text))


def node_pair(directory, name, nodes, keys, hosts):
    command = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100"]
    options = [["-o", os.path.join(directory, "%s-%d.srec" % (name, i)), "--key", keys[i], "--hosts", hosts]
               for i in (0, 1)]
    return Pair(directory, name, command, ["127.0.0.1"], options,
                [{"SREPLAY_SOCKET": n.socket} for n in nodes])


def two_nodes(directory):
    return [Node(directory, "node0", ADDRESS), Node(directory, "node1", "127.0.0.9")]


HOSTS = "%s,127.0.0.9" % ADDRESS


def nodes(tap, directory):
    both = two_nodes(directory)
    key = os.path.join(directory, "job.key")
    pair = node_pair(directory, "nodes", both, [key, key], HOSTS)
    together = os.path.join(directory, "together.srec")
    r = subprocess.run([SREPLAY, "collect", "-o", together] + pair.traces, capture_output=True)
    tap.ok(pair.status == [0, 0] and r.returncode == 0, "two nodes with a daemon each; their traces are collected",
           pair.detail() + r.stderr.decode())
    found, status, text = orders(together)
    tap.ok(status == 0 and min(found.get((0, 1), 0), found.get((1, 0), 0)) >= 50, "orders are found between nodes",
           text + both[0].words() + both[1].words())
    for node in both:
        node.kill()


def refused(tap, directory):
    both = two_nodes(directory)
    keys = [os.path.join(directory, "one.key"), os.path.join(directory, "other.key")]
    pair = node_pair(directory, "refused", both, keys, HOSTS)
    found, _, text = orders(pair.traces[0])
    tap.ok(pair.status == [0, 0] and not found, "with different keys the programs run, and no order is found",
           pair.detail() + text)
    tap.ok("refused" in both[0].words() + both[1].words(), "the daemons say that they refused each other",
           both[0].words() + both[1].words())
    for node in both:
        node.kill()


CASES = {"pingpong": pingpong, "perftest": perftest, "shvar": shvar, "nodes": nodes, "refused": refused}


def main():
    directory = os.path.realpath(sys.argv[1])
    os.makedirs(directory, exist_ok=True)
    os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
    tap = Tap()
    for case in sys.argv[2:] or CASES:
        CASES[case](tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
