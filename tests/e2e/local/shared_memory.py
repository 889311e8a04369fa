#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Two recorded processes talk through shared memory by plain loads and stores; each is replayed alone, exactly.  Replayed
together, each byte has the rank that stored it, and where in its program.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, FULL, SREPLAY, Tap, replay, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "shared_memory")
WRITTEN = os.path.join(os.path.realpath(BUILD), "tests", "programs", "written_memory")
SILENT = os.path.join(os.path.realpath(BUILD), "tests", "programs", "silent_writer")
ALARMED = os.path.join(os.path.realpath(BUILD), "tests", "programs", "alarmed")
ROUNDS = "300"

# A segment that is made by a key and removed at once is the program's own until a fork; one without a key may be passed on.
OWN_SEGMENT = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
def segment(key):
    made = libc.shmget(key, 8192, 0o3600)
    at = libc.shmat(made, None, 0)
    assert not libc.shmctl(made, 0, None)
    return (ctypes.c_uint64 * 1024).from_address(at)
own, passed_on = segment(os.getpid() + 0x5e000000), segment(0)
for i in range(3000):
    own[i % 1024] += i
passed_on[0] = sum(own)
if not os.fork():
    own[5] = 99
    passed_on[1] = 98
    os._exit(0)
os.wait()
print(own[5], list(passed_on[:3]), sum(own))
"""

# More than 65536 accesses, and then a mapping with no other call in front of it.
MANY = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
def shared(fd):
    return (ctypes.c_uint64 * 512).from_address(libc.mmap(None, ctypes.c_size_t(4096), 3, 1, fd, ctypes.c_long(0)))
fds = [os.memfd_create("many") for i in range(2)]
for fd in fds:
    os.ftruncate(fd, 4096)
first = shared(fds[0])
for i in range(70000):
    first[0] += 1
second = shared(fds[1])
second[0] = first[0] + 1
print(first[0], second[0])
"""

# Nobody has stored there before, but a child does later.
EMPTY = """
import ctypes, mmap, os
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
fd = os.memfd_create("empty")
os.ftruncate(fd, 64 << 12)
mapped = mmap.mmap(fd, 64 << 12)
segment = (ctypes.c_char * (64 << 12)).from_address(libc.shmat(libc.shmget(0, 64 << 12, 0o1600), None, 0))
for page in range(64):
    mapped[(page << 12) + 7] = segment[(page << 12) + 7] = page
if not os.fork():
    mapped[9] = segment[(63 << 12) + 8] = 77
    os._exit(0)
os.wait()
print(sum(mapped[:]), sum(segment.raw), mapped[9])
"""


def remove(how, name):
    if how != "system-v":
        os.unlink("/dev/shm/" + name)
    else:
        subprocess.run(["ipcrm", "-M", name], check=True)


def check(tap, directory, how, name, explains=True):
    trace = os.path.join(directory, how + ".srec")
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "-o", trace, "--rank", str(rank), "--", PROGRAM, how, name,
                               str(rank), ROUNDS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
    said = [rank.communicate(timeout=100) for rank in ranks]
    remove(how, name)
    tap.ok(all(rank.returncode == 0 for rank in ranks) and all(len(out) > 5 for out, _ in said),
           "%s: both run" % how, str(said))
    for rank in range(2):
        status, out, err = replay(trace, rank)
        tap.ok(status == 0 and out == said[rank][0] and "0 divergences: exact" in err,
               "%s: rank %d replays exactly, without the other and without the memory" % (how, rank),
               "%s\n%s\n%s\n%s" % (status, said[rank][0], out, err))
    if not explains:
        return
    status, out, err = run([SREPLAY, "replay", "--transport", "shm", "--group", "0", trace], 100)
    tap.ok(status == 0 and "bytes entered through memory shared with other processes" in err and "the group" in err,
           "%s: of one alone it is said that nobody of the group stored what came through the memory" % how, err)
    status, out, err = run([SREPLAY, "replay", trace], 100)
    entered = [int(n) for n in re.findall(r"(\d+) bytes entered from the group, 0 from outside", err)]
    tap.ok(status == 0 and "all 2 ranks ended as recorded" in err and "through memory shared" not in err and
           len(entered) == 2 and min(entered) > 200 * int(ROUNDS), "%s: both together replay exactly, and who stored "
           "each byte is found" % how, "%s\n%s" % (status, err))
    tap.ok(how in ("copied", "futex", "late") or all(is_explained(trace, rank) for rank in range(2)),
           "%s: by the other rank, in the same round" % how, run([SREPLAY, "explain", trace, "0:100"], 100)[1].decode())


