#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How the shim gets into programs, and stays out of others: lookups, direct verbs, plain starts, inertness.

Native, with stand-ins for libibverbs and libmlx5; strace shows what a process does.
"""

import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, replay

ROOT = os.path.realpath(BUILD)
HERE = os.path.join(ROOT, "tests", "programs")
SHIM = os.path.join(ROOT, "shim", "libsreplay_verbs.so")
HOSTILE = os.path.join(ROOT, "tests", "programs", "hostile")
QUIET = os.path.join(HERE, "quiet")
LOOKUPS = [os.path.join(HERE, "lookups"), os.path.join(HERE, "lookups_module.so")]
WATCH = [os.path.join(HERE, "watch")]
DIRECT = [os.path.join(HERE, "direct")]
OLD = [os.path.join(HERE, "old_open")]
OLD_STAT = os.path.join(HERE, "old_stat")


class Place:
    """Where the traces of a test go, and the environment of its programs."""

    def __init__(self, directory):
        self.directory = directory
        self.environment = dict(os.environ, SREPLAY_SOCKET=os.path.join(directory, "logd.sock"),
                                LD_LIBRARY_PATH="%s:%s" % (os.path.join(ROOT, "tests", "lib", "softdev"), HERE))

    def trace(self, name):
        return os.path.join(self.directory, name + ".srec")

    def plain(self, trace, **more):
        return {**self.environment, "LD_PRELOAD": SHIM, "SREPLAY_TRACE": self.trace(trace), **more}

    def run(self, command, environment=None, **options):
        return subprocess.run(command, env=environment or self.environment, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL, **options)

    def record(self, name, command, *arguments, **more):
        return self.run([SREPLAY, "record", "-o", self.trace(name)] + list(arguments) + ["--"] + command,
                        dict(self.environment, **more))

    def calls(self, name):
        """The calls of a trace, in order."""
        out = self.run([SREPLAY, "dump", self.trace(name)]).stdout.decode()
        return re.findall(r"^ *\d+  (\w+)\(", out, re.M)

    def strace(self, command, environment, options=("-f", "-e", "trace=execve")):
        """The lines of a trace by strace, whose own environment has no preload."""
        log = os.path.join(self.directory, "strace")
        settings = ["-E%s=%s" % (k, environment[k]) for k in ("LD_PRELOAD", "LD_LIBRARY_PATH") if k in environment]
        mine = {k: v for k, v in environment.items() if k != "LD_PRELOAD"}
        r = self.run(["strace", "-o", log] + list(options) + settings + command, mine)
        with open(log) as f:
            return r, f.read().splitlines()


def lookups(tap, place):
    bare = place.run(LOOKUPS)
    recorded = place.record("lookups", LOOKUPS)
    tap.ok(bare.returncode == recorded.returncode == 3 and bare.stdout == recorded.stdout and not recorded.stderr
           and b"so does the program: no" in bare.stdout and b"the module finds its own by RTLD_DEFAULT: yes" in bare.stdout,
           "a program that looks functions up: as bare", "%s\n%s\n%s" % (bare.stdout, recorded.stdout, recorded.stderr))
    calls = place.calls("lookups")
    tap.ok({"ibv_open_device", "ibv_create_cq"} <= set(calls) and "poll_cq" in calls
           and calls.count("getpid") == 2, "what it looked up by dlsym and dlvsym is recorded", calls)
    outside = place.run(LOOKUPS, place.plain("lookups-outside", SREPLAY_GROUP="1"))
    tap.ok(outside.stdout == bare.stdout and not outside.stderr, "outside of the group: as bare", outside)


def fixed_address(tap, place):
    recorded = place.record("fixed_address", [os.path.join(HERE, "fixed_address")])
    status, out, err = replay(place.trace("fixed_address"), 0)
    tap.ok(recorded.returncode == status == 0 and recorded.stdout and out == recorded.stdout and "exact" in err,
           "where libibverbs frees what is known of the program's failed lookup: the program's heap is the same",
           "%s\n%s %s\n%s" % (recorded, status, out, err))


def watchers(tap, place):
    """As UCX watches munmap by code that it writes into libc."""
    bare = place.run(WATCH).stdout.decode().splitlines()
    recorded = place.record("watch", WATCH)
    lines = recorded.stdout.decode().splitlines()
    status, out, err = replay(place.trace("watch"), 0)
    tap.ok(bare[3:] == ["a completion queue: 1 mapped, 0 unmapped", "and back: 0 mapped, 1 unmapped", "found: 1"]
           and recorded.returncode == 3 and lines[1:3] == bare[1:3]
           and lines[3:] == ["a completion queue: 0 mapped, 0 unmapped", "and back: 0 mapped, 0 unmapped", "found: 1"],
           "who watches mmap and munmap sees the program's, and not those of the verbs library", "%s\n%s" % (bare, recorded))
    tap.ok(status == 3 and out == recorded.stdout and "exact" in err, "... and sees the same in a replay", (status, out, err))


def newer_verbs(tap, place):
    """Of a libibverbs that is newer than the recorder: they would give the program what no record tells of."""
    bare, recorded = place.run(DIRECT + ["newer"]), place.record("newer", DIRECT + ["newer"])
    words, known = recorded.stderr.decode(), b"FLUSH: known\n" in bare.stdout
    flush = b"FLUSH: known\n" if known else b"FLUSH: Operation not supported\n"
    tap.ok(b"ibv_alloc_dmah: made\n" + flush + b"message: 0\n" in bare.stdout
           and b"ibv_alloc_dmah: Operation not supported\n" + flush in recorded.stdout
           and "ibv_alloc_dmah is refused: this recorder does not know it" in words
           and (known or "a queue pair with FLUSH is refused" in words), "newer verbs are refused, and named", (bare, recorded))
    status, out, err = replay(place.trace("newer"), 0)
    tap.ok(status == 3 and out == recorded.stdout and "exact" in err, "... and replays exactly", (status, out, err))


def direct_verbs(tap, place):
    bare = place.run(DIRECT)
    refused = place.record("refused", DIRECT)
    words = refused.stderr.decode()
    tap.ok(bare.returncode == 3 and b"supported: 1, by lookup 1\nquery: 0\ninit: 0\nmessage: 0\n" == bare.stdout,
           "a program with direct verbs, bare", bare)
    tap.ok(refused.returncode == 3 and refused.stdout == b"supported: 0, by lookup 0\n"
           b"mlx5dv_open_device: Operation not supported\nquery: 95\ninit: 95\n"
           b"mlx5dv_create_qp: Operation not supported\nmessage: 0\n", "recorded: each fails in its own way", refused)
    tap.ok(words.count("\n") == 5 and "UCX_TLS=rc_verbs,ud_verbs" in words and "--allow-direct" in words,
           "... a line for each names the way out", words)
    other = place.record("other", DIRECT, DIRECT_STANDIN="other").stderr.decode()
    tap.ok("mlx5dv_init_obj is refused" in other and "mlx5dv_is_supported" not in other and "mlx5dv_query_device" not in other,
           "... none for questions to which a device of another vendor says no by itself", other)
    status, out, err = replay(place.trace("refused"), 0)
    tap.ok(status == 3 and out == refused.stdout and "exact" in err, "... and replays exactly", (status, out, err))
    for name, r in (("allowed", place.record("allowed", DIRECT, "--allow-direct")),
                    ("allowed-plain", place.run(DIRECT, place.plain("allowed-plain", SREPLAY_ALLOW_DIRECT="1")))):
        info = place.run([SREPLAY, "info", place.trace(name)]).stdout.decode()
        tap.ok(r.returncode == 3 and r.stdout == bare.stdout and not r.stderr and "direct verbs were let through" in info
               and "mlx5dv_create_qp" in place.calls(name) and "post_send" in place.calls(name),
               "%s: as bare, and the trace says so" % name, "%s\n%s" % (r, info))
    status, _, err = replay(place.trace("allowed"), 0)
    tap.ok(status == 123 and "mlx5dv_is_supported" in err, "... a replay stops at the first", (status, err))
    newer_verbs(tap, place)
    outside = place.run(DIRECT, place.plain("direct-outside", SREPLAY_GROUP="1"))
    tap.ok(outside.stdout == bare.stdout and not outside.stderr, "outside of the group: as bare", outside)


def interposed(tap, place):
    """Another preloaded library has functions of the names of ours."""
    command, elsewhere = ["cat", "/etc/hostname"], os.path.join(HERE, "elsewhere.so")
    bare = place.run(command, dict(place.environment, LD_PRELOAD=elsewhere))
    recorded = place.record("elsewhere", command, "--from-start", LD_PRELOAD=elsewhere)
    tap.ok(bare.stdout == recorded.stdout == b"Linux\n" and not recorded.stderr, "another library's open() is used, as bare", (bare, recorded))
    status, out, err = replay(place.trace("elsewhere"), 0)
    tap.ok(status == 0 and out == bare.stdout and "exact" in err, "... and replays exactly", (status, out, err))


def old_versions(tap, place):
    """The other half, a libibverbs that lets the shim in, is in third_party.py."""
    recorded = place.record("old", OLD)
    tap.ok(recorded.returncode == 3 and recorded.stdout == b"opened: 1\n" and recorded.stderr.count(b"\n") == 1
           and b"older than IBVERBS_1.1" in recorded.stderr,
           "built for older verbs than the library lets one see: says so, once", recorded)
    outside = place.run(OLD, place.plain("old-outside", SREPLAY_GROUP="1"))
    tap.ok(outside.stdout == b"opened: 1\n" and not outside.stderr, "outside of the group: silent", outside)


def old_libc(tap, place):
    """What programs call that were built with glibc before 2.33; the file has changed when it is replayed."""
    path, fifo = os.path.join(place.directory, "stated"), os.path.join(place.directory, "fifo")
    with open(path, "w") as file:
        file.write("recorded")
    recorded = place.record("old-stat", [OLD_STAT, path, fifo], "--from-start")
    made = os.path.exists(fifo)
    if made:
        os.remove(fifo)
    with open(path, "a") as file:
        file.write(" and changed since")
    status, out, err = replay(place.trace("old-stat"), 0)
    calls = place.calls("old-stat")
    tap.ok(recorded.returncode == 0 and made and recorded.stdout.count(b": 0 inode") == 4
           and all(name in calls for name in ("stat", "lstat", "fstat", "newfstatat", "mknodat")),
           "built for glibc before 2.33: its stat and mknod are recorded", recorded)
    tap.ok(status == 0 and out == recorded.stdout and not os.path.exists(fifo), "... and replayed", (out, err))


def sanitizers(tap, place):
    """Their runtimes and the recorder are in each other's way: they were killed before they had begun."""
    for sanitizer in ("address", "thread"):
        command = [os.path.join(HERE, "with_" + sanitizer), "argument"]
        refused, unrecorded = place.record(sanitizer, command), place.record(sanitizer, command, "--or-run")
        plain, outside = place.run(command, place.plain(sanitizer)), place.run(command, place.plain(sanitizer, SREPLAY_TRACE=""))
        why = b"is compiled with -fsanitize=" + sanitizer.encode()
        tap.ok(refused.returncode == 125 and not refused.stdout and why in refused.stderr and b"--or-run" in refused.stderr,
               "compiled with -fsanitize=%s: says so, and is not run" % sanitizer, refused)
        tap.ok(all(r.returncode == 3 and r.stdout == b"1 device, 1 argument\n" and why in r.stderr for r in (unrecorded, plain)),
               "... or runs unrecorded, as it is to do", (unrecorded, plain))
        tap.ok(outside.returncode == 3 and outside.stdout == plain.stdout and not outside.stderr, "... silently if nothing is asked for", outside)


