#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Clocks between processes, on Soft-RoCE: what came before what, in the traces of real programs.

    clocks.py DIRECTORY [CASE...]
    clocks.py alone                  what the software device (tests/lib/softdev) can show: edges

Cases: pingpong messages edges perftest exposed shvar nodes refused killed silent. The environment's SREPLAY_APPS is where tests/programs was
built, if not in the build tree.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay, start, wait_for_listener

os.environ["SREPLAY_CLOCKS"] = "1"
APPS = os.environ.get("SREPLAY_APPS", os.path.join(os.path.realpath(BUILD), "tests", "programs"))
LOGD = os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd")
ADDRESS = "198.18.0.1"  # of rxe0
PORT = 29471
PAIR_PORT = 18515  # of ibv_rc_pingpong and perftest alike
ROUNDS = int(os.environ.get("SREPLAY_ROUNDS", "300"))
SECONDS = 60


def wait_until(condition, seconds=20):
    end = time.time() + seconds
    while not condition() and time.time() < end:
        time.sleep(0.05)


class Node:
    """A daemon of its own, as on another node. If it dies, `sreplay record` of that node starts another."""

    def __init__(self, directory, name, listen):
        self.socket = os.path.join(os.path.dirname(os.environ["SREPLAY_SOCKET"]), name + ".sock")
        self.command = [LOGD, "--socket", self.socket, "--listen", "%s:%d" % (listen, PORT)]
        self.log = open(os.path.join(directory, name + ".log"), "wb")
        self.started = []
        self.start()

    def status(self):
        return subprocess.run([LOGD, "--status", "--socket", self.socket], capture_output=True).stdout.decode()

    def serving(self):
        """The process that answers at its socket, ours or another; or None."""
        m = re.search(r"process (\d+),", self.status())
        return int(m[1]) if m else None

    def records(self):
        """That it has taken so far."""
        return sum(int(m) for m in re.findall(r"^ *\d+ +\d+ +\d+ +(\d+) ", self.status(), re.M))

    def start(self):
        self.started.append(subprocess.Popen(self.command, stderr=self.log))
        wait_until(self.serving)

    def kill(self):
        """The one that serves, so that it serves no more; its successor may come at once."""
        old = self.serving()
        if old:
            os.kill(old, signal.SIGKILL)
            wait_until(lambda: self.serving() != old)
        for process in self.started:
            process.poll()

    def kill_and_start(self):
        """Another may be quicker than we are: either has to do."""
        self.kill()
        self.start()

    def pause(self):
        """It is there and says nothing."""
        self.paused = self.serving()
        os.kill(self.paused, signal.SIGSTOP)

    def resume(self):
        os.kill(self.paused, signal.SIGCONT)

    def words(self):
        with open(self.log.name, errors="replace") as f:
            return f.read()


class Pair:
    """Two programs, a server and its client, each recorded as a rank."""

    def __init__(self, directory, name, command, client_arguments, options=((), ()), env=(None, None), delay=3,
                 between=None, during=None, after_client=None, devices=(None, None)):
        """devices: each side's own, if not the command's. between: called when the server waits and the client has not started; during: while both run; after_client:
        when the client has ended."""
        self.traces = [os.path.join(directory, name + ".srec")] * 2
        self.outputs = []
        self.status = []
        processes = []
        for rank in (0, 1):
            if rank:
                if "-R" in command:
                    time.sleep(delay)
                else:
                    wait_for_listener(PAIR_PORT, processes[0], SECONDS)
                if between:
                    between()
            own = list(options[rank])
            if "-o" not in own:
                own += ["-o", self.traces[rank]]
            else:
                self.traces[rank] = own[own.index("-o") + 1]
            arguments = list(command) + (["-d", devices[rank]] if devices[rank] else []) + (list(client_arguments) if rank else [])
            processes.append(start([SREPLAY, "record", "--rank", str(rank)] + own + ["--"] + arguments,
                                   subprocess.PIPE, subprocess.PIPE, env=dict(os.environ, **(env[rank] or {}))))
        if during:
            during()
        if after_client:
            threading.Thread(target=lambda: (wait_until(lambda: processes[1].poll() is not None, SECONDS / 2),
                                             after_client())).start()
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
    dump = subprocess.run([SREPLAY, "dump", "--json", "--addresses", "--rank", str(rank), trace], capture_output=True).stdout
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


SEND, RECEIVED = 2, 128  # IBV_WR_SEND, IBV_WC_RECV
DEST_QPN = 1 << 20  # IBV_QP_DEST_QPN
QP_NUM_AT = 52  # in struct ibv_qp


