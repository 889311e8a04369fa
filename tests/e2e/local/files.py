#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Regular files of a recorded program: a replay names the inputs that have changed, and reads those that the
trace keeps.  Needs no RDMA."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, write_old

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "inputs")
TEXT = "one\ntwo\n"


# Two processes take turns by a number under a lock, and append to a file without one: its argument says which one it is.
MEETING = """
import fcntl, os, sys, time
me, n, found = int(sys.argv[1]), 0, []
turn = os.open("turn", os.O_RDWR | os.O_CREAT)
while n < 20:
    fcntl.flock(turn, fcntl.LOCK_EX)
    n = int(os.pread(turn, 10, 0) or b"0")
    if n < 20 and n % 2 == me:
        with open("lines", "a") as lines:
            lines.write("%d %d\\n" % (me, time.time_ns()))
        os.pwrite(turn, b"%d" % (n + 1), 0)
    fcntl.flock(turn, fcntl.LOCK_UN)
    found.append(n)
    time.sleep(0.0005)
print(found, open("lines").read())
"""

# Under a lock it writes, reads, moves about, and cuts; then it opens the file again, which is not small any more.
LOCKED = """
import fcntl, os
fd = os.open("locked", os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.write(fd, b"abc")
os.lseek(fd, 0, os.SEEK_SET)
print(os.read(fd, 2))
os.write(fd, b"x" * 70000)
os.lseek(fd, -3, os.SEEK_END)
os.write(fd, b"end")
os.pwrite(fd, b"p", 1)
other = os.dup(fd)
os.write(other, b"by a duplicate")
os.ftruncate(fd, 60000)
os.lseek(fd, 0, os.SEEK_END)
os.write(fd, b"y" * 70000)
fcntl.flock(fd, fcntl.LOCK_UN)
os.close(fd)
os.close(other)
print(sum(open("locked", "rb").read()))
"""

# Two ranks of a job write into each other's half of a large file, and read it: by calls, a stream, a descriptor opened later.
RANK = """
import os, sys, time
me = int(os.environ["OMPI_COMM_WORLD_RANK"])
half = 100000
fd = os.open("shared", os.O_RDWR | os.O_CREAT)
stream = open("shared", "r+b")
found = []
def meet(n):
    open("met.%d.%d" % (n, me), "w").close()
    while not os.path.exists("met.%d.%d" % (n, 1 - me)):
        time.sleep(0.001)
for n in range(4):
    os.pwrite(fd, bytes([65 + n + 10 * me]) * half, half * (1 - me))
    meet(3 * n)
    os.lseek(fd, half * me, os.SEEK_SET)
    found.append(os.read(fd, half)[-1])
    found.append(os.pread(fd, 3, half * me + n)[0])
    parts = [bytearray(10), bytearray(half)]
    os.preadv(fd, parts, half * me)
    found.append(parts[1][half // 2])
    stream.seek(half * me)
    found.append(stream.read(1000)[999])
    later = os.open("shared", os.O_RDONLY)
    found.append(os.pread(later, half, half * me)[5])
    os.close(later)
    os.lseek(fd, -1, os.SEEK_CUR)
    os.write(fd, b"x")
    meet(3 * n + 1)
    found.append(os.read(fd, 1))
    meet(3 * n + 2)
print(found)
"""


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def read(path):
    with open(path) as f:
        return f.read()


def record(place, name, keep):
    """A trace of the program, with its input noted; its standard output."""
    trace = os.path.join(place, name)
    here = os.path.join(place, "run")
    shutil.rmtree(here, ignore_errors=True)
    os.makedirs(here)
    os.chmod(here, 0o711)
    write_old(os.path.join(here, "in.txt"), TEXT)
    write(os.path.join(here, "gone.txt"), "x")
    r = subprocess.run([SREPLAY, "record", *(["--record-files"] if keep else []), "-o", trace, "--", PROGRAM],
                       cwd=here, capture_output=True, text=True)
    if r.returncode != 7:
        raise RuntimeError("%s %s" % (r.returncode, r.stderr))
    return trace, here, r.stdout


