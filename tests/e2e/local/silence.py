#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Nothing is lost in silence: what cannot be recorded, written, read or shown is said, and the exit status has it.

    silence.py [CASE...]

A full disk is a tmpfs of a few megabytes, which needs a mount name space (root, or a user's own); elsewhere its cases are
said to be left out. Needs no RDMA.
"""

import os
import shutil
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, run, run_functions  # noqa: E402

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
PROGRAM = os.path.join(PROGRAMS, "environment")
CASES = []
FILLER = "import os\nfor i in range(3000): os.urandom(8000)\nprint('went on', flush=True)\n"


def case(function):
    CASES.append(function)
    return function


def sreplay(*arguments, **options):
    status, out, err = run([SREPLAY, *arguments], 60, **options)
    return status, out.decode(errors="replace"), err


def record(trace, *command, options=(), **more):
    return sreplay("record", "-o", trace, *options, "--", *command, **more)


def one_line(err, *parts):
    return err.count("\n") == 1 and err.startswith("sreplay: ") and all(p in err for p in parts)


# ------------------------------------------------------------------ recording


@case
def refused_before_it_runs(tap, place):
    """Whatever the reason is: 125, a line, and the command has not run; with --or-run it runs, and the line says so."""
    ran = os.path.join(place, "ran")
    touch = ["touch", ran]
    good = os.path.join(place, "good.srec")
    record(good, PROGRAM)
    other, a_file, closed = (os.path.join(place, n) for n in ("other.srec", "file.srec", "none/deep.srec"))
    os.mkdir(other)
    open(os.path.join(other, "letter"), "w").close()
    open(a_file, "w").close()
    reasons = {
        "a rank that the trace has": (["-o", good], {}),
        "a directory with other files": (["-o", other], {}),
        "a file": (["-o", a_file], {}),
        "a parent that is not there": (["-o", closed], {}),
        "a place that cannot be written": (["-o", "/proc/t.srec"], {}),
        "an option's wrong value": (["-o", good + "2", "--exposed=frozen"], {}),
        "an option's old name": (["-o", good + "2", "--window=frozen"], {}),
        "a variable's wrong value": (["-o", good + "2"], {"SREPLAY_TSC": "frozen"}),
        "a launcher's rank that is none": (["-o", good + "2"], {"PMI_RANK": "x"}),
        "no daemon": (["-o", good + "2"], {"SREPLAY_SOCKET": "/proc/none/logd.sock"}),
    }
    for what, (options, variables) in reasons.items():
        env = dict(os.environ, **variables)
        status, _, err = sreplay("record", *options, "--", *touch, env=env)
        tap.ok(status == 125 and not os.path.exists(ran) and err.startswith("sreplay: "),
               "%s: 125, and the command has not run" % what, "%s\n%s" % (status, err))
        status, _, err = sreplay("record", *options, "--or-run", "--", *touch, env=env)
        tap.ok(status == 0 and os.path.exists(ran) and "touch runs unrecorded (--or-run)" in err,
               "%s, --or-run: it runs, and that is said" % what, "%s\n%s" % (status, err))
        if os.path.exists(ran):
            os.remove(ran)
    tap.ok(not os.path.exists(good + "2") and sorted(os.listdir(good)) == ["manifest.json", "rank-0"],
           "the questions leave nothing behind", os.listdir(good))


@case
def refused_by_the_daemon(tap, place):
    """What only the daemon sees: the program itself ends before its main."""
    trace = os.path.join(place, "t.srec")
    os.mkdir(trace)
    with open(os.path.join(trace, "manifest.json"), "w") as f:
        f.write("{}")
    status, out, err = record(trace, PROGRAM)
    tap.ok(status == 125 and not out and "rank 0 is not recorded" in err and "--or-run" in err,
           "a directory that is no trace: the program does not run", "%s\n%s%s" % (status, out, err))
    status, out, err = record(trace, PROGRAM, options=["--or-run"])
    tap.ok(status == 7 and out and "rank 0 is not recorded" in err, "... with --or-run it does", "%s\n%s%s" % (status, out, err))
    status, out, err = record(trace, "sh", "-c", PROGRAM + "; echo after")
    tap.ok(status == 0 and "after" in out, "a child of the command runs on, unrecorded", "%s\n%s%s" % (status, out, err))


def on_small_disk(script, place):
    """Runs a shell script in a mount name space with 4 MB at $disk."""
    disk = os.path.join(place, "disk")
    os.makedirs(disk, exist_ok=True)
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    env = dict(os.environ, disk=disk, sreplay=SREPLAY, python=sys.executable, filler=FILLER, program=PROGRAM)
    return run(unshare + ["sh", "-c", "mount -t tmpfs -o size=4m none $disk || exit 77\n" + script], 120, env=env)


@case
def full_disk(tap, place):
    """The daemon runs in the same name space, so that it sees the disk."""
    with_daemon = "SREPLAY_SOCKET=$disk/../disk.sock; export SREPLAY_SOCKET\n"
    status, out, err = on_small_disk(with_daemon + """
        $sreplay record --from-start -o $disk/t.srec -- /usr/bin/python3 -c "$filler"
        echo recorded $?
        $sreplay verify $disk/t.srec; echo verified $?
        """, place)
    if status == 77:
        print("# no mount name space: full disks are left out")
        return
    out = out.decode(errors="replace")
    tap.ok("went on" in out and "recorded 0" in out, "the disk fills up while recording: the program goes on", out + err)
    tap.ok("not recorded any further" in err and "No space left" in err and err.count("not recorded any further") == 1,
           "... and the terminal has one line, with the cause", err)
    tap.ok("verified 1" in out and ": whole" not in out, "... and verify fails", out + err)
    status, out, err = on_small_disk(with_daemon + """
        head -c 100m /dev/zero > $disk/filler
        $sreplay record -o $disk/t.srec -- $program; echo recorded $?
        """, place)
    tap.ok(b"recorded 125" in out and "No space left" in err, "a disk that is full already: 125", "%s\n%s" % (out, err))


@case
def lossy(tap, place):
    trace = os.path.join(place, "lossy.srec")
    env = dict(os.environ, SREPLAY_RING="65536")
    record(trace, "/usr/bin/python3", "-c", FILLER, options=["--lossy", "--from-start"], env=env)
    status, out, err = sreplay("verify", trace)
    dropped = "--lossy" in sreplay("info", trace)[1] or "with holes" in out
    tap.ok(not dropped or ("with holes" in out and "lacks" in err), "verify names the holes of a lossy recording", out + err)


# ------------------------------------------------------------------ reading


@case
def missing_streams(tap, place):
    for name, command in (("environment", [PROGRAM]), ("threads", [os.path.join(PROGRAMS, "threads"), "locks"])):
        trace = os.path.join(place, name + ".srec")
        record(trace, *command)
        rank = os.path.join(trace, "rank-0")
        streams = sorted(n for n in os.listdir(rank) if n.endswith(".srs"))
        status, out, err = sreplay("verify", trace)
        tap.ok(status == 0, "%s: verify finds the trace whole" % name, out + err)
        for stream in {streams[0], streams[-1]}:
            kept = os.path.join(place, "kept")
            os.rename(os.path.join(rank, stream), kept)
            status, out, err = sreplay("verify", trace)
            os.rename(kept, os.path.join(rank, stream))
            tap.ok(status == 1 and "%s is missing" % stream in err, "%s: without its %s it is not whole" % (name, stream), out + err)


@case
def full_output(tap, place):
    trace = os.path.join(place, "t.srec")
    record(trace, PROGRAM)
    for command in (["dump"], ["dump", "--json"], ["info"], ["verify"], ["explain"], ["graph"]):
        last = ["0:1"] if command == ["explain"] else []
        with open("/dev/full", "w") as full:
            r = subprocess.run([SREPLAY, *command, trace, *last], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        tap.ok(r.returncode not in (0, "hang") and "No space left" in r.stderr, "%s to a full disk fails" % " ".join(command),
               "%s\n%s" % (r.returncode, r.stderr))


@case
def what_is_not_there(tap, place):
    trace = os.path.join(place, "t.srec")
    for rank in "01":
        record(trace, PROGRAM, options=["-r", rank])
    for arguments, part in ((["explain", trace, "0:999999"], "no record of SN 999999"),
                            (["explain", trace, "0.7:1"], "no record of SN 1"),
                            (["explain", trace, "7:1"], "no rank 7"),
                            (["dump", "--rank", "7", trace], "no rank 7"),
                            (["dump", "--thread", "7", trace], "no thread 7"),
                            (["dump", "--rank", "0", "--thread", "7", trace], "no thread 7"),
                            (["dump", "--sn", "999999", trace], "no call with such a number"),
                            (["dump", "--sn", "999999..", trace], "no call with such a number"),
                            (["replay", "-r", "0", "-g", "1", trace], "give one of them"),
                            (["replay", "-g", "1", "-r", "0", trace], "give one of them"),
                            (["replay", "--exec", "true", "-r", "0", "-g", "1", trace], "which rank")):
        status, out, err = sreplay(*arguments)
        tap.ok(status == 125 and one_line(err, part), "%s is refused" % " ".join(arguments).replace(place + "/", ""),
               "%s\n%s%s" % (status, out, err))


# ------------------------------------------------------------------ collecting


@case
def collect(tap, place):
    first, second, out = (os.path.join(place, n) for n in ("1.srec", "2.srec", "all.srec"))
    text = os.path.join(place, "text")
    with open(text, "w") as f:
        f.write("content\n")
    for rank, trace in (("0", first), ("1", second)):
        record(trace, "cat", text, options=["--from-start", "--record-files", "-r", rank])
    old = os.umask(0)
    status, said, err = sreplay("collect", "-o", out, first, second)
    os.umask(old)
    modes = {stat.S_IMODE(os.lstat(os.path.join(d, n)).st_mode) for d, _, names in os.walk(out) for n in names}
    folders = {stat.S_IMODE(os.lstat(d).st_mode) for d, _, _ in os.walk(out)}
    tap.ok(status == 0 and modes == {0o600} and folders == {0o700}, "collect keeps a trace to its user",
           "%s %s %s\n%s" % (status, modes, folders, err))
    names = [set(os.listdir(os.path.join(t, "files"))) if os.path.isdir(os.path.join(t, "files")) else set() for t in (first, second, out)]
    tap.ok(names[0] and names[2] == names[0] | names[1], "... and takes the kept files along", names)
    os.remove(text)
    for what, make in (("a link", lambda p: os.symlink("/etc/passwd", p)), ("a FIFO", os.mkfifo), ("a directory", os.mkdir)):
        for folder in ("rank-0", "files"):
            bad = os.path.join(place, "bad.srec")
            shutil.rmtree(bad, ignore_errors=True)
            shutil.copytree(first, bad)
            make(os.path.join(bad, folder, "extra"))
            shutil.rmtree(out)
            status, said, err = sreplay("collect", "-o", out, bad)
            tap.ok(status == 125 and "extra" in err and "not a regular file" in err and not os.path.exists(os.path.join(out, folder, "extra")),
                   "collect refuses %s in %s" % (what, folder), "%s\n%s" % (status, err))


def main():
    run_functions(CASES)


if __name__ == "__main__":
    main()