def executions(lines):
    return [line for line in lines if "execve(" in line and " = 0" in line]


def randomised(place):
    return len({place.run([HOSTILE, "addresses"]).stdout for _ in range(4)}) > 1


def wrapped(tap, place):
    """A script that gives the program a preloaded library of its own."""
    for how, script in (("exec", "LD_PRELOAD=libm.so.6 exec %s"), ("fork", "LD_PRELOAD=libm.so.6 %s; exit $?"),
                        ("env", "exec env LD_PRELOAD=libm.so.6 %s")):
        recorded = place.record("wrapped-" + how, ["sh", "-c", script % " ".join(WATCH)])
        status, out, err = replay(place.trace("wrapped-" + how), 0)
        tap.ok(recorded.returncode == status == 3 and out == recorded.stdout and "exact" in err,
               "a wrapper script sets LD_PRELOAD (%s): recorded and replayed all the same" % how, (recorded, status, out, err))


def chooses_addresses(place):
    """May a process ask for addresses that are not random?  In a container with the usual filter, none may."""
    return place.run(["setarch", "-R", "true"]).returncode == 0


def executed_again(tap, place, lines, text, detail=""):
    if chooses_addresses(place):
        return tap.ok(len(executions(lines)) == 2, text, "%s\n%s" % (detail, lines))
    return tap.ok(len(executions(lines)) == 1, text + " # SKIP nothing may choose its addresses here: not executed again", lines)