def replay(trace, *options):
    r = subprocess.run([SREPLAY, "replay", *options, trace], capture_output=True, text=True, timeout=60)
    return r.returncode, r.stdout, r.stderr


def changed_inputs(tap, place):
    trace, here, out = record(place, "plain.srec", False)
    path = os.path.join(here, "in.txt")
    status, got, err = replay(trace)
    tap.ok(status == 7 and got == out and "in.txt" not in err, "an unchanged input is not worth a word", err)
    write(path, TEXT.replace("one", "eno"))
    status, got, err = replay(trace)
    tap.ok(status == 124 and re.search(r"%s, which the program read, has changed since it was recorded: its content hash is "
                                       r"\w{16}, recorded was \w{16}; to keep what a program read: sreplay pack before it changes, or record --record-files$" % re.escape(path), err, re.M),
           "a changed input is named", err)
    tap.ok("write writes other bytes than recorded" in err and 'recorded: "one' in err and 'now:      "eno' in err,
           "and what it has changed in the output", err)
    write(path, TEXT + "more")
    err = replay(trace)[2]
    tap.ok("%s, which the program read, has changed since it was recorded: it has %d bytes, recorded were %d" %
           (path, len(TEXT) + 4, len(TEXT)) in err, "one of another size too", err)
    os.remove(path)
    err = replay(trace)[2]
    tap.ok("%s, which the program read, cannot be read now: No such file" % path in err, "a missing one too", err)
    os.mkfifo(path)
    err = subprocess.run(["timeout", "20", SREPLAY, "replay", "--timeout", "1", trace], capture_output=True,
                         text=True).stderr
    tap.ok("%s, which the program read, cannot be read now" % path in err, "a FIFO in its place is not waited for", err)


def kept_inputs(tap, place):
    trace, here, out = record(place, "kept.srec", True)
    path = os.path.join(here, "in.txt")
    keep = os.path.join(place, "written")
    write(path, "changed\n")
    write(os.path.join(here, "gone.txt"), "x")
    os.rmdir(os.path.join(here, "made"))
    status, got, err = replay(trace, "-o", keep)
    tap.ok(status == 7 and got == out and "in.txt" not in err, "a replay reads the recorded content", err)
    tap.ok(read(os.path.join(here, "out.txt")) == TEXT and read(keep + here + "/out.txt") == TEXT,
           "what it writes is where -o says, and not where it was recorded")
    tap.ok(os.path.exists(os.path.join(here, "gone.txt")) and not os.path.exists(os.path.join(here, "made")),
           "what it removes and makes is as before")
    tap.ok(os.path.isdir(keep + here + "/made") and os.listdir(keep) == [place.split("/")[1]] and
           "what the program wrote is in %s" % keep in err, "-o has its directories, and nothing else",
           "%s\n%s" % (os.listdir(keep), err))
    status, got, err = replay(trace, "-o", keep)
    tap.ok(status == 125 and "is not an empty directory" in err, "that directory is used once", err)
    status, got, err = replay(trace, "--live-files")
    tap.ok(status == 124 and "the trace keeps the recorded one: without --live-files" in err,
           "with --live-files, the remedy for a changed input is named", err)
    write(path, TEXT)
    write(os.path.join(here, "out.txt"), TEXT)
    write(os.path.join(here, "gone.txt"), "x")
    os.rmdir(os.path.join(here, "made"))
    status, got, err = replay(trace, "--live-files")
    tap.ok(status == 7 and got == out and read(os.path.join(here, "out.txt")) == TEXT * 2 and not os.path.exists(here + "/gone.txt") and
           os.path.isdir(here + "/made"), "and it does to the files what the program did")
    os.remove(path)
    status, got, err = replay(trace)
    tap.ok(status == 7 and got == out, "an input that is gone is there too", err)
    status, got, err = replay(trace, "--live-files", "-o", os.path.join(place, "never"))
    tap.ok(status == 125 and "give one of them" in err, "--live-files leaves nothing for -o", err)
    status, got, err = replay(trace, "--sandbox", keep)
    tap.ok(status == 125 and "-o %s" % keep in err, "--sandbox is refused, with the remedy", err)
    kept = os.path.join(trace, "files", os.listdir(os.path.join(trace, "files"))[0])
    os.chmod(kept, 0o600)
    write(kept, TEXT.upper())
    status, got, err = replay(trace)
    tap.ok(status == 125 and kept in err and "it is damaged" in err, "damaged kept content is refused", err)


