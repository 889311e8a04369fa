#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay pack`: a trace with its executables, libraries and inputs replays after these were changed or removed; with another
executable or library in a sandbox, whoever recorded it. Needs no RDMA.

    pack.py
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, IN_CHROOT, SREPLAY, Tap, read, run

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "random_program")
MAPS_LATER = os.path.join(os.path.realpath(BUILD), "tests", "programs", "maps_later")

SANDBOX = "runs in a sandbox"


class Installed:
    """A program and its libraries, copies of the system's, which the test may change."""

    def __init__(self, place, trace):
        self.bin, self.lib = os.path.join(place, "bin"), os.path.join(place, "lib,with:odd names")
        self.saved, self.trace = os.path.join(place, "saved"), os.path.join(place, trace)
        os.makedirs(self.bin)
        os.makedirs(self.lib)
        shutil.copy(shutil.which("ls"), os.path.join(self.bin, "listing"))
        needed = subprocess.run(["ldd", self.bin + "/listing"], capture_output=True, text=True, check=True).stdout
        self.libraries = []
        for line in needed.splitlines():
            words = line.split()
            if len(words) > 2 and words[2].startswith("/") and not words[0].startswith("libc.so"):
                # Under the name of a link, as libraries are installed.
                name = words[0] + ".0.1"
                shutil.copy(os.path.realpath(words[2]), os.path.join(self.lib, name))
                os.symlink(name, os.path.join(self.lib, words[0]))
                self.libraries.append(words[0])
        # LD_LIBRARY_PATH takes a colon for the end of a directory: the program gets a way without one.
        self.way = os.path.join(place, "way")
        os.symlink(self.lib, self.way)
        with open(os.path.join(place, "listed"), "w") as f:
            f.write("here\n")
        self.environment = dict(os.environ, LD_LIBRARY_PATH=self.way)

    def record(self):
        self.recorded = run([SREPLAY, "record", "--from-start", "-o", self.trace, "--", self.bin + "/listing", "-l", self.bin], 60,
                            env=self.environment)

    def save(self):
        shutil.copytree(self.bin, self.saved + "/bin")
        shutil.copytree(self.lib, self.saved + "/lib", symlinks=True)

    def restore(self):
        for there, name in ((self.bin, "bin"), (self.lib, "lib")):
            shutil.rmtree(there, ignore_errors=True)
            shutil.copytree(os.path.join(self.saved, name), there, symlinks=True)

    def replay(self, *options, trace=None):
        return run([SREPLAY, "replay", "--timeout", "20", *options, trace or self.trace], 60)

    def is_exact(self, replayed):
        return replayed[:2] == self.recorded[:2] and "0 divergences: exact" in replayed[2]


def another_library(i):
    """Its links lead to another version, and the recorded one is gone."""
    for name in i.libraries:
        os.unlink(os.path.join(i.lib, name + ".0.1"))
        shutil.copy(shutil.which("true"), os.path.join(i.lib, name + ".0.2"))
        os.unlink(os.path.join(i.lib, name))
        os.symlink(name + ".0.2", os.path.join(i.lib, name))


def changed_library(i):
    for name in i.libraries:
        shutil.copy(shutil.which("true"), os.path.join(i.lib, name + ".0.1"))


def changed_executable(i):
    shutil.copy(shutil.which("true"), os.path.join(i.bin, "listing"))


def removed_executable(i):
    os.unlink(os.path.join(i.bin, "listing"))


def all_removed(i):
    removed_executable(i)
    for name in os.listdir(i.lib):
        os.unlink(os.path.join(i.lib, name))


CHANGES = (changed_library, another_library, changed_executable, removed_executable, all_removed)


def pack(trace):
    return run([SREPLAY, "pack", trace], 60)


def after_changes(tap, i):
    for change in CHANGES:
        name = change.__name__.replace("_", " ")
        change(i)
        replayed = i.replay()
        tap.ok(i.is_exact(replayed) and SANDBOX in replayed[2], "%s: exact, in a sandbox" % name, replayed)
        replayed = i.replay("--no-sandbox")
        tap.ok(i.is_exact(replayed) and SANDBOX not in replayed[2], "%s: exact, without one if asked for" % name, replayed)
        i.restore()


