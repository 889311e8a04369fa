#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What leaves a process is compared: whatever call writes it, a replay that writes something else says so, with the
call, the place and both sides' bytes; and one that says "exact" has written what was recorded.  Needs no RDMA.

    outputs.py [CASE...]
"""

import ctypes
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, run, write_old

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "outputs")
# What a replay waits for a call.
STUCK_SECONDS = 20
# A file's content, the same for each case.
SHORT = "forty-two and some more\n"
LONG = "".join("line %d of a longer text\n" % i for i in range(400))
# How it writes -> the call that is named.
CALLS = {"write": "write", "pwrite": "pwrite64", "writev": "writev", "pwritev": "pwritev", "pwritev2": "pwritev2", "raw": "write",
         "stdio": "write", "exit": "write", "handler": "write", "dprintf": "write", "warnx": "write", "sockets": "sendmsg",
         "sendfile": "sendfile", "copy_file_range": "copy_file_range", "splice": "splice", "vmsplice": "vmsplice", "pipe": "write", "high": "write", "thread": "write", "last_thread": "write"}


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def read(path):
    with open(path) as f:
        return f.read()


class Case:
    """A recording of one way to write."""

    def __init__(self, place, how, text, **environment):
        self.input, self.output = os.path.join(place, "in"), os.path.join(place, "out")
        self.trace = os.path.join(place, "%s-%d.srec" % (how, len(os.listdir(place))))
        write_old(self.input, text)
        self.recorded = run([SREPLAY, "record", "--from-start", "-o", self.trace, "--", PROGRAM, how, self.input, self.output], 60,
                            env={**os.environ, **environment})
        self.text = text
        self.written = read(self.output)

    def replay(self, text=None, *options):
        write(self.input, self.text if text is None else text)
        return run([SREPLAY, "replay", "--timeout", str(STUCK_SECONDS), *options, self.trace], 100)

    def is_exact(self):
        with tempfile.TemporaryDirectory() as keep:
            status, out, err = self.replay(None, "-o", keep)
            same = status == self.recorded[0] and out == self.recorded[1] and read(keep + self.output) == self.written
        return same and "0 divergences: exact" in err, "%s %s\n%s%s" % (self.recorded, status, out, err)


def differs(err, call, *lines):
    """What the report lacks, for the test to print."""
    wanted = [r"^sreplay: rank 0 thread \d+ SN \d+: %s (writes other bytes than|with other arguments than) recorded$" % call,
              r"recorded: %s\(.*\) @0x\w+ \S+", r"now:      %s\(" % call, *lines]
    lost = [p for p in wanted if not re.search(p.replace("%s", call), err, re.M)]
    return "missing: %s\n%s" % (lost, err) if lost else ""


def is_forbidden(how):
    """Docker's and Podman's filters forbid vmsplice."""
    if how != "vmsplice":
        return False
    ends = os.pipe()
    result = ctypes.CDLL(None).vmsplice(ends[1], None, ctypes.c_size_t(0), 0)
    for end in ends:
        os.close(end)
    return result != 0


def each_call(tap, place, how):
    if is_forbidden(how):
        tap.ok(True, "%s # SKIP a filter forbids it here" % how)
        return
    call, c = CALLS[how], Case(place, how, SHORT)
    good, told = c.is_exact()
    tap.ok(good, "%s: the same output is exact" % how, told)
    status, _, err = c.replay(SHORT.replace("two", "six"))
    lost = differs(err, call, r'^sreplay:   recorded: ".*orty-two', r'^sreplay:   now: +".*orty-six',
                   r"the first byte that differs: byte \d+ of \d+")
    tap.ok(status == 124 and not lost and "exact" not in err, "%s: other output is found" % how, "%s %s" % (status, lost or err))
    status, _, err = c.replay(SHORT + "more\n")
    lost = differs(err, ".*")
    tap.ok(status == 124 and not lost, "%s: more output too" % how, "%s %s" % (status, lost))
    status, _, err = c.replay(SHORT[:10])
    lost = differs(err, call, r"it now writes \d+ bytes, recorded were \d+")
    tap.ok(status == 124 and not lost, "%s: less output too" % how, "%s %s" % (status, lost))
    c = Case(place, how, LONG)
    good, told = c.is_exact()
    tap.ok(good, "%s: the same long output is exact" % how, told)
    at = LONG.index("line 250")
    status, _, err = c.replay(LONG.replace("line 250", "line 25x"))
    block = re.search(r"the first block that differs: bytes (\d+) to (\d+) of \d+", err)
    # dprintf and warnx write in pieces of their own.
    tap.ok(status == 124 and block and "now: " in err and "line 25x" in err and
           (how in ("dprintf", "warnx", "stdio", "exit") or int(block.group(1)) <= at + 7 <= int(block.group(2))),
           "%s: one byte of a long output is found, and its block shown" % how, "%s %s" % (status, err))


def other_sends(tap, place):
    for name, call in (("SEND", "send"), ("SENDTO", "sendto")):
        c = Case(place, "sockets", SHORT, **{name: "1"})
        good, told = c.is_exact()
        status, _, err = c.replay(SHORT.replace("two", "six"))
        lost = differs(err, call, r'recorded: ".*orty-two')
        tap.ok(good and status == 124 and not lost, "%s to a socket is compared" % call, told + lost)


def not_written(tap, place):
    """What the kernel refused has not left the process."""
    c = Case(place, "part", LONG * 9)
    good, told = c.is_exact()
    tap.ok(good, "a part: what was not taken is no output", told)
    taken = int(c.recorded[1].split()[0])
    status, _, err = c.replay((LONG * 9)[:taken] + (LONG * 9)[taken:].replace("longer", "LONGER"))
    tap.ok(status == 0 and "exact" in err, "a part: what was not written may differ", err)
    status, _, err = c.replay((LONG * 9).replace("line 250", "line 25x"))
    tap.ok(status == 124, "a part: what was written may not", err)
    for how in ("full", "sigpipe"):
        c = Case(place, how, SHORT)
        good, told = c.is_exact()
        status, _, err = c.replay(SHORT.replace("two", "six"))
        tap.ok(good and status == 0 and "exact" in err, "%s: nothing was written, nothing is compared" % how, told + err)


def other_standard_error(tap, place):
    """A terminal can be read and written, what standard error is led to instead can be written only."""
    trace, path = os.path.join(place, "perror.srec"), os.path.join(place, "err")
    for recorded, replayed in (("w+", "w"), ("w", "w+"), ("w+", "w+")):
        with open(path, recorded) as err:
            printed = subprocess.run([SREPLAY, "record", "--from-start", "-q", "-o", trace, "--", PROGRAM, "perror", path, path],
                                     stdout=subprocess.PIPE, stderr=err).stdout
        with open(path, replayed) as err:
            replay = subprocess.run([SREPLAY, "replay", trace], stdout=subprocess.PIPE, stderr=err)
        shutil.rmtree(trace)
        tap.ok(replay.returncode == 0 and replay.stdout == printed and "0 divergences: exact" in read(path),
               "perror, recorded with standard error open as %s, replayed as %s" % (recorded, replayed), read(path))


def racing(tap, place):
    c = Case(place, "racing_threads", SHORT)
    for i in range(3):
        good, told = c.is_exact()
        tap.ok(good, "threads that write without a lock: in the recorded order (%d)" % i, told[-300:])
    for how in ("exit", "_exit", "exec", "failing_exec"):
        for threads in ("auto", "parallel", "serial"):
            wrong = []
            for _ in range(4 if FULL else 1):
                c = Case(place, how + "_amid_writes", SHORT, SREPLAY_THREADS=threads)
                good, told = c.is_exact()
                if not good:
                    wrong.append(told[-500:])
            tap.ok(not wrong, "%s while threads write, threads %s: the last lines, too" % (how, threads), "\n".join(wrong))
    c = Case(place, "racing_count", SHORT)
    for i in range(5):
        status, out, err = c.replay()
        tap.ok((status == 0 and out == c.recorded[1]) or (status == 124 and "divergences: exact" not in err and "recorded: \"" in err),
               "a racing count: exact only if it is the recorded one (%d)" % i, "%s %s %s" % (c.recorded, out, err))


def statuses(tap, place):
    for how in ("status", "status_at_once"):
        c = Case(place, how, "a")
        good, told = c.is_exact()
        tap.ok(good and c.recorded[0] == 97, "%s: is replayed" % how, told)
        status, _, err = c.replay("b")
        tap.ok(status == 124 and "the program ended with status 98, recorded was 97" in err, "%s: another one is found" % how, err)


def of_children(tap, place):
    """What they print is missing in the replay, and the verdict does not call that exact without a word."""
    for command, says in (("echo one | cat; echo two", "exact, but not compared is what its children did\n"), ("echo two", "exact\n")):
        trace = os.path.join(place, "children%d.srec" % len(command))
        run([SREPLAY, "record", "--from-start", "-o", trace, "--", "/bin/sh", "-c", command], 60)
        status, out, err = run([SREPLAY, "replay", trace], 60)
        tap.ok(status == 0 and b"two" in out and err.endswith(says), "%s: %s" % (command, says.strip()), "%s %s %s" % (status, out, err))
    for after, wanted, says in (("exec sh -c 'exit 3'", 3, "exact, but not compared is what its child did\n"),
                                ("kill -9 $$", 137, "exact, but not compared is what its child did\n")):
        trace = os.path.join(place, "children-%d.srec" % wanted)
        run([SREPLAY, "record", "--from-start", "-o", trace, "--", "/bin/sh", "-c", "/bin/date; " + after], 60)
        status, out, err = run([SREPLAY, "replay", trace], 60)
        tap.ok(status == wanted and err.endswith(says), "%s: %s" % (after, says.strip()), "%s %s %s" % (status, out, err))


def broken_pipe(tap, place):
    trace = os.path.join(place, "yes.srec")
    subprocess.run("%s record --from-start -o %s -- /usr/bin/yes | head -2" % (SREPLAY, trace), shell=True, capture_output=True)
    status, out, err = run([SREPLAY, "replay", trace], 60)
    tap.ok(status == 123 and len(out) < 10 << 20 and "exact, up to where the recorded program was killed" in err,
           "yes | head: the replay ends where yes did", "%s %d %s" % (status, len(out), err))


def killed_loop(tap, place):
    """Killed where it computes: the replay ends there, without waiting for the time of a stuck one."""
    c = Case.__new__(Case)
    c.input, c.output, c.trace, c.text = place + "/in", place + "/out", place + "/loop.srec", SHORT
    write_old(c.input, SHORT)
    p = subprocess.Popen([SREPLAY, "record", "--from-start", "-o", c.trace, "--", PROGRAM, "for_ever", c.input, c.output],
                         stdout=subprocess.PIPE, start_new_session=True)
    p.stdout.readline()
    end = time.time() + 20
    # The record of that write comes after the write.
    while "begun" not in subprocess.run([SREPLAY, "dump", c.trace], capture_output=True, text=True).stdout and time.time() < end:
        time.sleep(0.1)
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    while "whole" not in subprocess.run([SREPLAY, "verify", c.trace], capture_output=True, text=True).stdout and time.time() < end:
        time.sleep(0.1)
    began = time.time()
    status, out, err = c.replay()
    tap.ok(status == 123 and out == b"begun\n" and "up to where the recorded program was killed" in err and time.time() - began < STUCK_SECONDS,
           "killed in a computing loop: the replay ends there, in %.1f s" % (time.time() - began), "%s %s" % (status, err))


def change(trace, old, new):
    """Changes bytes in the trace's records, with the checksums around them.  new: bytes, or a function of the frame's."""
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    path = os.path.join(trace, "rank-0", "thread-0.srs")
    with open(path, "rb") as f:
        data = f.read()
    at, out, changed = 64, data[:64], 0
    while at < len(data):
        head, stored = data[at:at + 64], struct.unpack_from("<I", data, at + 8)[0]
        body = data[at + 64:at + 64 + stored]
        at += 64 + stored
        if old in body:
            changed += 1
            body = new(body) if callable(new) else body.replace(old, new)
            head = head[:48] + struct.pack("<Q", xxh3(body, len(body)))
            head += struct.pack("<Q", xxh3(head, 56))
        out += head + body
    with open(path, "wb") as f:
        f.write(out)
    return changed


def damaged(tap, place):
    """The trace itself says something else."""
    c = Case(place, "write", SHORT)
    changed = change(c.trace, b"forty-two", b"forty-six")
    status, _, err = c.replay()
    lost = differs(err, "write", r'recorded: ".*six', r'now:      ".*two')
    tap.ok(changed == 1 and status == 124 and not lost, "another recorded output is found", lost)
    c = Case(place, "write", LONG)
    first = LONG[:64].encode()

    def flip(body):
        at = body.index(first) + len(first) + 4 + 4 * 3
        return body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]

    changed = change(c.trace, first, flip)
    status, _, err = c.replay()
    tap.ok(changed == 1 and status == 124 and "the first block that differs: bytes 768 to 1023 of %d" % len(LONG) in err,
           "another recorded checksum too, and its block", err)

    def shorten(body):
        at = body.index(first) + len(first)
        return body[:at] + struct.pack("<I", 8) + body[at + 4:]

    c = Case(place, "write", LONG)
    changed = change(c.trace, first, shorten)
    status, _, err = c.replay()
    tap.ok(changed == 1 and status == 125 and "the record of write is damaged" in err, "missing checksums are damage", err)


def mapped(tap, place):
    """What is stored into a mapped file leaves the process, too."""
    for how in "mapping", "mapping_to_the_end", "mapping_synced", "mapping_made_writable", "mapping_moved", "mapping_and_exec":
        c = Case(place, how, LONG)
        status, _, err = c.replay()
        tap.ok(status == 0 and err.rstrip().endswith("0 divergences: exact"), "%s: the same is exact" % how, "%s %s" % (status, err))
        status, _, err = c.replay(LONG.replace("line 250", "line 25x"))
        tap.ok(status == 124 and "mapped_output writes other bytes than recorded" in err and "line 25x" in err,
               "%s: one other byte is found" % how, "%s %s" % (status, err))


def uncompared(tap, place):
    """Of what it has not compared, a replay does not say that it is exact."""
    for how, what in (("mapping_of_child", "what it stores into mapped files, and what its child did"), ("from_pipe_to_stdout", "what the kernel moves from pipes and sockets")):
        c = Case(place, how, SHORT)
        status, _, err = c.replay()
        tap.ok(status == 0 and err.rstrip().endswith("0 divergences: exact, but not compared is " + what), "%s: it is said" % how, err)
    status, _, err = Case(place, "mapping_until_killed", SHORT).replay()
    tap.ok(status == 137 and err.rstrip().endswith("but not compared is what it had stored into mapped files when it was killed"),
           "of a killed program: it is said", "%s %s" % (status, err))
    status, _, err = Case(place, "from_pipe", SHORT).replay()
    tap.ok(status == 0 and err.rstrip().endswith("0 divergences: exact"), "from_pipe: what comes to a file is in the trace", err)
    c = Case.__new__(Case)
    c.input, c.trace, c.text = place + "/in", place + "/off.srec", SHORT
    run([SREPLAY, "record", "--from-start", "--syscall-trap=off", "-o", c.trace, "--", PROGRAM, "exit", c.input, place + "/out"], 60)
    status, _, err = c.replay(None, "--live-files")
    tap.ok(status == 0 and err.rstrip().endswith("exact, but not compared is what libc itself writes"), "without the trap: it is said", err)


WRITES = """
import ctypes, fcntl, os, struct, sys, termios, threading, time
libc = ctypes.CDLL(None)
text = ctypes.create_string_buffer(b'x' * 200000)
if sys.argv[1] == 'thread':
    threading.Thread(target=libc.write, args=(int(sys.argv[2]), text, 200000), daemon=True).start()
    # It is full when the write blocks.
    while struct.unpack('i', fcntl.ioctl(int(sys.argv[2]), termios.FIONREAD, bytes(4)))[0] < 65536:
        time.sleep(0.02)
    libc._exit(3)