def kept_of(trace, here):
    """The sizes of the program's files that are in the trace.  Those of the machine that are a minute old are there, too."""
    lines = [json.loads(line) for line in read(os.path.join(trace, "rank-0", "files.jsonl")).splitlines()]
    ours = {line["file"] for line in lines if line.get("path", "").startswith(here + "/")}
    return sorted({line["kept"]: line["size"] for line in lines if line.get("kept") and line["file"] in ours}.values())


OPENS = """
import os
for name in 'old', 'new':
    if name == 'new':
        with open(name, 'w') as f:
            f.write('x' * 100)
        os.system('printf 7 >> new')
    with open(name) as f:
        print(len(f.read()))
    os.remove(name)
os.symlink('in.txt', 'link')
print(open('link').read())
os.remove('link')
print(len(open('fresh').read()))
print(len(open('empty').read()))
"""


def small_files(tap, place):
    """Small files that are removed, written by a child, or read by another name, are in the trace where that is needed."""
    trace = os.path.join(place, "small.srec")
    here = os.path.join(place, "small")
    os.makedirs(here)
    write_old(os.path.join(here, "in.txt"), TEXT)
    write_old(os.path.join(here, "old"), "o" * 60)
    write(os.path.join(here, "fresh"), "f" * 70)
    write_old(os.path.join(here, "empty"), "")
    time.sleep(0.02)  # the clock of files has ticks of up to 10 ms: what changed in the one in which the program begins counts as new
    r = subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, "--", "/usr/bin/python3", "-c", OPENS], cwd=here,
                       capture_output=True, text=True)
    tap.ok(r.returncode == 0 and r.stdout == "60\n101\n" + TEXT + "\n70\n0\n", "the program finds its small files", r.stdout + r.stderr)
    os.remove(os.path.join(here, "fresh"))
    os.remove(os.path.join(here, "empty"))
    status, got, err = replay(trace)
    tap.ok((status, got) == (0, r.stdout) and "0 divergences: exact" in err, "so does its replay", got + err)
    kept = kept_of(trace, here)
    tap.ok(kept == [60, 70, 101], "what is gone, or of the last minute, is kept in the trace", str(kept))


# Files that a child replaces, and one that it removes.
REPLACED = """
import os
for name in ('small', 'large', 'removed', 'stays'):
    print(len(open(name).read()))
os.system('for i in small large; do echo new > tmp; mv tmp $i; done; rm removed')
print(open('small').read())
"""


def replaced_files(tap, place):
    """What a child has put in the place of an input: the trace has what the program read."""
    trace, here = os.path.join(place, "replaced.srec"), os.path.join(place, "replaced")
    os.makedirs(here)
    for name, n in ("small", 60), ("large", 100000), ("removed", 70), ("stays", 80):
        write_old(os.path.join(here, name), "r" * n)
    r = subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, "--", "/usr/bin/python3", "-c", REPLACED], cwd=here,
                       capture_output=True, text=True)
    status, got, err = replay(trace)
    tap.ok(not r.returncode and (status, got) == (0, r.stdout) and got == "60\n100000\n70\n80\nnew\n\n" and "0 divergences: exact" in err,
           "inputs that a child replaces or removes", r.stdout + got + err)
    kept = kept_of(trace, here)
    tap.ok(kept == [4, 60, 70, 100000], "are kept in the trace, and no others", str(kept))


