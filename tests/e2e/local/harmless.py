#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A replay harms nothing: it leaves a tree of files exactly as it found it, whether the tree is as the recorded
program left it or as the program found it; it shows what the program printed, wherever that went, and ends as it did;
and -o DIR has what the program wrote.  Needs no RDMA.

    harmless.py [CASE]...
"""

import hashlib
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, some

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "harmless")
TEXT = "b one\na two\nc three\n"
LONG = "".join("line %d of many\n" % i for i in range(20000))
START = {"a.txt": TEXT, "b.txt": LONG, "d/e.txt": "deep\n", "d/f/g.txt": "deeper\n"}


def sh(words):
    return words.split(" ")


def python(text):
    return ["python3", "-S", "-c", text]


# Name: the command.  It runs in a directory with the files of START.
COMMANDS = {
    "rm": sh("rm a.txt"),
    "rm -r": sh("rm -r d"),
    "rm -rf of a tree": sh("rm -rf d a.txt none"),
    "cp": sh("cp a.txt new.txt"),
    "cp over": sh("cp a.txt b.txt"),
    "cp of much": sh("cp b.txt new.txt"),
    "cp -r": sh("cp -r d copy"),
    "cp -a": sh("cp -a d copy"),
    "cp --reflink=never": sh("cp --reflink=never --sparse=always b.txt new.txt"),
    "cp -l": sh("cp -l a.txt linked.txt"),
    "cp -s": sh("cp -s a.txt linked.txt"),
    "mv": sh("mv a.txt moved.txt"),
    "mv over": sh("mv a.txt b.txt"),
    "mv of a directory": sh("mv d moved"),
    "ln": sh("ln a.txt hard.txt"),
    "ln -s": sh("ln -s a.txt soft.txt"),
    "ln -sf": sh("ln -sf b.txt a.txt"),
    "mkdir -p": sh("mkdir -p n/m/o"),
    "mkfifo": sh("mkfifo fifo"),
    "rmdir": sh("rmdir d/f"),
    "unlink": sh("unlink a.txt"),
    "touch": sh("touch a.txt new.txt"),
    "touch -d": sh("touch -d 2001-02-03 a.txt"),
    "chmod": sh("chmod 600 a.txt"),
    "chmod -R": sh("chmod -R go-rwx d"),
    "chown": sh("chown %d a.txt" % os.getuid()),
    "truncate": sh("truncate -s 3 b.txt"),
    "truncate larger": sh("truncate -s 5000 a.txt"),
    "fallocate": sh("fallocate -l 9000 new.txt"),
    "dd": sh("dd if=b.txt of=new.txt bs=1000 count=7 status=none"),
    "dd in place": sh("dd if=a.txt of=b.txt bs=4 seek=3 count=2 conv=notrunc status=none"),
    "dd conv=fsync": sh("dd if=b.txt of=new.txt conv=fsync,sparse status=none"),
    "tee": sh("tee new.txt d/new.txt"),
    "tee -a": sh("tee -a a.txt"),
    "sed -i": sh("sed -i s/two/2/ a.txt"),
    "sed -i.bak": sh("sed -i.bak s/line/LINE/ b.txt"),
    "sed w": sh("sed -n w\tnew.txt a.txt"),
    "sort -o itself": sh("sort -o a.txt a.txt"),
    "sort with temporary files": sh("sort -S 64K -T . -o new.txt b.txt"),
    "shuf": sh("shuf -o new.txt b.txt"),
    "split": sh("split -l 3000 b.txt part."),
    "csplit": sh("csplit -q a.txt 2"),
    "install": sh("install -m 750 a.txt installed"),
    "install -D": sh("install -D a.txt x/y/z.txt"),
    "shred": sh("shred -n 1 -u a.txt"),
    "mktemp": sh("mktemp -p . t.XXXXXX"),
    "sync": sh("sync a.txt"),
    "cat": sh("cat a.txt b.txt"),
    "ls -lR": sh("ls -lR"),
    "find -delete": sh("find d -type f -delete"),
    "gzip": sh("gzip b.txt"),
    "gzip -k": sh("gzip -k b.txt"),
    "bzip2": sh("bzip2 b.txt"),
    "xz": sh("xz b.txt"),
    "tar c": sh("tar cf all.tar a.txt b.txt d"),
    "tar u": sh("tar uf all.tar a.txt"),
    "awk": ["awk", "{print > (\"by-\" $1)}", "a.txt"],
    "perl -i": ["perl", "-i", "-pe", "s/two/2/", "a.txt"],
    "python writes and reads back": python(
        "f = open('new.txt', 'w+'); f.write('one two\\n'); f.seek(0); print(f.read(), end=''); f.close();"
        "open('new.txt', 'a').write('three\\n'); print(open('new.txt').read())"),
    "python counts up": python(
        "n = int(open('d/e.txt').read() == 'deep\\n'); f = open('d/e.txt', 'r+'); f.write(str(n)); f.close();"
        "print(open('d/e.txt').read())"),
    "python appends to a log": python("f = open('a.txt', 'a'); f.write('more\\n'); f.close(); print(open('a.txt').read())"),
    "python renames over": python(
        "import os; open('t', 'w').write('new\\n'); os.rename('t', 'a.txt'); print(open('a.txt').read())"),
    "python removes and makes anew": python(
        "import os; t = open('a.txt').read(); os.remove('a.txt'); open('a.txt', 'w').write(t.upper());"
        "print(open('a.txt').read())"),
    "python in a directory of its own": python(
        "import os; os.mkdir('own'); os.chdir('own'); open('x', 'w').write('x'); print(os.listdir('.'), open('x').read());"
        "os.chdir('..'); print(open('a.txt').read())"),
    "python maps a file": python(
        "import mmap; f = open('b.txt', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:4] = b'LINE'; m.flush(); m.close();"
        "print(open('b.txt').readline())"),
    "python below a limit on file sizes": python(
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "f = open('b.txt', 'r+'); print(f.readline()); f.close(); open('new.txt', 'w').write('x' * 900)"),
    "python prints to a file": python("import sys; sys.stdout = open('out', 'w'); print('there'); sys.stdout.flush();"
                                      "sys.stderr.write(open('out').read())"),
    "sqlite": None,
    "gcc -c": None,
    "make": None,
    "git": None,
    "patch": None,
}

# What children of the program write is not recorded.
WRITTEN_BY_CHILDREN = {"gcc -c", "make"} | {"program: " + name for name in ("popen", "wordexp", "raw fork", "spawn", "daemon")}
# New files have the mode that they were made with.
MODES = {"cp", "tee", "install", "split", "tar c", "python writes and reads back", "program: directory"}
NEEDS = {"sqlite": "sqlite3", "gcc -c": "gcc", "make": "make", "git": "git", "patch": "patch"}
COMMANDS["sqlite"] = ["sqlite3", "new.db", "create table t(a, b); insert into t values (1, 'one'), (2, 'two');"
                      "update t set b = 'zwei' where a = 2; select * from t;"]


def populate(place):
    for name, text in START.items():
        path = os.path.join(place, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.utime(path, (1000000000, 1000000000))


def entry(path):
    st = os.lstat(path)
    content = ""
    if stat.S_ISREG(st.st_mode):
        with open(path, "rb") as f:
            content = hashlib.sha1(f.read()).hexdigest()
    elif stat.S_ISLNK(st.st_mode):
        content = os.readlink(path)
    return (oct(st.st_mode), st.st_uid, st.st_size, st.st_nlink, st.st_ino, st.st_mtime_ns, content)


def snapshot(place):
    """All there is of a tree, except for the times at which it was read."""
    found = {place: entry(place)}
    for directory, names, files in os.walk(place):
        for name in names + files:
            path = os.path.join(directory, name)
            found[path] = entry(path)
    return found


def difference(before, after):
    return "\n".join("%s: %s -> %s" % (path, before.get(path), after.get(path))
                     for path in sorted(set(before) | set(after)) if before.get(path) != after.get(path))


def written(place):
    """The contents of the regular files, by their paths."""
    return {os.path.relpath(path, place): e[-1] for path, e in snapshot(place).items() if e[0].startswith("0o100")}


def run(command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, **options)


def processes_in(place):
    """Those whose working directory is there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/cwd" % pid).startswith(place):
                found.append(pid)
        except OSError:
            continue
    return found