def plain_start(tap, place):
    if not randomised(place):
        tap.ok(True, "plain start # SKIP addresses are not randomised here")
        return
    see = place.run([SREPLAY, "record", "-o", place.trace("daemon"), "--", HOSTILE, "duplicates"])    # leaves a daemon
    tap.ok(see.returncode == 3, "there is a daemon", see)
    outputs = set()
    for turn in range(3):
        name = "plain-%d" % turn
        r = place.run(["env", "-u", "X"] + [HOSTILE, "addresses"], place.plain(name))
        outputs.add(r.stdout)
        status, out, err = replay(place.trace(name), 0)
        tap.ok(r.returncode == status == 3 and not r.stderr and r.stdout == out and "exact" in err,
               "a plain start is recorded, and replays exactly", "%s\n%s" % (r, err))
    if chooses_addresses(place):
        tap.ok(len(outputs) == 1, "with the same addresses each time", outputs)
        _, lines = place.strace(["setarch", "-R", HOSTILE, "addresses"], place.plain("setarch"))
        tap.ok(len(executions(lines)) == 2, "not again where there is no randomisation", lines)
    else:
        tap.ok(len(outputs) == 3, "with other addresses each time # SKIP nothing may choose its addresses here", outputs)
    _, lines = place.strace([HOSTILE, "addresses"], place.plain("strace"))
    executed_again(tap, place, lines, "it is executed once more, under a tracer too")
    for name, more in (("outside of the group", {"SREPLAY_GROUP": "1"}),
                       ("without a daemon", {"SREPLAY_SOCKET": os.path.join(place.directory, "nobody")})):
        r, lines = place.strace([HOSTILE, "addresses"], place.plain("no", **more))
        said = [line for line in r.stderr.decode().splitlines() if line.startswith("sreplay: ")]
        tap.ok(len(executions(lines)) == 1 and r.returncode == 3 and len(said) == ("daemon" in name),
               "%s: executed once" % name, "%s\n%s" % (r.stderr, lines))
    _, lines = place.strace(["/bin/true"], place.plain("no"))
    tap.ok(len(executions(lines)) == 1, "a program without libibverbs: executed once", lines)