def meeting_place(tap, place):
    """Files by which a recorded process and another one talk to each other."""
    trace, here = os.path.join(place, "meeting.srec"), os.path.join(place, "meeting")
    os.makedirs(here)
    command = ["/usr/bin/python3", "-c", MEETING]
    with subprocess.Popen(command + ["1"], cwd=here, stdout=subprocess.DEVNULL) as other:
        recorded = subprocess.run([SREPLAY, "record", "--from-start", "-q", "-o", trace, "--"] + command + ["0"], cwd=here, capture_output=True,
                                  text=True, timeout=60)
        other.wait(60)
    status, got, err = replay(trace)
    tap.ok(not recorded.returncode and not status and got == recorded.stdout and len(got) > 100 and "0 divergences: exact" in err,
           "what another process writes into a file that the program writes, too", (recorded, got, err))
    trace, kept = os.path.join(place, "locked.srec"), os.path.join(place, "kept")
    recorded = subprocess.run([SREPLAY, "record", "--from-start", "-q", "-o", trace, "--", "/usr/bin/python3", "-c", LOCKED], cwd=here,
                              capture_output=True, text=True, timeout=60)
    status, got, err = replay(trace, "-o", kept)
    tap.ok(not recorded.returncode and not status and got == recorded.stdout and "0 divergences: exact" in err,
           "what it writes under a lock it finds again", (recorded, got, err))
    tap.ok(read(os.path.realpath(kept) + os.path.realpath(os.path.join(here, "locked"))) == read(os.path.join(here, "locked")), "and so does replay -o")


def ranks_share(tap, place):
    """A large file that two ranks write and read, without locks."""
    here, kept = os.path.join(place, "ranks"), os.path.join(place, "ranks-kept")
    os.makedirs(here)
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "-q", "-o", "rank-%d.srec" % rank, "--", "/usr/bin/python3", "-c", RANK],
                              cwd=here, stdout=subprocess.PIPE, env=dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank))) for rank in range(2)]
    outputs = [r.communicate(timeout=60)[0].decode() for r in ranks]
    replays = [replay(os.path.join(here, "rank-%d.srec" % rank)) for rank in range(2)]
    tap.ok(all(status == 0 and got == out and len(out) > 100 and "0 divergences: exact" in err
               for (status, got, err), out in zip(replays, outputs)), "a rank reads what another one has written into a file of both", replays)
    replay(os.path.join(here, "rank-0.srec"), "-o", kept)
    with open(os.path.realpath(kept) + os.path.realpath(os.path.join(here, "shared")), "rb") as f:
        tap.ok(f.read().count(b"D") == 100000, "replay -o keeps what the rank itself has written")


def another_user_can(*command):
    """Runs it without root's rights, with a HOME for the key of its recordings; None where that is not to be had here."""
    if os.geteuid() != 0:
        return None
    with tempfile.TemporaryDirectory(dir="/tmp") as home:  # TMPDIR may be root's alone
        os.chown(home, 65534, 65534)
        other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "HOME=" + home]
        if subprocess.run(other + ["test", "-x", PROGRAM]).returncode:
            return None
        return subprocess.run(other + list(command), capture_output=True, text=True)