def silent_writer(tap, directory):
    """Who says that it is about to write, and is stopped then, holds nobody up for long."""
    name, trace = "sreplay-silent-%d" % os.getpid(), os.path.join(directory, "silent.srec")
    p = subprocess.run([SREPLAY, "record", "--from-start", "--children=off", "-o", trace, "--", SILENT, name], capture_output=True, timeout=60)
    remove("posix", name)
    tap.ok(p.returncode == 0 and p.stdout == b"announced: 0, went on\n", "a writer that announced, and writes nothing, is given up", str(p))
    status, out, err = replay(trace, 0)
    tap.ok(status == 0 and out == p.stdout and "exact" in err, "... and the replay is exact", "%s %s %s" % (status, out, err))
    shutil.rmtree(trace)


def written(tap, directory, how):
    """What each writes into the other's private memory by process_vm_writev."""
    name, trace = "sreplay-%s-%d" % (how, os.getpid()), os.path.join(directory, how + ".srec")
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "-o", trace, "--rank", str(rank), "--", WRITTEN, how, name,
                               str(rank), "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
    said = [rank.communicate(timeout=100) for rank in ranks]
    remove("posix", name)
    tap.ok(all(rank.returncode == 0 for rank in ranks) and all(len(out) > 5 for out, _ in said), "written, %s: both run" % how, str(said))
    for rank in range(2):
        status, out, err = replay(trace, rank)
        tap.ok(status == 0 and out == said[rank][0] and "0 divergences: exact" in err,
               "written, %s: rank %d replays exactly, with what the other wrote into its memory" % (how, rank),
               "%s\n%s\n%s\n%s" % (status, said[rank][0], out, err))
    status, out, err = run([SREPLAY, "replay", trace], 100)
    tap.ok(status == 0 and "all 2 ranks ended as recorded" in err and "nobody" not in err, "written, %s: so do both together" % how,
           "%s\n%s" % (status, err))
    shutil.rmtree(trace)


def record_ranks(trace, how, name, rounds, options):
    """The status of each of the two, and what it printed."""
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "-q", *options, "-o", trace, "--rank", str(rank), "--", PROGRAM,
                               how, name, str(rank), rounds], stdout=subprocess.PIPE) for rank in range(2)]
    said = [rank.communicate(timeout=100)[0] for rank in ranks]
    remove(how, name)
    return [rank.returncode for rank in ranks], said


def spread(tap, directory):
    """A tick protects two pages while a loop polls four words there: a replay comes to the loop at another place."""
    ticks, bad = [], []
    for n, options in enumerate(([], ["--order"])):
        trace = os.path.join(directory, "spread-%d.srec" % n)
        ended, said = record_ranks(trace, "spread", "sreplay-spread-%d-%d" % (os.getpid(), n), "3", options)
        dumped = run([SREPLAY, "dump", "--rank", "0", trace], 100)[1].decode()
        ticks += re.findall(r"tick=- .*protected=\[\{0x\w+\} \{0x\w+\}\]", dumped)
        for again in range(3 if FULL else 1):
            status, out, err = replay(trace, 0)
            if ended != [0, 0] or len(said[0]) < 8 or status != 0 or out != said[0] or "0 divergences: exact" not in err:
                bad.append("%s %s %s %s\n%s" % (ended, said, status, out, err))
        status, out, err = run([SREPLAY, "replay", trace], 100)
        if status != 0 or "all 2 ranks ended as recorded" not in err:
            bad.append("together: %s\n%s" % (status, err))
    tap.ok(len(ticks) > 1, "ticks protect both pages that a loop polls (%d times)" % len(ticks), str(ticks))
    tap.ok(not bad, "... and each replay comes to them as the recording did", "%d replays do not:\n%s" % (len(bad), "\n".join(bad)))


def alone(tap, directory, source, name, has_run, counted, in_range):
    """Records a program of one process, and replays it; counted: a number that `info` gives."""
    trace = os.path.join(directory, "alone.srec")
    status, out, err = run([SREPLAY, "record", "--from-start", "-q", "-o", trace, "--", "/usr/bin/python3", "-c", source], 100)
    replayed, again, said = replay(trace, 0)
    found = re.search(counted, run([SREPLAY, "info", trace], 100)[1].decode())
    tap.ok(status == 0 and has_run(out) and found and in_range(int(found.group(1))), name, (status, out, err, found))
    tap.ok(replayed == 0 and again == out and "0 divergences: exact" in said, "... and it replays, also what a child stores there", (again, said))
    shutil.rmtree(trace)


def new_memory(tap, directory):
    alone(tap, directory, OWN_SEGMENT, "a segment that nobody else can have is no exposed memory before a fork",
          lambda out: out.startswith(b"99 ") and b" 98, 0]" in out, r"(\d+) faults", lambda n: n < 3000)
    alone(tap, directory, MANY, "a mapping comes right behind very many accesses to shared memory",
          lambda out: out == b"70000 70001\n", r"(\d+) faults", lambda n: n > 65536)
    alone(tap, directory, EMPTY, "of new shared memory only what others store is recorded",
          lambda out: out == b"2093 2093 77\n", r"values that peers wrote \((\d+) bytes\)", lambda n: 1 < n < 4096)


