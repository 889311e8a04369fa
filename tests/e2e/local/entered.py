#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay explain` of calls without verbs: bytes of sockets and pipes from the rank that wrote them or from outside, files of
the kernel, time, random numbers.  Needs no RDMA.

    entered.py
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import SREPLAY, Tap, run

SERVER = """
import os, socket, sys
s = socket.socket()
s.bind(('0.0.0.0', 0))
s.listen(4)
open('port', 'w').write(str(s.getsockname()[1]))
os.rename('port', 'ready')
clients = [s.accept()[0] for i in range(2)]
for c in clients:
    name = c.recv(100)
    c.sendall(b'answer to ' + name + b'.' * 300)
    c.recv(1)
os.urandom(8)
"""
CLIENT = """
import os, socket, sys, time
while not os.path.exists('ready'):
    time.sleep(0.01)
c = socket.create_connection(('127.0.0.1', int(open('ready').read())))
c.sendall(sys.argv[1].encode())
print(c.recv(9), len(c.recv(301 + len(sys.argv[1]), socket.MSG_WAITALL)))
c.close()
"""
ALONE = """
import os, socket, sys, time
out = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print(out.recv(100))
a, b = socket.socketpair()
a.sendall(b'first')
a.sendall(b'second')
print(b.recv(3), b.recv(8))
r, w = os.pipe()
if not os.fork():
    os.write(w, b'from the child')
    os._exit(0)
print(os.read(r, 100))
os.write(w, b'by itself')
print(os.read(r, 100))
print(open('/proc/uptime').read())
time.time()
os.urandom(8)
"""


def calls(trace, rank, *names):
    """The calls with these names that brought something, in their order."""
    out = subprocess.run([SREPLAY, "dump", "--rank", str(rank), "--json", trace], capture_output=True, check=True).stdout
    found = [json.loads(line) for line in out.splitlines()]
    return [c for c in found if c.get("call") in names and c.get("result", 0) > 0]


def explained(trace, rank, call):
    status, out, err = run([SREPLAY, "explain", trace, "%d:%d" % (rank, call["sn"])], 60)
    return out.decode() if status == 0 else "%s %s" % (status, err)


def command(text, *arguments):
    return [os.path.realpath(sys.executable), "-S", "-c", text, *arguments]


def between_ranks(tap, place):
    trace = os.path.join(place, "three.srec")
    programs = [command(SERVER), command(CLIENT, "one"), command(CLIENT, "another")]
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "--rank", str(n), "-o", trace, "--"] + program, cwd=place,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for n, program in enumerate(programs)]
    errors = [p.communicate(timeout=60)[1] for p in ranks]
    tap.ok(all(p.returncode == 0 for p in ranks), "three ranks are recorded", errors)
    names = {b"one".hex(): 1, b"another".hex(): 2}
    for c in calls(trace, 0, "recv"):
        sender = names.get(c["out"]["buf"].get("hex")) if isinstance(c["out"]["buf"], dict) else None
        if sender:
            sent = calls(trace, sender, "send")[0]
            text = explained(trace, 0, c)
            tap.ok("from rank %d thread 0 SN %d:" % (sender, sent["sn"]) in text and text.count(" from ") == 1,
                   "what the server got is from rank %d alone" % sender, text)
    for rank in (1, 2):
        parts = calls(trace, rank, "recv")
        texts = [explained(trace, rank, c) for c in parts]
        places = [re.search(r"from rank 0 thread 0 SN \d+: bytes (\d+) to (\d+) of the \d+", t) for t in texts]
        tap.ok(len(places) == 2 and all(places) and places[0].groups() == ("0", "8") and places[1].group(1) == "9",
               "rank %d got its answer in two pieces" % rank, texts)
        tap.ok("does not tell which" in texts[0] and texts[1].count("from rank") == 1 and "does not tell" not in texts[1],
               "... of which the first one could be the other rank's: that is said", texts)


def alone(tap, place):
    trace, outside = os.path.join(place, "alone.srec"), socket.create_server(("127.0.0.1", 0))
    port = outside.getsockname()[1]

    def serve():
        connection, _ = outside.accept()
        connection.sendall(b"from outside")
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    status, _, err = run([SREPLAY, "record", "--from-start", "-o", trace, "--"] + command(ALONE, str(port)), 60)
    thread.join()
    tap.ok(status == 0, "a program alone is recorded", err)
    texts = [explained(trace, 0, c) for c in calls(trace, 0, "recv", "read")
             if c.get("call") == "recv" or "uptime" in str(c) or c["in"]["fd"] > 2]
    everything = "\n".join(texts)
    sends = [c["sn"] for c in calls(trace, 0, "send") if c["result"] in (5, 6)]
    tap.ok("from outside of the recorded ranks: 127.0.0.1:%d" % port in everything, "what a server outside sent", everything)
    tap.ok(re.search(r" 3 bytes .*pair of sockets.*\n    from rank 0 thread 0 SN %d: bytes 0 to 2 of the 5 " % sends[0], everything),
           "a pair of sockets: a part", everything)
    tap.ok(re.search(r" 8 bytes .*\n    from rank 0 thread 0 SN %d: bytes 3 to 4 of the 5 .*\n"
                     r"    from rank 0 thread 0 SN %d: bytes 0 to 5 of the 6 " % tuple(sends), everything),
           "... and the rest with the next one", everything)
    tap.ok(re.search(r" 14 bytes .*pipe.*\n    from outside of the recorded ranks, as a child of rank 0", everything),
           "what a child wrote into a pipe", everything)
    tap.ok("/proc/uptime" in everything and "from the kernel" in everything, "a file that the kernel makes", everything)
    for name, word in (("time", "time: "), ("getrandom", "random: 8 bytes")):
        text = [explained(trace, 0, c) for c in calls(trace, 0, name, "clock_gettime" if name == "time" else name)]
        tap.ok(any(word in t for t in text), "%s is said to be such" % name, text)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as place:
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        between_ranks(tap, place)
        alone(tap, place)
    tap.finish()


if __name__ == "__main__":
    main()