def unpacked(tap, i):
    for change in CHANGES:
        change(i)
        status, _, err = i.replay()
        tap.ok(status == 125 and ("is not the file that was recorded" in err or "cannot be read" in err),
               "%s: refused before it is packed" % change.__name__.replace("_", " "), err)
        status, _, err = pack(i.trace)
        tap.ok(status == 125 and "cannot be packed" in err, "... and it is too late to pack", err)
        shutil.rmtree(i.trace + "/packed", ignore_errors=True)
        i.restore()


def trusted(tap, i, place):
    """What is packed is not covered by the seal, so it is never run outside of a sandbox unasked."""
    replayed = i.replay()
    tap.ok(i.is_exact(replayed) and SANDBOX not in replayed[2], "with nothing changed, the installed files are used", replayed)
    copy = os.path.join(place, "copy.srec")
    shutil.copytree(i.trace, copy)
    all_removed(i)
    replayed = i.replay(trace=copy)
    tap.ok(i.is_exact(replayed) and SANDBOX in replayed[2], "a copy of the trace: exact, in a sandbox", replayed)
    # A link leads to where the machine has the file.
    packed = [os.path.join(d, f) for d, _, files in os.walk(copy + "/packed") for f in files if not os.path.islink(os.path.join(d, f))]
    tap.ok(packed and not [f for f in packed if os.path.basename(f).startswith("libsreplay")],
           "sreplay's own library is not among them", packed)
    for path in packed:
        os.chmod(path, 0o700)
        shutil.copy(shutil.which("true"), path)
    status, _, err = i.replay(trace=copy)
    tap.ok(status == 125 and "cannot be read" in err, "packed files that are not the recorded ones are not used", err)
    for path in packed:
        os.unlink(path)
        os.symlink("/bin/true", path)
    status, _, err = i.replay(trace=copy)
    tap.ok(status == 125, "nor are links", err)
    i.restore()


def after_installations(tap, place):
    """The cache of libraries has grown by some pages, in a mount namespace: ld.so maps the libraries below it elsewhere."""
    trace, later, grown = (os.path.join(place, name) for name in ("threads.srec", "later.srec", "grown"))
    with open(grown, "wb") as f:
        f.write(read("/etc/ld.so.cache") + bytes(5 * 4096))
    within = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/ld.so.cache && exec "$@"', grown]
    if subprocess.run(within + ["true"], capture_output=True).returncode:
        print("# no mounts here")
        return
    work = os.path.join(place, "work")
    os.makedirs(work)
    recorded = run([SREPLAY, "record", "--from-start", "-o", trace, "--", PROGRAM, "5", "4", "30", "threads"], 60, cwd=work)
    status, out, err = run(within + [SREPLAY, "replay", trace], 60)
    tap.ok(" exact" in err and (status, out) == recorded[:2], "threads replay after packages were installed", err)
    recorded = run([SREPLAY, "record", "--from-start", "-o", later, "--", MAPS_LATER], 60)
    status, out, err = run(within + [SREPLAY, "replay", later], 60)
    tap.ok(" exact" in err and not recorded[0] and (status, out) == recorded[:2], "so does what was mapped after a library was loaded", err)


def in_a_chroot(tap, i, place):
    """Whose root is no mount."""
    if subprocess.run(IN_CHROOT + [tempfile.mkdtemp(dir=place), "true"], capture_output=True).returncode:
        print("# no chroot here")
        return
    i.restore()
    changed_library(i)
    for options, what in (["--no-sandbox"], "without a sandbox"), ([], "in one"):
        replayed = run(IN_CHROOT + [tempfile.mkdtemp(dir=place), SREPLAY, "replay", "--timeout", "20", *options, i.trace], 60)
        tap.ok(i.is_exact(replayed), "changed library: exact in a chroot, " + what, str(replayed))
    i.restore()


