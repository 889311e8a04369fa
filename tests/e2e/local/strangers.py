#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs that know nothing of RDMA, unmodified: what enters them comes back in a replay.

    strangers.py [RUNS [NAME...]]

Each is recorded from its start and replayed alone: the same output, byte for byte, the same exit
status. Servers are recorded with clients that are not. No RDMA needed.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, free_port, replay, start, wait_for_listener

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
SECONDS = 30

PYTHON = "/usr/bin/python3"
HELLO = "print('hello', id(object()), {1, 2, 'a', 'b'}, __import__('random').random())"
PROCESSES = """
import os, subprocess, time
for i in range(3):
    if not os.fork():
        os._exit(i)
    print(os.wait(), os.getppid())
print(subprocess.run(["date", "+%N"], capture_output=True).stdout, time.time())
"""
SOCKETS = """
import socket, threading, hashlib, os
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
def serve():
    for _ in range(10):
        c, a = s.accept(); d = c.recv(100); c.sendall(hashlib.md5(d + os.urandom(4)).hexdigest().encode()); c.close()
t = threading.Thread(target=serve); t.start()
for i in range(10):
    c = socket.create_connection(s.getsockname()); c.sendall(b"x%d" % i); print(c.recv(100), c.getsockname()); c.close()
t.join()
"""
ASYNCIO = """
import asyncio, random
async def handle(r, w):
    w.write((await r.readline()).upper()); await w.drain(); w.close()
async def main():
    s = await asyncio.start_server(handle, "127.0.0.1", 0); port = s.sockets[0].getsockname()[1]
    async def call(i):
        await asyncio.sleep(random.random() * .01)
        r, w = await asyncio.open_connection("127.0.0.1", port); w.write(b"hello %d\\n" % i)
        d = await r.read(); w.close(); return d, random.random()
    print(await asyncio.gather(*[call(i) for i in range(20)]))
    s.close()
asyncio.run(main())
"""
# By a plain flag one thread asks another for the interpreter.
THREADS = """
import threading, queue, sys, time
sys.setswitchinterval(1e-4)
q = queue.Queue(10); done = []; n = 0
def work(k):
    global n
    while (x := q.get()) is not None:
        n += x; done.append((k, n))
ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for t in ts: t.start()
for i in range(1000): q.put(i)
for t in ts: q.put(None)
for t in ts: t.join()
print(done)
"""
# No register tells one turn of the interpreter's loop from the next.
TIMER = """
import signal
n = x = 0
def handle(number, frame):
    global n; n += 1
signal.signal(signal.SIGALRM, handle); signal.setitimer(signal.ITIMER_REAL, .002, .002)
while n < 20: x += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(x, n >= 20)
"""
# Its objects come and go at the same addresses.
LIST = """
import signal
n, l, i = [0], [], 0
def handle(number, frame): n[0] += 1
signal.signal(signal.SIGALRM, handle); signal.setitimer(signal.ITIMER_REAL, .002, .002)
while n[0] < 50:
    l.append(i); i += 1
    if len(l) > 5000: l = []
signal.setitimer(signal.ITIMER_REAL, 0)
print(i, n[0] >= 50)
"""
DESCRIPTORS = """
import os, pty, socket
a, b = socket.socketpair(); f = os.open("/etc/passwd", 0); r, w = os.pipe()
print(os.sendfile(a.fileno(), f, 0, 100), b.recv(200)[:20], os.splice(f, w, 50), os.read(r, 60)[:10])
a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, f.to_bytes(4, "little"))])
m = b.recvmsg(10, 100); g = int.from_bytes(m[1][0][2], "little"); print(m[0], g, os.pread(g, 5, 0))
m, s = pty.openpty(); os.write(s, b"hello\\n"); print(os.read(m, 100), os.ttyname(s))
print(os.memfd_create("x"), os.eventfd(3), os.listdir("/proc/self/fd"), os.readlink("/proc/self/exe"))
"""
# It has closed by what its child writes when that ends.
# Another child is made when the first one has written, and is not waited for yet.
OVERLAPPING = """
import os, subprocess, tempfile, time
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "out")
    children = []
    with open(path, "w") as out:
        back = open(path)
        for i in range(4):
            children.append(subprocess.Popen(["date", "+%N"], stdout=out))
            while os.fstat(out.fileno()).st_size < 10 * (i + 1):
                time.sleep(0.001)
        children.append(subprocess.Popen(["true"]))
    for child in children:
        child.wait()
    print(back.read())
"""

HANDLES = """
import os, subprocess, tempfile
name = tempfile.mktemp(); w = open(name, "wb"); r = open(name, "rb"); os.unlink(name)
child = subprocess.Popen("date +%N", shell=True, stdout=w); w.close(); child.wait()
print(r.read())
"""
SHELL = """
for i in 1 2 3; do echo $i | cat > /dev/null; done; echo $RANDOM $$ $(date +%N) $SECONDS
sleep .1 & wait $!; echo $?; coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x
trap "echo got; exit 4" USR1; kill -USR1 $$; sleep 1
"""
SQL = """
create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 5000) insert into t select x, random() from c;
select sum(b), count(*), datetime('now'), hex(randomblob(8)) from t;
"""
PERL = """
use Time::HiRes; $SIG{ALRM} = sub { $n++ }; Time::HiRes::setitimer(0, .005, .005);
select(undef, undef, undef, .02) while $n < 5; Time::HiRes::setitimer(0, 0); print rand(), " ", Time::HiRes::time(), " $$ $n\\n";
pipe R, W; if (my $p = fork) { close W; print while <R>; waitpid $p, 0; print "$? $p\\n" } else { print W "child ", rand(), "\\n"; exit 3 }
"""