def own(err):
    """Standard error without the messages of sreplay."""
    return b"".join(line for line in err.splitlines(True) if not line.startswith(b"sreplay"))


def replayed(tap, name, how, trace, place, recorded, *options):
    """A replay has the same output and status, and changes nothing."""
    before = snapshot(place)
    r = run([SREPLAY, "replay", *options, trace])
    living = processes_in(place)
    if living:
        tap.ok(False, "%s: no process outlives the replay" % name, living)
    same = (r.returncode, r.stdout, own(r.stderr)) == recorded
    whole = b": exact" in r.stderr and b"not all that the program wrote" not in r.stderr
    tap.ok(same and whole, "%s: exact, on the tree as the program %s it" % (name, how),
           "%s\n%s\n%s" % (recorded, r.stdout[:1000], r.stderr.decode()))
    changes = difference(before, snapshot(place))
    tap.ok(not changes, "%s: nothing changed in the tree as the program %s it" % (name, how), changes)


def try_case(tap, name, command, room):
    place, kept, trace = os.path.join(room, "here"), os.path.join(room, "kept"), os.path.join(room, "trace.srec")
    os.mkdir(place)
    populate(place)
    found = written(place)
    r = run([SREPLAY, "record", "--from-start", "-o", trace, "--"] + command, cwd=place)
    # The trace of a killed program ends where it was killed.
    recorded = (123 if r.returncode == 128 + 9 else r.returncode, r.stdout, own(r.stderr))
    end = time.time() + 20
    while processes_in(place) and time.time() < end:
        time.sleep(0.01)
    left = written(place)
    replayed(tap, name, "left", trace, place, recorded, "-o", kept)
    made = {path: content for path, content in left.items() if found.get(path) != content}
    got = written(kept + place) if os.path.exists(kept + place) else {}
    missing = {path for path, content in made.items() if got.get(path) != content}
    # What the program only renamed or linked was not written by it.
    missing = {path for path in missing if made[path] not in found.values() and name not in WRITTEN_BY_CHILDREN}
    if name in MODES:
        modes = [oct(os.stat(os.path.join(top, path)).st_mode) for top in (place, kept + place) for path in sorted(made)]
        tap.ok(modes[:len(made)] == modes[len(made):], "%s: and with its mode" % name, modes)
    tap.ok(not missing and all(left.get(path) == content for path, content in got.items()),
           "%s: -o has what it wrote" % name, "missing: %s\nthere: %s\nwritten: %s" % (missing, got, made))
    shutil.rmtree(place)
    os.mkdir(place)
    populate(place)
    replayed(tap, name, "found", trace, place, recorded)