def clocked(dump):
    """(record, own event, {member: event known}) of each call, as they were when it returned."""
    event, known = 0, {}
    for r in dump:
        if r.get("record") == "clock":
            event = r["event"]
            for o in r["after"]:
                if "event" in o:
                    known[o["member"]] = max(known.get(o["member"], 0), o["event"])
        elif "call" in r:
            yield r, event, known


def connections(dump):
    """{address of a queue pair: its number}, {its number: that of its peer}"""
    numbers, peers = {}, {}
    for r in dump:
        if r.get("call") == "ibv_create_qp" and r["out"].get("object"):
            number = bytes.fromhex(r["out"]["object"]["hex"])[QP_NUM_AT:QP_NUM_AT + 4]
            numbers[r["result"]] = int.from_bytes(number, "little")
        elif r.get("call") == "ibv_modify_qp" and int(str(r["in"]["attr_mask"]), 0) & DEST_QPN:
            peers[numbers[r["in"]["qp"]]] = int(r["in"]["attr"]["dest_qp_num"], 0)
    return numbers, peers


def messages_found(trace):
    """Of the messages between ranks 0 and 1: how many were received, and which of those receives are not ordered behind
    the event of their SEND. The n-th receive of a queue pair has the n-th SEND of its peer."""
    dumps = [records(trace, rank) for rank in (0, 1)]
    sent, received, missed = ({}, {}), 0, []
    for rank, dump in enumerate(dumps):
        numbers, _ = connections(dump)
        for r, event, _ in clocked(dump):
            for wr in posts_of([r]):
                if wr["opcode"] == SEND:
                    sent[rank].setdefault(numbers[r["in"]["qp"]], []).append(event)
    for rank, dump in enumerate(dumps):
        _, peers = connections(dump)
        for r, _, known in clocked(dump):
            for wc in (r["out"].get("wc") or []) if r["call"] == "poll_cq" else []:
                if wc["opcode"] != RECEIVED or wc["status"]:
                    continue
                received += 1
                event = sent[1 - rank][peers[int(wc["qp_num"], 0)]].pop(0)
                if known.get(1 - rank, 0) < event:
                    missed.append((rank, wc["qp_num"], event, dict(known)))
    return received, missed


def messages(tap, directory):
    """Two-sided: a queue pair alone; four on one shared receive queue and one completion queue; UC, which is best effort,
    but loses nothing on one host."""
    for program, what in ((["ibv_rc_pingpong"], "RC"), (["ibv_srq_pingpong", "-q", "4"], "a shared receive queue"),
                          (["ibv_uc_pingpong"], "UC")):
        pair = Pair(directory, program[0], program + ["-d", "rxe0", "-g", "1", "-n", "100"], ["127.0.0.1"])
        found, status, text = orders(pair.traces[0])
        tap.ok(pair.status == [0, 0] and status == 0, "messages over %s, with clocks" % what, pair.detail() + text)
        received, missed = messages_found(pair.traces[0])
        tap.ok(received >= 190 and not missed, "%s: each receive is ordered behind its message's SEND" % what,
               "%d received, not ordered: %s\n%s" % (received, missed[:5], text))


def edges(tap, directory, device="rxe0"):
    """The device's own queue pairs at the edges, bare and with clocks, as if the peer were another process."""
    command = [os.path.join(APPS, "edges"), device, "1"]
    trace = os.path.join(directory, "edges.srec")
    bare = subprocess.run(command, capture_output=True, timeout=SECONDS)
    clocks = subprocess.run([SREPLAY, "record", "-o", trace, "--rank", "0", "--group", "0", "--"] + command, capture_output=True,
                            timeout=SECONDS, env=dict(os.environ, SREPLAY_CLOCKS="2"))
    tap.ok(bare.returncode == clocks.returncode == 0 and b"all gone" in bare.stdout,
           "errors, flushes, resets, READs in excess: with clocks", (bare.stderr + clocks.stderr).decode())
    there = [(x, y) for x, y in zip(bare.stdout.decode().splitlines(), clocks.stdout.decode().splitlines()) if x != y]
    tap.ok(bare.stdout == clocks.stdout, "they look as they do bare", "first bare, then with clocks: %s" % there[:5])
    carried = sum(r.get("record") == "clock" for r in records(trace, 0))
    tap.ok(carried >= 100, "their requests are events", carried)


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