def unwatched(tap, directory):
    name, trace = "sreplay-unwatched-%d" % os.getpid(), os.path.join(directory, "unwatched.srec")
    ranks = [subprocess.Popen([SREPLAY, "record", "--from-start", "--exposed=off", "-o", trace, "--rank", str(rank), "--", PROGRAM,
                               "posix", name, str(rank), "3"], stdout=subprocess.DEVNULL) for rank in range(2)]
    ended = [rank.wait(100) for rank in ranks]
    remove("posix", name)
    status, out, err = run([SREPLAY, "replay", "--timeout", "1", "--rank", "1", trace], 100)
    tap.ok(ended == [0, 0] and "was not watched when it was recorded" in err, "a replay says that shared memory was not watched",
           "%s %s\n%s" % (ended, status, err))


def limited(tap, directory):
    """The shadow copy is a file of a size that the program's limit forbids: the signal for that ended the program."""
    limit = (1 << 26, 1 << 26)
    status, out, said = run([SREPLAY, "record", "--from-start", "-o", os.path.join(directory, "limited.srec"), "--", ALARMED, "value"],
                            100, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    tap.ok(status == 0 and out == b"14\n" and (not said or "cannot be watched" in said), "under a limit on file sizes it runs",
           "%s %s %s" % (status, out, said))


# Another process has made the memory, with its size, and removes its name: as MPI's ranks do with a window that they share.
WINDOW = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.unlink(sys.argv[1])
window = mmap.mmap(fd, 3 << 30)
window[2 << 30] += 7
print(len(window), window[0], window[2 << 30])
"""


def window(tap, directory):
    name = "/dev/shm/sreplay-window-%d" % os.getpid()
    trace = os.path.join(directory, "window.srec")
    with open(name, "w") as made:
        os.truncate(made.fileno(), 3 << 30)
    status, out, said = run([SREPLAY, "record", "--from-start", "-o", trace, "--", sys.executable, "-c", WINDOW, name], 60)
    replayed, again, err = replay(trace, 0)
    tap.ok((status, out, said, replayed, again) == (0, b"3221225472 0 7\n", "", 0, out) and "0 divergences: exact" in err,
           "a window of several GiB, which another process has made, needs not be there in the replay",
           "%s %s %s\n%s %s" % (status, out, said, replayed, err))


def alarmed(tap, directory, what):
    bad = []
    for n in range(3 if FULL else 1):
        trace = os.path.join(directory, "alarmed-%s-%d.srec" % (what, n))
        status, out, said = run([SREPLAY, "record", "--from-start", "-o", trace, "--", ALARMED, what], 20)
        replayed, again, err = replay(trace, 0)
        if (status, out, said, replayed, again) != (0, b"14\n", "", 0, out) or "0 divergences: exact" not in err:
            bad.append("%s %s %s\n%s %s" % (status, out, said, replayed, err))
    tap.ok(not bad, "a signal comes without a call near it (%s): its handler runs, also in the replay" % what, "\n".join(bad))


def is_explained(trace, rank):
    """A round is a call of each, unless they copy; they begin with a few calls more or less, and take turns."""
    status, out, _ = run([SREPLAY, "explain", trace, "%d:100" % rank], 100)
    stored = re.findall(r"stored by the CPU of rank %d after SN (\d+)" % (1 - rank), out.decode())
    return status == 0 and stored and all(abs(int(sn) - 100) <= 3 for sn in stored) and \
        len(set(map(int, stored))) <= 2 and "outside" not in out.decode()


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        check(tap, directory, "posix", "sreplay-test-%d" % os.getpid())
        check(tap, directory, "drawn", "sreplay-drawn-%d" % os.getpid())
        check(tap, directory, "late", "sreplay-late-%d" % os.getpid())
        check(tap, directory, "copied", "sreplay-copied-%d" % os.getpid())
        check(tap, directory, "system-v", "0x%x" % (0x53520000 + os.getpid() % 65536))
        check(tap, directory, "futex", "sreplay-futex-%d" % os.getpid())
        check(tap, directory, "locked", "sreplay-locked-%d" % os.getpid(), explains=False)
        for how in "told", "asleep", "beside", "alone":
            written(tap, directory, how)
        silent_writer(tap, directory)
        spread(tap, directory)
        new_memory(tap, directory)
        unwatched(tap, directory)
        limited(tap, directory)
        window(tap, directory)
        for what in "value", "protects", "locks", "holds":
            alarmed(tap, directory, what)
    tap.finish()


if __name__ == "__main__":
    main()