def plain_start_oddities(tap, place):
    if not randomised(place):
        return
    by_name = place.run(["bash", "-c", "exec -a 'other name' %s addresses" % HOSTILE], place.plain("argv0"))
    status, out, err = replay(place.trace("argv0"), 0)
    command = place.run([SREPLAY, "info", place.trace("argv0")]).stdout.decode()
    tap.ok(by_name.returncode == status == 3 and out == by_name.stdout and "command: other name addresses" in command,
           "with another name than its file's", "%s\n%s\n%s" % (by_name, err, command))

    script = os.path.join(place.directory, "script")
    with open(script, "w") as f:
        f.write("#!%s addresses\n" % HOSTILE)
    os.chmod(script, 0o755)
    r, lines = place.strace([script, "more"], place.plain("script"))
    executed_again(tap, place, lines if r.returncode == 3 else [], "as the interpreter of a script", r)
    info = place.run([SREPLAY, "info", place.trace("script")]).stdout.decode()
    tap.ok("command: %s addresses %s more" % (HOSTILE, script) in info, "... with its arguments", info)

    loader = re.search(r"interpreter: (\S+?)\]", place.run(["readelf", "-l", HOSTILE]).stdout.decode()).group(1)
    r, lines = place.strace([loader, HOSTILE, "addresses"], place.plain("loader"))
    executed_again(tap, place, lines if r.returncode == 3 else [], "by the dynamic linker", r)

    gone = os.path.join(place.directory, "gone")
    r = place.run(["bash", "-c", "cp %s %s; exec 9<%s; rm %s; exec -a gone /proc/self/fd/9 addresses"
                   % (HOSTILE, gone, gone, gone)], place.plain("gone"))
    tap.ok(r.returncode == 3, "from a file that is gone", r)

    if os.geteuid() == 0:
        setuid = os.path.join(place.directory, "setuid")
        shutil.copy(HOSTILE, setuid)
        os.chmod(setuid, 0o4755)
        # not under strace, where the kernel ignores the bit
        r = place.run([setuid, "addresses"], place.plain("setuid"))
        status, out, err = replay(place.trace("setuid"), 0)
        tap.ok(r.returncode == status == 3 and not r.stderr and out == r.stdout and "exact" in err,
               "a set-user-ID program, whose flag each execve takes back: no loop, and exact", "%s\n%s" % (r, err))
    if os.uname().machine != "x86_64":
        return
    r = place.run([HOSTILE, "addresses"], place.plain("seccomp"), preexec_fn=refuse_personality)
    tap.ok(r.returncode == 3 and not r.stderr, "where a container's filter refuses the call: recorded, with random addresses", r)
    for where, prepare in (("", None), (" there", refuse_personality)):
        again = place.run([SREPLAY, "replay", place.trace("seccomp")], preexec_fn=prepare)
        tap.ok(again.returncode == 3 and again.stdout == r.stdout and b"exact" in again.stderr,
               "... and replayed%s at the recorded addresses" % where, "%s\n%s" % (r, again))
    if shutil.which("gdb"):
        again = place.run([SREPLAY, "replay", "--gdb", "0", place.trace("seccomp"), "--", "-batch", "-ex", "break main", "-ex", "continue",
                           "-ex", "continue"], preexec_fn=refuse_personality)
        tap.ok(again.returncode == 3 and r.stdout in again.stdout and b"Breakpoint 1, main" in again.stdout,
               "... and under gdb", again)