def exposed(tap, directory):
    """Both sides wait for what the other one writes by loads alone."""
    pair = Pair(directory, "exposed", ["ib_write_lat", "-n", "50", "-d", "rxe0", "-x", "1", "-F"], ["127.0.0.1"])
    found, status, text = orders(pair.traces[0])
    tap.ok(pair.status == [0, 0] and status == 0, "ib_write_lat runs with clocks", pair.detail() + text)
    tap.ok(min(found.get((0, 1), 0), found.get((1, 0), 0)) >= 50, "what each side polled for is ordered behind the other",
           text + pair.detail())


VALUE_RANKS = 64  # a value of shvar's is number * 64 + rank, twice
HALF = (1 << 32) - 1


def posts_of(reader):
    return [wr for r in reader if r.get("call") == "post_send" for wr in r.get("in", {}).get("wr", [])]


def clocks_of_writes(trace, rank, variable):
    """The event of each of its WRITEs to the variable."""
    event, events = 0, []
    for r in records(trace, rank):
        if r.get("record") == "clock":
            event = r["event"]
        events += [event for wr in posts_of([r]) if wr["opcode"] == 0 and wr["remote_addr"] == variable]
    return events


def values_read(r):
    """Of a poll_cq: what READs of 8 bytes brought."""
    for segment in r.get("out", {}).get("arrived", []) if r.get("call") == "poll_cq" else []:
        data = segment["data"]
        data = bytes.fromhex(data["hex"]) if isinstance(data, dict) else data.encode()
        if len(data) == 8:
            yield int.from_bytes(data, "little")


def producers_found(trace, members):
    """Of all values that a member read and another one wrote: how many there were, which of them are not
    ordered behind the event of the post that produced them."""
    dumps = {rank: records(trace, rank) for rank in members}
    reads = {rank: {wr["remote_addr"] for wr in posts_of(dump) if wr["opcode"] == 4 and wr["sg_list"]
                    and wr["sg_list"][0]["length"] == 8} for rank, dump in dumps.items()}
    variable, = set.union(*reads.values())
    events = {rank: clocks_of_writes(trace, rank, variable) for rank in members}
    values, missed = 0, []
    for rank, dump in dumps.items():
        known = dict.fromkeys(range(len(members)), 0)
        for r in dump:
            for o in r["after"] if r.get("record") == "clock" else []:
                if "event" in o:
                    known[o["member"]] = max(known[o["member"]], o["event"])
            for value in values_read(r):
                if value >> 32 != value & HALF:
                    continue  # half of one WRITE and half of another: it has no producer
                number, producer = divmod(value & HALF, VALUE_RANKS)
                if not number or producer == rank:
                    continue
                values += 1
                if known[members.index(producer)] < events[producer][number - 1]:
                    missed.append((rank, producer, number, known, events[producer][number - 1]))
    return values, missed


def races():
    """(ranks, members, rank that has the variable). SREPLAY_SHVAR: sizes of groups, "16@1" and "16@0" are one half of a
    size each. The outsider is rank 1, and the members all others; or all ranks are members, and the variable is the
    first's, which writes through a queue pair to itself, or the last's."""
    for one in os.environ.get("SREPLAY_SHVAR", "2,4").split(","):
        size, _, home = one.partition("@")
        size = int(size)
        if home != "0":
            yield size + 1, [0] + list(range(2, size + 1)), 1
        if home != "1":
            yield size, list(range(size)), 0
    if "SREPLAY_SHVAR" not in os.environ:
        yield 2, [0, 1], 1


def race_name(ranks, members, home):
    return "shvar-%d-of-%d-at-%d" % (len(members), ranks, home)


def race_words(members, home):
    return "%d ranks race for a variable %s" % (len(members), "of one of them" if home in members else "of an outsider's")


def words_of(directory, name):
    """Where each rank's R.out and R.err are kept, next to its trace."""
    return os.path.join(directory, name + ".words")


def warnings(directory, name, ranks):
    """What the ranks, the outsider too, said on standard error."""
    said = []
    for rank in range(ranks):
        path = os.path.join(words_of(directory, name), "%d.err" % rank)
        if os.path.exists(path):
            with open(path, errors="replace") as f:
                said += ["rank %d: %s" % (rank, line.rstrip()) for line in f]
    return "\n".join(said)


