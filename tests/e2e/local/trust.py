#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a replay runs: this user's own recordings as they are, traces of others and copies in a sandbox.

    trust.py [CASE...]

Needs no RDMA.
"""

import ctypes
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, edit_process, run  # noqa: E402
from strangers import PROGRAMS, problem  # noqa: E402,F401

ROOT = os.path.realpath(BUILD)
APPS = os.path.join(ROOT, "tests", "programs")
CONFINED = "runs in a sandbox"
CASES = []


def case(function):
    CASES.append(function)
    return function


def record(trace, *command, options=()):
    return run([SREPLAY, "record", "--from-start", *options, "-o", trace, "--", *command], 60)


def replay(trace, *options, **more):
    status, out, err = run([SREPLAY, "replay", *options, trace], 60, **more)
    return status, out.decode(errors="replace"), err


def is_own(answer):
    return answer[0] == 0 and CONFINED not in answer[2] and ": exact" in answer[2]


def is_confined(answer):
    return answer[0] == 0 and answer[2].count(CONFINED) == 1 and ": exact" in answer[2]


@case
def seals(tap, place):
    trace, moved, copied = (os.path.join(place, n + ".srec") for n in ("own", "moved", "copied"))
    record(trace, "date")
    tap.ok(is_own(replay(trace)), "one's own recording is replayed as it is", replay(trace))
    os.rename(trace, moved)
    tap.ok(is_own(replay(moved)), "... under another name too", replay(moved))
    shutil.copytree(moved, copied)
    tap.ok(is_confined(replay(copied)), "a copy runs in a sandbox, which is said", replay(copied))
    tap.ok(is_own(replay(copied, "--no-sandbox")), "... and with --no-sandbox without", replay(copied, "--no-sandbox"))
    collected = os.path.join(place, "all.srec")
    run([SREPLAY, "collect", "-o", collected, moved], 60)
    tap.ok(is_own(replay(collected)), "what one collects of one's own recordings is one's own", replay(collected))
    run([SREPLAY, "collect", "-o", collected + "2", copied], 60)
    tap.ok(is_confined(replay(collected + "2")), "what one collects of others' is not", replay(collected + "2"))
    elsewhere = os.path.join(place, "home")
    os.mkdir(elsewhere)
    answer = replay(moved, env=dict(os.environ, HOME=elsewhere))
    tap.ok(is_confined(answer) and not os.listdir(elsewhere), "with another user's key it is not one's own", answer)
    seal = os.path.join(moved, "rank-0", "seal")
    with open(seal, "rb") as f:
        right = f.read()
    for what, wrong in (("an empty", b""), ("a wrong", bytes(32)), ("a long", right + b"x" * 100)):
        with open(seal, "wb") as f:
            f.write(wrong)
        answer = replay(moved)
        tap.ok(is_own(answer) if wrong.startswith(right) else is_confined(answer), "%s seal" % what, answer)
    with open(seal, "wb") as f:
        f.write(right)
    edit_process(moved, lambda p: p["environment"].append("LATER=1"))
    answer = replay(moved)
    tap.ok(CONFINED in answer[2], "nor is one whose process.json was changed", answer)
    key = os.path.join(os.environ["HOME"], ".local", "state", "sreplay", "seal.key")
    os.chmod(key, 0o644)
    other = os.path.join(place, "open.srec")
    status, _, err = record(other, "date")
    tap.ok(status == 0 and CONFINED in replay(other)[2], "a key that others may read seals nothing", err)
    os.chmod(key, 0o600)


ATTACKS = """
import ctypes, fcntl, os, signal, socket, subprocess, sys, termios
place, port, victim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *a):
    if libc.syscall(number, *a) < 0: raise OSError(ctypes.get_errno(), "")
def tcp():
    s = socket.socket(); s.settimeout(3); s.connect(("127.0.0.1", port)); s.sendall(b"hello")
def unix():
    s = socket.socket(socket.AF_UNIX); s.connect(place + "/listener")