def moved_library(tap, place):
    """As if the recording's kernel had put libc elsewhere: some align large files to large pages."""
    trace = place.trace("moved")
    place.run([SREPLAY, "record", "-q", "-o", trace, "--", HOSTILE, "addresses"])
    path = os.path.join(trace, "rank-0", "process.json")
    with open(path) as f:
        process = json.load(f)
    libc = next(o for o in process["objects"] if "libc.so" in o["path"])
    for r in libc["ranges"]:
        r["start"] -= 1 << 28
        r["end"] -= 1 << 28
    with open(path, "w") as f:
        json.dump(process, f)
    r = place.run([SREPLAY, "replay", "--no-sandbox", trace])
    tap.ok(r.returncode == 124 and b"write writes other bytes" in r.stderr, "a library is put where the trace says", r)


def aligned_library(tap, place):
    """ld.so maps room for a library that is aligned by more than a page (OpenBLAS's by 32 KiB), and then the library into it."""
    source, library, program = (os.path.join(place.directory, n) for n in ("aligned.c", "libaligned.so", "aligned"))
    with open(source, "w") as f:
        f.write("#include <stdio.h>\n#ifdef LIBRARY\nchar zeros[1 << 20];\nint aligned(void) { return puts(\"in it\"); }\n#else\nint aligned(void);\n"
                "int main(void) { printf(\"%p \", (void *)aligned); return aligned() < 0; }\n#endif\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-DLIBRARY", "-Wl,-z,max-page-size=0x8000", "-o", library, source], check=True)
    subprocess.run(["cc", "-fno-plt", "-fPIE", "-pie", "-o", program, source, library, "-Wl,-rpath," + place.directory], check=True)
    bad = []
    for n in range(3):
        r = place.run([SREPLAY, "record", "--from-start", "-q", "-o", place.trace("aligned-%d" % n), "--", program])
        status, out, err = replay(place.trace("aligned-%d" % n), 0)
        if r.returncode or status or out != r.stdout or b"in it" not in out or "exact" not in err:
            bad.append("%s\n%s %s %s" % (r, status, out, err))
    tap.ok(not bad, "a library that is aligned by more than a page is where it was", "\n".join(bad))