MOUNTED = """
trace=$1 directory=$2 && shift 2 && mkdir "$directory/a mount" && mount --bind "$trace" "$directory/a mount" && exec "$@"
"""


def below_packed_files(tap, i):
    """The trace is mounted in a directory over which packed files are laid."""
    all_removed(i)
    within = ["unshare", "-m", "sh", "-c", MOUNTED, "sh", i.trace, i.bin]
    if subprocess.run(within + ["true"], capture_output=True).returncode:
        print("# no mounts here")
    else:
        os.rmdir(os.path.join(i.bin, "a mount"))
        replayed = run(within + [SREPLAY, "replay", "--timeout", "20", "--no-sandbox", os.path.join(i.bin, "a mount")], 60)
        tap.ok(i.is_exact(replayed), "all removed: exact from a trace on a mount below", str(replayed))
    i.restore()


def input_file(tap, place, size):
    """One that was there before the recording began: what is newer is kept in any case."""
    trace, path = os.path.join(place, "input-%d.srec" % size), os.path.join(place, "input-%d" % size)
    with open(path, "wb") as f:
        f.write(b"before\n".ljust(size, b"."))
    os.utime(path, (1e9, 1e9))
    recorded = run([SREPLAY, "record", "--from-start", "-o", trace, "--", "head", "-c", "7", path], 60)
    os.rename(path, path + ".before")
    status, _, err = run([SREPLAY, "replay", trace], 60)
    tap.ok(status == 125 and path + ", which the program read" in err and "sreplay pack" in err, "an input is gone", err)
    status, _, err = pack(trace)
    tap.ok(status == 125 and path + ", which a recorded program read, cannot be packed" in err, "... and cannot be packed", err)
    shutil.copy(path + ".before", path)
    with open(path, "r+b") as f:
        f.write(b"after ")
    _, _, err = run([SREPLAY, "replay", trace], 60)
    tap.ok("sreplay pack" in err, "another one is in its place", err)
    status, _, err = pack(trace)
    tap.ok(status == 125 and "its content is another one" in err, "... which is not packed", err)
    os.rename(path + ".before", path)
    status, _, err = pack(trace)
    tap.ok(not status, "packed while it is there", err)
    os.unlink(path)
    status, out, err = run([SREPLAY, "replay", trace], 60)
    tap.ok(not status and out == recorded[1] and " exact" in err, "... and replayed without", err)
    status, out, _ = pack(trace)
    tap.ok(not status and b" 0 files packed" in out, "packing it again adds nothing", out)


def inputs(tap, place):
    """A small file, and one of which the trace has a hash of samples only."""
    for size in (8, 17 << 20):
        input_file(tap, place, size)


LOADS = """
import ctypes, sys
print([ctypes.CDLL(path).only_in_the_module() for path in sys.argv[1:]])
# By ld.so's cache; and where a library lies, of which that has taken room before.
print(bool(ctypes.CDLL("libresolv.so.2")), ctypes.cast(ctypes.CDLL(None).sin, ctypes.c_void_p).value)
"""


# Its own files are an overlay, as a container's are.
OVERLAID = 'mount -t overlay overlay -o "lowerdir=$1:$0" "$1" && shift && exec "$@"'