attacks = dict(
    make=lambda: open(place + "/made", "w").close(),
    write=lambda: open(place + "/file", "r+").write("evil"),
    truncate=lambda: os.truncate(place + "/file", 0),
    open_truncate=lambda: os.open(place + "/file", os.O_RDONLY | os.O_TRUNC),
    append=lambda: open(place + "/file", "a").write("evil"),
    remove=lambda: os.remove(place + "/file"),
    rename=lambda: os.rename(place + "/file", place + "/other"),
    link=lambda: os.link(place + "/file", place + "/linked"),
    symlink=lambda: os.symlink("x", place + "/symlink"),
    mkdir=lambda: os.mkdir(place + "/dir"),
    fifo=lambda: os.mkfifo(place + "/fifo"),
    chmod=lambda: os.chmod(place + "/file", 0o777),
    utime=lambda: os.utime(place + "/file", (1, 1)),
    xattr=lambda: os.setxattr(place + "/file", "user.x", b"1"),
    chown=lambda: os.chown(place + "/file", 1, 1),
    tcp=tcp, unix=unix, udp=lambda: socket.socket(type=socket.SOCK_DGRAM),
    raw=lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    netlink=lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    kill=lambda: os.kill(victim, signal.SIGKILL),
    group=lambda: os.kill(0, signal.SIGUSR1),
    queue=lambda: call(129, victim, 9, b"\\0" * 128),
    pidfd=lambda: signal.pidfd_send_signal(os.pidfd_open(victim), 9),
    ptrace=lambda: call(101, 16, victim, 0, 0),
    memory=lambda: open("/proc/%d/mem" % victim, "r+b"),
    limits=lambda: call(302, victim, 7, ctypes.create_string_buffer(16), 0),
    mount=lambda: call(165, b"none", (place + "/dir0").encode(), b"tmpfs", 0, 0),
    unshare=lambda: call(272, 0x10000000),
    io_uring=lambda: call(425, 4, ctypes.create_string_buffer(200)),
    shared=lambda: call(29, 0x5eed, 4096, 0o1600),
    queue_of_messages=lambda: call(68, 0x5eed, 0o1600),
    keys=lambda: call(250, 0, -4, 1),
    typing=lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"),
    bpf=lambda: call(321, 0, 0, 0), perf=lambda: call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0),
    in_a_child=lambda: subprocess.run(["touch", place + "/by_child"], check=True, stderr=subprocess.DEVNULL),
)
for name, attack in attacks.items():
    if sys.argv[4:] and name not in sys.argv[4:]:
        continue
    try:
        attack()
        print(name, "done", flush=True)
    except Exception as e:
        print(name, "refused", flush=True)
open("/dev/null", "w").write("this may be")
print("read", open(place + "/file").read(), len(os.listdir("/")) > 3)
"""


def hostile(trace, place, port, victim):
    """A trace that runs Python with this script, and without sreplay's library in it."""
    def change(process):
        program = "/usr/bin/python3"
        process.update(executable=program, arguments=[program, "-c", ATTACKS, place, str(port), str(victim)],
                       environment=["PATH=/usr/bin:/bin"], objects=[], directory="/")
        process["extra"]["executed_as"] = {"hex": program.encode().hex()}
        process["extra"].pop("libraries_below", None)
    edit_process(trace, change)


@case
def attacks(tap, place):
    trace = os.path.join(place, "t.srec")
    record(trace, "date")
    target = os.path.join(place, "target")
    os.makedirs(os.path.join(target, "dir0"))
    with open(os.path.join(target, "file"), "w") as f:
        f.write("content")
    os.chmod(os.path.join(target, "file"), 0o640)
    listener, unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    unix.bind(os.path.join(target, "listener"))
    unix.listen()
    victim = subprocess.Popen(["sleep", "100"])
    try:
        before = sorted(os.listdir(target)), os.stat(os.path.join(target, "file"))
        copied = os.path.join(place, "c.srec")
        shutil.copytree(trace, copied)
        hostile(copied, target, listener.getsockname()[1], victim.pid)
        for how, options in (("", []), ("under strace ", ["--exec", "strace -f -o " + os.path.join(place, "calls")])):
            status, out, err = replay(copied, *options, "--timeout", "20")
            after = sorted(os.listdir(target)), os.stat(os.path.join(target, "file"))
            same = before[0] == after[0] and all(getattr(before[1], n) == getattr(after[1], n) for n in ("st_mode", "st_uid", "st_size", "st_mtime", "st_nlink"))
            # Permissions of a test in a container may refuse some without a sandbox: none may be done.
            tap.ok(CONFINED in err and "make refused" in out and " done" not in out, "%snothing that a stranger's program tries is done" % how,
                   "\n".join(line for line in out.splitlines() if "refused" not in line) + err)
            tap.ok(same and victim.poll() is None, "... and nothing has changed", "%s\n%s %s" % (before, after, victim.poll()))
            tap.ok("read content True" in out, "... but it may read, and write to /dev/null", out + err)
        # Not all: they would succeed.
        edit_process(copied, lambda p: p["arguments"].extend(["make", "kill", "tcp"]))
        status, out, err = replay(copied, "--no-sandbox", "--timeout", "20")
        tap.ok("make done" in out and "kill done" in out and "tcp done" in out, "without the sandbox these attacks succeed", out + err)
    finally:
        victim.kill()
        victim.wait()