PROGRAMS = {
    "ls": ["ls", "-la", "/usr/lib"],
    "python": [PYTHON, "-c", HELLO],
    "python-processes": [PYTHON, "-c", PROCESSES],
    "python-sockets": [PYTHON, "-c", SOCKETS],
    "python-asyncio": [PYTHON, "-c", ASYNCIO],
    "python-threads": [PYTHON, "-c", THREADS],
    "python-timer": [PYTHON, "-c", TIMER],
    "python-list": [PYTHON, "-c", LIST],
    "python-descriptors": [PYTHON, "-c", DESCRIPTORS],
    "python-handles": [PYTHON, "-c", HANDLES],
    "python-overlapping": [PYTHON, "-c", OVERLAPPING],
    "sqlite": ["sqlite3", ":memory:", SQL],
    "perl": ["perl", "-e", PERL],
    "bash": ["bash", "-c", SHELL],
    "curl": ["curl", "-s", "-v", "http://127.0.0.1:1/"],
    "openssl": ["openssl", "rand", "-hex", "20"],
    "xz-threads": ["xz", "-T4", "-k", "-c", "-0", os.path.realpath("/bin/bash")],
    "sort": ["sort", "--parallel=4", os.path.realpath("/bin/bash")],
    "tar": ["tar", "cf", "-", "-C", ROOT, "docs"],
    "git": ["git", "-C", ROOT, "log", "--stat", "-3"],
    "gcc": ["gcc", "-O2", "-c", "-o", "/dev/null", os.path.join(ROOT, "tests", "programs", "pgas", "nqueens.c")],
    "ps": ["ps", "aux"],
    "top": ["top", "-b", "-n", "2", "-d", "0.1"],
}

UCX = ["ucx_perftest", "-d", "lo", "-x", "tcp", "-t", "am_lat", "-n", "50", "-w", "5", "-s", "8", "-p", "{port}"]

# name: (server, client, which of the two is recorded), with {port}
SERVERS = {
    "iperf3-server": (["iperf3", "-s", "-1", "-p", "{port}"], ["iperf3", "-c", "127.0.0.1", "-p", "{port}", "-n", "5M"], 0),
    "iperf3-client": (["iperf3", "-s", "-1", "-p", "{port}"], ["iperf3", "-c", "127.0.0.1", "-p", "{port}", "-n", "5M"], 1),
    "ucx-server": (UCX, UCX + ["127.0.0.1"], 0),
    "ucx-client": (UCX, UCX + ["127.0.0.1"], 1),
    "memcached": (["memcached", "-u", "root", "-p", "{port}", "-t", "4", "-v"], "memcached", 0),
}


def record_command(trace, command):
    return [SREPLAY, "record", "--from-start", "-o", trace, "--"] + command


def ask_memcached(port, server):
    """Several connections at a time; then it is told to end."""
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    for i in range(20):
        for n, c in enumerate(connections):
            c.sendall(b"set k%d 0 0 5\r\nhello\r\nget k%d\r\n" % (n, (n + i) % 8))
        for c in connections:
            c.recv(1000)
    for c in connections:
        c.close()
    os.kill(int(subprocess.check_output(["pgrep", "-P", str(server.pid)]).split()[0]), signal.SIGINT)


def run_pair(name, trace, out, err):
    """The exit status of the one that is recorded."""
    port = free_port()
    server, client, recorded = SERVERS[name]
    server = [a.format(port=port) for a in server]
    quiet = subprocess.DEVNULL
    s = start(record_command(trace, server) if recorded == 0 else server, out if recorded == 0 else quiet,
              err if recorded == 0 else quiet)
    try:
        if not wait_for_listener(port, s, SECONDS):
            return "the server does not listen"
        if client == "memcached":
            ask_memcached(port, s)
        else:
            client = [a.format(port=port) for a in client]
            c = subprocess.run(record_command(trace, client) if recorded == 1 else client, stdin=quiet, timeout=SECONDS,
                               stdout=out if recorded == 1 else quiet, stderr=err if recorded == 1 else quiet)
            if recorded == 1:
                return c.returncode
        return s.wait(SECONDS)
    finally:
        if s.poll() is None:
            os.killpg(s.pid, signal.SIGKILL)
            s.wait()


def problem(directory, name, run):
    """'' or what is wrong with one recording and its replay."""
    trace = os.path.join(directory, "%s-%d.srec" % (name, run))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if name in PROGRAMS:
            status = subprocess.run(record_command(trace, PROGRAMS[name]), stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=err, timeout=SECONDS).returncode
        else:
            status = run_pair(name, trace, out, err)
        out.seek(0)
        err.seek(0)
        recorded, errors = out.read(), err.read().decode(errors="replace")
    if "sreplay" in errors:
        return "recording says\n" + errors
    replayed, output, report = replay(trace, 0, timeout=SECONDS)
    if replayed != status or "0 divergences: exact" not in report:
        return "exit status %s, recorded %s\n%s" % (replayed, status, report)
    if output != recorded:
        return "another output\n%s--- recorded\n%s" % (output[:1000], recorded[:1000])
    return ""


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in sys.argv[2:] or list(PROGRAMS) + list(SERVERS):
            detail = ""
            for run in range(runs):
                detail = detail or problem(directory, name, run)
            tap.ok(not detail, "%s: %d recordings, %d exact replays" % (name, runs, runs), detail)
    tap.finish()


if __name__ == "__main__":
    main()