def prepare_tools(room):
    """Cases that need input files of their own."""
    START["m.c"] = "int main(void) { return 0; }\n"
    START["Makefile"] = "all: out\nout: a.txt\n\tsort a.txt > out\n"
    START["p.diff"] = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n b one\n-a two\n+a 2\n c three\n"
    COMMANDS["gcc -c"] = ["gcc", "-c", "m.c"]
    COMMANDS["make"] = ["make", "-s"]
    COMMANDS["patch"] = ["patch", "-s", "a.txt", "p.diff"]
    COMMANDS["git"] = ["git", "-c", "init.defaultBranch=main", "init", "-q", "repo"]


def record(room, name, command, **options):
    trace = os.path.join(room, name + ".srec")
    return trace, run(["sh", "-c", "%s record --from-start -o %s -- %s" % (SREPLAY, trace, command)], **options)


def ends(tap, place):
    """Where the recorded program was killed, or nobody read on, the replay ends."""
    here = os.path.join(place, "ends")
    os.mkdir(here)
    trace, _ = record(place, "yes", "yes | head -3", cwd=here)
    r = run([SREPLAY, "replay", trace])
    tap.ok(r.returncode == 123 and 0 < len(r.stdout) < 1 << 20 and not r.stdout.replace(b"y\n", b""),
           "yes | head: the replay ends where yes did", "%d bytes\n%s" % (len(r.stdout), r.stderr.decode()))
    grow = "import os, signal\nf = open('big', 'wb', 0)\nfor i in range(200):\n    f.write(b'x' * 100000)\n" \
           "    if i == 50:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    with open(os.path.join(place, "grow.py"), "w") as f:
        f.write(grow)
    trace, _ = record(place, "grow", "python3 -S %s/grow.py" % place, cwd=here)
    before = snapshot(here)
    r = run([SREPLAY, "replay", trace])
    tap.ok(r.returncode == 137 and snapshot(here) == before and os.stat(here + "/big").st_size == 5100000,
           "a program killed while it wrote: the replay writes on nowhere", r.stderr.decode())
    trace, _ = record(place, "seq", "seq 100000", cwd=here)
    r = run(["sh", "-c", "(%s replay %s; echo status $? >&2) | head -1" % (SREPLAY, trace)])
    tap.ok(r.stdout == b"1\n" and b": exact" in r.stderr and b"status 0" in r.stderr,
           "a reader that stops reading the replay's output does not end it", r.stderr.decode())
    r = run(["sh", "-c", "%s replay %s > /dev/full" % (SREPLAY, trace)])
    tap.ok(r.returncode == 0 and b"cannot be written now (ENOSPC)" in r.stderr,
           "output that cannot be written is named", r.stderr.decode())
    trace, _ = record(place, "sleep", "sleep 0", cwd=here)
    private = os.path.join(place, "private")
    os.mkdir(private)
    p = subprocess.Popen([SREPLAY, "replay", "--exec", "sh -c 'exec sleep 60'", trace], stderr=subprocess.DEVNULL,
                         env=dict(os.environ, TMPDIR=private))
    made = wait_for(lambda: os.listdir(private))
    p.kill()
    p.wait()
    tap.ok(made and wait_for(lambda: not os.listdir(private)), "a killed sreplay leaves no private files", made)