def loaded_later(tap, place):
    """By dlopen: small ones, by a link that leads to another directory, on a machine that has none of the directories."""
    trace, libraries = os.path.join(place, "loads.srec"), os.path.join(place, "machine", "libraries")
    module = os.path.join(os.path.dirname(PROGRAM), "lookups_module.so")
    above, plain, link, real = (os.path.join(libraries, name) for name in ("above.so", "plain/one.so", "plain/two.so", "versions/two/two.so.1"))
    for path in (above, plain, real):
        os.makedirs(os.path.dirname(path))
        shutil.copy(module, path)
    os.symlink(real, link)
    recorded = run([SREPLAY, "record", "--from-start", "-o", trace, "--", sys.executable, "-c", LOADS, above, plain, link], 60)
    status, _, err = pack(trace)
    tap.ok(recorded[0] == status == 0 and recorded[1].startswith(b"[1, 1, 1]\nTrue "), "libraries that a program loads are packed", (recorded, err))
    replayed = run([SREPLAY, "replay", trace], 60)
    tap.ok(replayed[:2] == recorded[:2] and SANDBOX not in replayed[2], "as long as they are there, these are used", replayed)
    shutil.rmtree(libraries)
    replayed = run([SREPLAY, "replay", trace], 60)
    tap.ok(replayed[:2] == recorded[:2] and " 0 divergences: exact" in replayed[2] and SANDBOX in replayed[2] and not os.path.exists(libraries),
           "without them and their directories: exact, in a sandbox", replayed)
    within = ["unshare", "-m", "sh", "-c", OVERLAID, tempfile.mkdtemp(dir=place), os.path.dirname(libraries)]
    if subprocess.run(within + ["true"], capture_output=True).returncode:
        print("# no mounts here")
    else:
        replayed = run(within + [SREPLAY, "replay", trace], 60)
        tap.ok(replayed[:2] == recorded[:2] and " 0 divergences: exact" in replayed[2], "... where files are an overlay already", replayed)
    with open(os.path.join(place, "larger"), "wb") as f:
        f.write(read("/etc/ld.so.cache") + bytes(5 * 4096))
    within = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/ld.so.cache && exec "$@"', os.path.join(place, "larger")]
    if subprocess.run(within + ["true"], capture_output=True).returncode:
        print("# no mounts here")
    else:
        replayed = run(within + [SREPLAY, "replay", trace], 60)
        tap.ok(replayed[:2] == recorded[:2] and " 0 divergences: exact" in replayed[2], "... where other packages are installed", replayed)
    os.makedirs(os.path.join(libraries, "versions"))
    replayed = run([SREPLAY, "replay", trace], 60)
    tap.ok(replayed[:2] == recorded[:2] and " 0 divergences: exact" in replayed[2], "... where some directories are there", replayed)


ELSEWHERE = """
cd "$1" && shift
echo "nameserver 192.0.2.1" > resolv.conf; echo "hosts: files" > nsswitch.conf; echo "192.0.2.2 localhost" > hosts
for name in resolv.conf nsswitch.conf hosts; do
    if [ -e "/etc/$name" ]; then mount --bind "$name" "/etc/$name" || exit; fi
done
exec "$@"
"""


def name_lookups(tap, place):
    """libc asks at each look-up whether the resolver's files have changed: on another machine they are others."""
    trace, within = os.path.join(place, "names.srec"), ["unshare", "-m", "sh", "-c", ELSEWHERE, "sh", place]
    if subprocess.run(within + ["true"], capture_output=True).returncode:
        print("# no mounts here")
        return
    recorded = run([SREPLAY, "record", "--from-start", "-o", trace, "--", "getent", "ahosts", "localhost"], 60)
    status, out, err = pack(trace)
    tap.ok(not recorded[0] and not status, "a program that looks a name up", "%s %s" % (recorded, err))
    status, out, err = run(within + [SREPLAY, "replay", trace], 60)
    tap.ok(not status and out == recorded[1] and " exact" in err, "... replays where names are others", "%s %s" % (out, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as place:
        place = os.path.realpath(place)
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
        i = Installed(place, "trace.srec")
        i.record()
        i.save()
        unpacked(tap, i)
        status, out, err = pack(i.trace)
        tap.ok(status == 0 and b"files packed" in out, "a trace is packed", "%s %s" % (out, err))
        status, out, _ = pack(i.trace)
        tap.ok(status == 0 and b" 0 files packed" in out, "packing it again adds nothing", out)
        after_changes(tap, i)
        in_a_chroot(tap, i, place)
        below_packed_files(tap, i)
        trusted(tap, i, place)
        after_installations(tap, place)
        inputs(tap, place)
        loaded_later(tap, place)
        name_lookups(tap, place)
    tap.finish()


if __name__ == "__main__":
    main()