def race(tap, directory, ranks, members, home):
    name = race_name(ranks, members, home)
    trace = os.path.join(directory, name + ".srec")
    os.makedirs(words_of(directory, name), exist_ok=True)
    begin = time.time()
    run = subprocess.run([os.path.join(APPS, "pgasrun"), "-n", str(ranks), "-o", words_of(directory, name),
                          "-w", ",".join(map(str, range(ranks))),
                          "%s record -o %s --rank %%r --group %s --" % (SREPLAY, trace, ",".join(map(str, members))),
                          os.path.join(APPS, "shvar"), str(ROUNDS), str(len(members)), str(home)],
                         capture_output=True, timeout=3 * SECONDS)
    words = (run.stdout + run.stderr).decode() + warnings(directory, name, ranks)
    tap.ok(run.returncode == 0 and "refused" not in words, race_words(members, home) + ", with clocks", words)
    print("# %.0f s" % (time.time() - begin))


def check_race(tap, directory, ranks, members, home):
    name, what = race_name(ranks, members, home), race_words(members, home)
    trace = os.path.join(directory, name + ".srec")
    found, status, text = orders(trace)
    values, missed = producers_found(trace, members)
    print("# %s: %d values of others, the producers of %d ordered before" % (name, values, values - len(missed)))
    exact = [int(n) for n in re.findall(r"(\d+) exact", text)]
    print("# %d orders, %d of them exact" % (sum(found.values()), sum(exact)))
    said = warnings(directory, name, ranks)
    # Each of a few values may be ambiguous: of a word that changed, only the bytes that differ are known.
    tap.ok(status == 0 and sum(exact) >= (values >= 10), what + ": orders fit together, exact ones are told", said + "\n" + text)
    tap.ok(values and not missed, what + ": each value's producer is ordered before its read",
           "%s\n%d of %d: reader, producer, number, known, event %s\n%s" % (said, len(missed), values, missed[:5], text))


def shvar_record(tap, directory):
    for one in races():
        race(tap, directory, *one)


def shvar_check(tap, directory):
    for one in races():
        check_race(tap, directory, *one)


def shvar(tap, directory):
    """Members of the group race for a variable; what that took is looked through here, or on another machine."""
    if os.path.exists(os.path.join(APPS, "pgasrun")):
        shvar_record(tap, directory)
        shvar_check(tap, directory)