libc.write(int(sys.argv[2]), text, 200000)
"""


def blocked(tap, place):
    """A write that is under way when its process ends: nobody knows how much of it was written, and the verdict says so."""
    for how in "thread", "killed":
        trace = os.path.join(place, "blocked-%s.srec" % how)
        r, w = os.pipe()
        p = subprocess.Popen([SREPLAY, "record", "--from-start", "--children=off", "-o", trace, "--", "/usr/bin/python3", "-c", WRITES, how, str(w)],
                             pass_fds=[w], start_new_session=True, stderr=subprocess.DEVNULL)
        os.close(w)
        end = time.time() + 20
        if how == "killed":
            piece = struct.pack("i", 0)
            while struct.unpack("i", fcntl.ioctl(r, termios.FIONREAD, piece))[0] < 65536 and time.time() < end:
                time.sleep(0.02)
            os.killpg(p.pid, signal.SIGKILL)
        status = p.wait()
        os.close(r)
        while "whole" not in subprocess.run([SREPLAY, "verify", trace], capture_output=True, text=True).stdout and time.time() < end:
            time.sleep(0.1)
        r = subprocess.run([SREPLAY, "replay", trace], capture_output=True, text=True, timeout=60)
        tap.ok(status == (3 if how == "thread" else -signal.SIGKILL) and "but not compared is what it was writing when it ended" in r.stderr,
               "%s: it is said" % how, "%s %s %s" % (status, r.returncode, r.stderr))


CASES = {"blocked": blocked, "mapped": mapped, "uncompared": uncompared, "damaged": damaged, "killed_loop": killed_loop, "other_sends": other_sends, "not_written": not_written, "racing": racing, "other_standard_error": other_standard_error, "statuses": statuses, "of_children": of_children, "broken_pipe": broken_pipe}


def main():
    tap = Tap()
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        # So that a test can change what a trace says.
        subprocess.run([os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd"), "--daemonize", "--level", "0",
                        "--idle-exit", "30"], check=True)
        for how in CALLS:
            if not wanted or how in wanted:
                each_call(tap, place, how)
        for name, case in CASES.items():
            if not wanted or name in wanted:
                case(tap, place)
    tap.finish()


if __name__ == "__main__":
    main()