def paths(tap, place):
    """The path in the trace has no links, whatever name the program gave."""
    here, trace = os.path.join(os.path.realpath(place), "named"), os.path.join(place, "paths.srec")
    os.makedirs(os.path.join(here, "real"))
    os.symlink("real", os.path.join(here, "link"))
    given = ["real/a", "link/b", "./real/c", "real/../link/d", "real//e", here + "/real/f", here + "/link/g", "real/.h", "real/..i"]
    for name in given:
        write_old(os.path.join(here, name), os.path.basename(name))
    os.symlink("a", os.path.join(here, "real", "z"))
    command = ["cat", *given, "real/z", "/proc/self/comm", "nowhere/j"]
    r = subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, "--", *command], cwd=here, capture_output=True, text=True)
    tap.ok(r.returncode == 1 and r.stdout == "abcdefg.h..iacat\n" and r.stderr == "cat: nowhere/j: No such file or directory\n",
           "files by names of all kinds", str(r))
    found = [json.loads(line)["path"] for line in read(os.path.join(trace, "rank-0", "files.jsonl")).splitlines() if "path" in line]
    expected = [os.path.join(here, "real", os.path.basename(name)) for name in given]
    tap.ok([name for name in found if name.startswith(here)] == expected, "are noted without links", "\n".join(found))
    status, out, err = replay(trace)
    tap.ok((status, out) == (1, r.stdout) and "0 divergences: exact" in err, "and replay", "%s %s %s" % (status, out, err))


# By one call, in pieces, not at all, and open at the end.
READS = """
import os
a, b, c, d = (os.open(name, os.O_RDONLY) for name in "abcd")
print(len(os.read(os.open("e", os.O_RDONLY), 100)), len(os.read(b, 3)), len(os.read(b, 100)))
os.close(b)
os.close(c)
os._exit(0)
"""


def hashes(tap, place):
    trace, here = os.path.join(place, "hashes.srec"), os.path.join(place, "hashes")
    os.makedirs(here)
    for name in "abcde":
        write_old(os.path.join(here, name), "the same")
    r = subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, "--", "/usr/bin/python3", "-uc", READS], cwd=here,
                       capture_output=True, text=True)
    lines = [json.loads(line) for line in read(os.path.join(trace, "rank-0", "files.jsonl")).splitlines()]
    found = {line["path"]: line["xxh3"] for line in lines if line.get("path", "").startswith(os.path.realpath(here)) and "xxh3" in line}
    tap.ok(r.stdout == "8 3 5\n" and len(found) == 5 and len(set(found.values())) == 1, "each small file has its hash, however it is read",
           "%s %s" % (r, found))


# A file that nobody may read or write when it is made; root may anyway.
HIDES = """
import os
os.umask(0o777)
fd = os.open('hidden', os.O_CREAT | os.O_RDWR, 0o600)
os.fchmod(fd, 0o600)
os.write(fd, b'text')
print(open('hidden').read())
"""


def own_umask(tap, place):
    trace, here = os.path.join(place, "umask.srec"), os.path.join(place, "umask")
    os.makedirs(here)
    r = subprocess.run([SREPLAY, "record", "--from-start", "-o", trace, "--", "/usr/bin/python3", "-c", HIDES], cwd=here,
                       capture_output=True, text=True)
    status, out, err = replay(trace)
    tap.ok((r.returncode, r.stdout) == (0, "text\n") and (status, out) == (0, r.stdout) and "0 divergences: exact" in err,
           "a file that the program's umask hides replays", "%s %s" % (r, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as place:
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        subprocess.run([os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd"), "--daemonize", "--idle-exit", "30",
                        "--socket", os.environ["SREPLAY_SOCKET"]], check=True)
        changed_inputs(tap, place)
        kept_inputs(tap, place)
        small_files(tap, place)
        replaced_files(tap, place)
        meeting_place(tap, place)
        ranks_share(tap, place)
        paths(tap, place)
        own_umask(tap, place)
        hashes(tap, place)
    r = another_user_can("env", "-u", "SREPLAY_SOCKET", "/usr/bin/python3", os.path.realpath(__file__))
    if r:
        tap.ok(r.returncode == 0 and r.stdout.count("\nok ") > 10, "all the same without root's rights", r.stdout + r.stderr)
    tap.finish()


if __name__ == "__main__":
    main()