def refuse_personality():
    """As Docker's default filter: only to ask is allowed."""
    def statement(code, value, yes=0, no=0):
        return struct.pack("HBBI", code, yes, no, value)
    load, equal, answer = 0x20, 0x15, 0x06
    program = (statement(load, 0) + statement(equal, 135, 0, 3) +         # personality of x86-64
               statement(load, 16) + statement(equal, 0xffffffff, 1, 0) +  # its argument
               statement(answer, 0x00050000 | 1) + statement(answer, 0x7fff0000))
    text = ctypes.create_string_buffer(program)
    fprog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(fprog), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def in_main(lines, by_vdso):
    """What happens while main runs, without what two runs differ in by nature: addresses, ids, chance.

    strace begins each line with the process's number, in a column as wide as it is.
    by_vdso: libc (from 2.41 on) takes random numbers from the vDSO, for which it maps memory at the first time; with sreplay it asks
    the kernel.
    """
    begin, end = (next(n for n, line in enumerate(lines) if word in line) for word in ('"main\\n"', '"end\\n"'))
    text = "\n".join(lines[begin:end + 1])
    if by_vdso:
        text = re.sub(r".*SIG_BLOCK, ~\[\].*\n.*MAP_DROPPABLE.*\n.*mmap\(.*\n.*SIG_SETMASK.*\n|.*\bgetrandom\(.*\n", "", text)
    return [re.sub(r'^\d+ +|getrandom\("[^"]*"|0x[0-9a-f]+|\b\d{3,}\b', "#", line) for line in text.split("\n")]


def calls(lines):
    """
    A call that another process interrupts has two lines, by chance. In a child the software device asks for each mapping
    (PROCMAP_QUERY), of which sreplay adds some.
    """
    program = lines[0].split()[0]
    return sum(" resumed>" not in line and (line.split()[0] == program or "0x66, 0x11, " not in line) for line in lines)


def inertness(tap, place):
    cases = {
        "a program without libibverbs, asked to be recorded": ([QUIET], {}),
        "... outside of the group": ([QUIET], {"SREPLAY_GROUP": "1"}),
        "a program with a device, outside of the group": ([QUIET, "libibverbs.so.1"], {"SREPLAY_GROUP": "1"}),
        "a program with a device, nothing asked for": ([QUIET, "libibverbs.so.1"], {"SREPLAY_TRACE": ""}),
    }
    for name, (command, more) in cases.items():
        bare, bare_lines = place.strace(command, place.environment, ("-f",))
        environment = dict(place.plain("inert"), **more)
        inert, lines = place.strace(command, environment, ("-f",))
        tap.ok(re.search(rb"threads 1, descriptors \d, arenas 0", inert.stdout) and inert.stdout == bare.stdout
               and not inert.stderr, name + ": no thread, descriptor, arena, patched operation",
               "%s\n%s" % (bare, inert))
        by_vdso = any("MAP_DROPPABLE" in line for line in bare_lines)
        made, made_bare = in_main(lines, by_vdso), in_main(bare_lines, by_vdso)
        tap.ok(made == made_bare, "... the same system calls from main on", "\n".join(set(made) ^ set(made_bare)))
        more = calls(lines) - calls(bare_lines)
        tap.ok(more <= 16, "... and %d more before it" % more, "\n".join(lines))
    tap.ok(not os.path.exists(place.trace("inert")), "no trace of any of these")


def launched_interpreter(tap, place):
    """mpi4py loads MPI long after the start: a rank that is an interpreter is recorded from there."""
    trace = place.trace("interpreter")
    environment = {name: value for name, value in os.environ.items() if name != "SREPLAY_TRACE"}
    recorded = subprocess.run([SREPLAY, "record", "-o", trace, "--", sys.executable, "-S", "-c", "import time; print(time.time_ns())"],
                              env=dict(environment, OMPI_COMM_WORLD_RANK="0"), capture_output=True, timeout=100)
    status, out, err = replay(trace, 0)
    tap.ok(recorded.returncode == 0 and recorded.stdout and status == 0 and out == recorded.stdout and "0 divergences: exact" in err,
           "python, started by a launcher, is recorded from its start", "%s\n%s %s\n%s" % (recorded, status, out, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        place = Place(directory)
        os.environ.update(place.environment)     # for the replays
        os.environ.pop("LD_PRELOAD", None)
        lookups(tap, place)
        fixed_address(tap, place)
        watchers(tap, place)
        direct_verbs(tap, place)
        interposed(tap, place)
        old_versions(tap, place)
        old_libc(tap, place)
        wrapped(tap, place)
        sanitizers(tap, place)
        plain_start(tap, place)
        plain_start_oddities(tap, place)
        aligned_library(tap, place)
        moved_library(tap, place)
        inertness(tap, place)
        launched_interpreter(tap, place)
    tap.finish()


if __name__ == "__main__":
    main()