class TwoDevices:
    """A Soft-RoCE device for each node, on the two ends of one wire: what they send each other goes over it, as this
    kernel takes what comes from its own other address."""

    devices, ends, addresses = ("rxen0", "rxen1"), ("srn0", "srn1"), ("198.19.0.1", "198.19.0.2")

    def __enter__(self):
        self.run("ip", "link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for end, address in zip(self.ends, self.addresses):
            self.run("ip", "address", "add", address + "/24", "dev", end)
            self.run("ip", "link", "set", end, "up")
        for name, value in (("accept_local", "1"), ("rp_filter", "0")):
            for end in ("all",) + self.ends:
                with open("/proc/sys/net/ipv4/conf/%s/%s" % (end, name), "w") as f:
                    f.write(value)
        for device, end in zip(self.devices, self.ends):
            self.run("rdma", "link", "add", device, "type", "rxe", "netdev", end)
            wait_until(lambda: self.has_gid(device))
        return self

    def __exit__(self, *_):
        for device in self.devices:
            subprocess.run(["rdma", "link", "delete", device])
        subprocess.run(["ip", "link", "delete", self.ends[0]])

    @staticmethod
    def run(*command):
        subprocess.run(command, check=True)

    @staticmethod
    def has_gid(device):
        """The one of its IPv4 address."""
        with open("/sys/class/infiniband/%s/ports/1/gids/1" % device) as f:
            return f.read().strip("0:\n") != ""

    def packets(self):
        """That each end has sent."""
        counts = []
        for end in self.ends:
            with open("/sys/class/net/%s/statistics/tx_packets" % end) as f:
                counts.append(int(f.read()))
        return counts


def node_pair(directory, name, nodes, keys, hosts=None, iterations=100, **when):
    command = ["ibv_rc_pingpong", "-g", "1", "-n", str(iterations)]
    options = [["-o", os.path.join(directory, "%s-%d.srec" % (name, i)), "--key", keys[i]] + (["--hosts", hosts] if hosts else [])
               for i in (0, 1)]
    return Pair(directory, name, command, ["127.0.0.1"], options,
                [{"SREPLAY_SOCKET": n.socket} for n in nodes], devices=TwoDevices.devices, **when)


def two_nodes(directory):
    return [Node(directory, "node%d" % i, address) for i, address in enumerate(TwoDevices.addresses)]


HOSTS = ",".join(TwoDevices.addresses)


def on_two_nodes(case):
    def with_devices(tap, directory):
        with TwoDevices() as devices:
            before = devices.packets()
            case(tap, directory)
            sent = [after - earlier for earlier, after in zip(before, devices.packets())]
        tap.ok(min(sent) >= 200, "what was sent went over the wire between the nodes", sent)
    return with_devices


@on_two_nodes
def nodes(tap, directory):
    """Without a host list: a node is found by the GID."""
    both = two_nodes(directory)
    key = os.path.join(directory, "job.key")
    pair = node_pair(directory, "nodes", both, [key, key])
    together = os.path.join(directory, "together.srec")
    r = subprocess.run([SREPLAY, "collect", "-o", together] + pair.traces, capture_output=True)
    tap.ok(pair.status == [0, 0] and r.returncode == 0, "two nodes with a daemon each; their traces are collected",
           pair.detail() + r.stderr.decode())
    found, status, text = orders(together)
    tap.ok(status == 0 and min(found.get((0, 1), 0), found.get((1, 0), 0)) >= 50, "orders are found between nodes",
           text + both[0].words() + both[1].words())
    for node in both:
        node.kill()


@on_two_nodes
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


def collected(directory, pair, name):
    together = os.path.join(directory, name)
    subprocess.run([SREPLAY, "collect", "-o", together] + pair.traces, capture_output=True)
    return together


@on_two_nodes
def killed(tap, directory):
    """Once when the server's queue pair is known and nobody has asked for it; then while messages go, one of them
    twice: replaced by one that we start (or by another, who is quicker), and by those of `sreplay record`."""
    both = two_nodes(directory)

    def during():
        for node in both:
            wait_until(lambda: node.records() >= 500)
            node.kill_and_start()
        both[1].kill()

    key = os.path.join(directory, "killed.key")
    pair = node_pair(directory, "killed", both, [key, key], HOSTS, 1000, between=both[0].kill_and_start,
                     during=during)
    together = collected(directory, pair, "killed.srec")
    verified = subprocess.run([SREPLAY, "verify", together], capture_output=True)
    found, status, text = orders(together)
    tap.ok(pair.status == [0, 0] and verified.returncode == 0,
           "daemons are killed and started again while a job of two nodes runs; nothing is lost",
           pair.detail() + (verified.stdout + verified.stderr).decode())
    tap.ok(status == 0 and min(found.get((0, 1), 0), found.get((1, 0), 0)) >= 500,
           "the directory knows again what it knew, and orders are found", text + both[0].words() + both[1].words())
    for node in both:
        node.kill()


@on_two_nodes
def silent(tap, directory):
    both = two_nodes(directory)
    key = os.path.join(directory, "silent.key")
    pair = node_pair(directory, "silent", both, [key, key], HOSTS, between=both[0].pause,
                     after_client=both[0].resume)
    found, _, text = orders(pair.traces[1])
    tap.ok(pair.status == [0, 0] and not found, "a daemon of another node is silent: the programs run, without orders",
           pair.detail() + text)
    tap.ok(pair.outputs[1].count("without orders") == 1, "that is said once", pair.detail())
    tap.ok(re.search(r"^rank 1: queue pair \d+ to \d+ carries no clocks from thread 0 SN \d+ on: sreplay-logd could not say", text, re.M),
           "and the trace has it, with the connection's place and the reason", text)
    for node in both:
        node.kill()


CASES = {"pingpong": pingpong, "messages": messages, "edges": edges, "perftest": perftest, "exposed": exposed, "shvar": shvar, "nodes": nodes,
         "refused": refused, "killed": killed, "silent": silent}
# shvar in two, for many rounds: `shvar-record` in the runner, with --bring, and `shvar-check` outside of it.
PARTS = {"shvar-record": shvar_record, "shvar-check": shvar_check}


def main():
    tap = Tap()
    if sys.argv[1:] == ["alone"]:
        os.environ["LD_LIBRARY_PATH"] = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
        with tempfile.TemporaryDirectory() as directory:
            os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
            edges(tap, directory, "soft0")
        tap.finish()
    directory = os.path.realpath(sys.argv[1])
    os.makedirs(directory, exist_ok=True)
    # not below DIRECTORY, which may be brought out of an emulated machine, where sockets cannot be
    with tempfile.TemporaryDirectory() as sockets:
        os.environ["SREPLAY_SOCKET"] = os.path.join(sockets, "logd.sock")
        for case in sys.argv[2:] or CASES:
            begin = time.time()
            dict(CASES, **PARTS)[case](tap, directory)
            print("# %s: %.0f s" % (case, time.time() - begin))
    tap.finish()


if __name__ == "__main__":
    main()