def others(tap, place):
    """Another process may have the number of a recorded child, and another file the place of its core file."""
    here = os.path.join(place, "others")
    os.mkdir(here)
    p = subprocess.Popen(["sleep", "60"])
    hard = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)[1]
    with open(os.path.join(place, "change.py"), "w") as f:
        f.write("import os, resource\nos.setpriority(os.PRIO_PROCESS, %d, 5)\n"
                "resource.prlimit(%d, resource.RLIMIT_NOFILE, (99, %d))\n" % (p.pid, p.pid, hard))
    trace, _ = record(place, "change", "python3 -S %s/change.py" % place, cwd=here)
    changed = os.getpriority(os.PRIO_PROCESS, p.pid)
    os.setpriority(os.PRIO_PROCESS, p.pid, 10)
    resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (50, hard))
    r = run([SREPLAY, "replay", trace])
    now = os.getpriority(os.PRIO_PROCESS, p.pid), resource.prlimit(p.pid, resource.RLIMIT_NOFILE)[0]
    p.kill()
    p.wait()
    tap.ok(changed == 5 and now == (10, 50) and b": exact" in r.stderr,
           "another process keeps its priority and its limits", "%s %s\n%s" % (changed, now, r.stderr.decode()))
    trace, _ = record(place, "abort", "python3 -S -c 'import os; os.abort()'", cwd=here)
    for name in os.listdir(here):
        os.remove(os.path.join(here, name))
    r = run(["sh", "-c", "ulimit -c unlimited; exec %s replay %s" % (SREPLAY, trace)], cwd=here)
    tap.ok(r.returncode == 134 and not os.listdir(here), "a replay that aborts leaves no core file",
           "%s %s\n%s" % (r.returncode, os.listdir(here), r.stderr.decode()))


def wait_for(condition):
    end = time.time() + 20
    while not condition() and time.time() < end:
        time.sleep(0.01)
    return condition()


def in_a_debugger(tap, place):
    """gdb would start the program itself, with the words that start a replay as its arguments."""
    here = os.path.join(place, "debugged")
    os.mkdir(here)
    populate(here)
    trace, _ = record(place, "debugged", "rm a.txt", cwd=here)
    populate(here)
    before = snapshot(here)
    for command in ("run", "r", "start", "starti", "run b.txt"):
        r = run([SREPLAY, "replay", "--gdb", "0", trace, "--", "-batch", "-ex", command, "-ex", "continue", "-ex", command],
                cwd=here)
        tap.ok(r.stderr.count(b"a replay runs once") == 2 and b": exact" in r.stderr and snapshot(here) == before,
               "gdb: %s is refused, before and after the replay" % command, r.stdout + r.stderr)


def cases_of_program():
    for name in run([PROGRAM]).stdout.decode().splitlines():
        COMMANDS["program: " + name] = [PROGRAM, name]


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as place:
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        subprocess.run([os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd"), "--daemonize", "--idle-exit", "30",
                        "--socket", os.environ["SREPLAY_SOCKET"]], check=True)
        prepare_tools(place)
        cases_of_program()
        for i, (name, command) in enumerate(some(COMMANDS.items(), 3)):
            if (len(sys.argv) > 1 and name not in sys.argv[1:]) or not shutil.which(NEEDS.get(name, command[0])):
                continue
            room = os.path.join(place, str(i))
            os.mkdir(room)
            try_case(tap, name, command, room)
        if len(sys.argv) == 1:
            ends(tap, place)
            others(tap, place)
            if shutil.which("gdb"):
                in_a_debugger(tap, place)
    tap.finish()


if __name__ == "__main__":
    main()