@case
def libraries(tap, place):
    """LD_PRELOAD and LD_AUDIT bring files that were recorded, or none."""
    trace = os.path.join(place, "t.srec")
    record(trace, "date")
    evil = os.path.join(place, "evil.so")
    shutil.copy(os.path.realpath("/lib/x86_64-linux-gnu/libz.so.1"), evil)
    for variable in ("LD_PRELOAD", "LD_AUDIT"):
        copied = os.path.join(place, variable + ".srec")
        shutil.copytree(trace, copied)

        def change(process):
            old = [e for e in process["environment"] if e.startswith(variable + "=")]
            process["environment"] = [e for e in process["environment"] if e not in old] + \
                [(old[0] + ":" if old else variable + "=") + evil]
        edit_process(copied, change)
        for options in ([], ["--no-sandbox"]):
            status, out, err = replay(copied, *options)
            tap.ok(status == 125 and not out and evil in err and variable in err,
                   "%s with another library than recorded is refused %s" % (variable, " ".join(options)), "%s\n%s" % (status, err))
    own = os.path.join(place, "own.srec")
    run([SREPLAY, "record", "--from-start", "-o", own, "--", "date"], 60, env=dict(os.environ, LD_PRELOAD="libz.so.1"))
    answer = replay(own)
    tap.ok(is_own(answer), "a library that was preloaded in the recording is one", answer)


def without_landlock():
    """A filter by which landlock_create_ruleset does not exist."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("<HBBI", *f) for f in ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)))
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("<HxxxxxxQ", 4, ctypes.addressof(buffer))
    libc.prctl(38, 1, 0, 0, 0)
    if libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


@case
def no_sandbox(tap, place):
    trace, copied = os.path.join(place, "t.srec"), os.path.join(place, "c.srec")
    record(trace, "date")
    shutil.copytree(trace, copied)
    answer = replay(copied, preexec_fn=without_landlock)
    tap.ok(answer[0] == 125 and not answer[1] and "--no-sandbox" in answer[2], "where no sandbox can be set up, a copy is refused", answer)
    answer = replay(copied, "--no-sandbox", preexec_fn=without_landlock)
    tap.ok(is_own(answer), "... and runs with --no-sandbox", answer)
    answer = replay(trace, preexec_fn=without_landlock)
    tap.ok(is_own(answer), "... and one's own recording without", answer)
    answer = replay(copied, "--live-files")
    tap.ok(answer[0] == 125 and "--no-sandbox" in answer[2], "--live-files of a copy wants --no-sandbox as well", answer)


@case
def programs(tap, place):
    """A sandbox disturbs no replay."""
    mine = {name: [os.path.join(APPS, name), *arguments] for name, arguments in
            (("environment", ["5"]), ("threads", ["all"]), ("signals", ["random", "3"]), ("children", []))}
    chosen = {n: PROGRAMS[n] for n in ("ls", "python", "python-processes", "python-sockets", "sqlite", "perl", "bash", "tar", "sort")}
    for name, command in {**mine, **chosen}.items():
        trace, copied = (os.path.join(place, "%s%s.srec" % (name, n)) for n in ("", "-copy"))
        status, out, err = record(trace, *command)
        first = replay(trace)
        shutil.copytree(trace, copied)
        second = replay(copied)
        tap.ok(first[:2] == second[:2] and (": exact" in second[2]) == (": exact" in first[2]) and CONFINED in second[2],
               "%s replays in a sandbox as without" % name, "%s\n%s\n%s" % (first[0], second[0], second[2]))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as place:
        place = os.path.realpath(place)
        os.environ["HOME"] = os.path.join(place, "home")
        os.mkdir(os.environ["HOME"])
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        for function in CASES:
            if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
                continue
            with tempfile.TemporaryDirectory(dir=place) as own:
                function(tap, own)
    tap.finish()


if __name__ == "__main__":
    main()
