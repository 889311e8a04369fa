#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A recorded program executes another one: that is recorded as the rank's next image, and replayed after
it.  No RDMA needed.

    execs.py [FUNCTION...]
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, read, replay, run, run_functions, write_old

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
PROGRAM = os.path.join(PROGRAMS, "execs")
SECONDS = 60
# Whose lines come in any order.
THREADS = ("threads", "other-thread")


def environment(**more):
    return dict(os.environ, PATH=PROGRAMS + ":/usr/bin:/bin", **more)


def normal(text):
    return re.sub(rb"process \d+ at [\d.]+", b"", text)


def record(place, name, command, within=(), **settings):
    """The trace, and what run() returns."""
    trace = os.path.join(place, name + ".srec")
    shutil.rmtree(trace, ignore_errors=True)
    return trace, run([*within, SREPLAY, "record", "--from-start", "-o", trace, "--"] + command, SECONDS, cwd=place,
                      env=environment(**settings))


def numbers(trace):
    """For each image of rank 0 the first and last SN of its calls, and the path that it executed."""
    images = []
    out = run([SREPLAY, "dump", "--json", trace], SECONDS)[1].decode()
    before = 0
    for line in out.splitlines():
        r = json.loads(line)
        if r["thread"]:
            continue
        if not images or (images[-1]["executed"] and "record" not in r and r.get("call") != "exec"):
            images.append({"first": r["sn"] if "record" not in r else before + 1, "executed": None})
        if r.get("record") == "exec":
            images[-1]["executed"] = r["path"]
        elif r.get("call") == "exec":
            images[-1]["executed"] = None
        images[-1]["last"] = before = r["sn"]
    return images


def problem(place, case):
    """'' or what is wrong with a recording of this case, and its replay."""
    bare = run([PROGRAM, case], SECONDS, cwd=place, env=environment())
    trace, recorded = record(place, case, [PROGRAM, case])
    if recorded[0] != bare[0] or recorded[2] != bare[2]:
        return "recorded exit status %s, bare %s\n%s" % (recorded[0], bare[0], recorded[2])
    if case not in THREADS and normal(recorded[1]) != normal(bare[1]):
        return "recorded %s\nbare %s" % (recorded[1], bare[1])
    for _ in range(2):
        status, out, err = replay(trace, 0, cwd=place)
        if (status, out) != (recorded[0], recorded[1]):
            return "replay: %s, recorded %s\n%s\n%s\n%s" % (status, recorded[0], out, recorded[1], err)
        if "0 divergences: exact" not in err or " images, " not in err:
            return err
    status, out, err = run([SREPLAY, "verify", trace], SECONDS)
    return "" if not status and b" image 1 " in out else "verify: %s %s %s" % (status, out, err)


def each_case(tap, place):
    for case in run([PROGRAM], SECONDS)[1].decode().split():
        wrong = problem(place, case)
        tap.ok(not wrong, "%s: both images recorded and replayed" % case, wrong)


def one_thread_at_a_time(tap, place):
    for case in THREADS:
        trace, recorded = record(place, case, [PROGRAM, case], SREPLAY_THREADS="serial")
        status, out, err = replay(trace, 0, cwd=place)
        tap.ok((status, out) == (7, recorded[1]) and "in 2 images, 0 divergences: exact" in err,
               "%s with --threads=serial" % case, "%s %s %s" % (status, out, err))


def numbers_go_on(tap, place):
    trace, _ = record(place, "t", [PROGRAM, "chain"])
    images = numbers(trace)
    tap.ok(len(images) == 6 and all(a["last"] + 1 == b["first"] for a, b in zip(images, images[1:])),
           "each image's first SN follows the last one of the image before", images)
    status, out, _ = run([SREPLAY, "info", trace], SECONDS)
    tap.ok(not status and all(b"rank 0 image %d: %s, executed" % (i, PROGRAM.encode()) in out for i in range(5)) and
           b"rank 0 image 5: %s, ended with status 7" % PROGRAM.encode() in out, "info lists the images", out)


def by_other_programs(tap, place):
    """Wrappers of the distribution."""
    with open(os.path.join(place, "wrapper"), "w") as f:
        f.write("#!/bin/sh\nSET=it\nexport SET\nexec \"$@\"\n")
    os.chmod(os.path.join(place, "wrapper"), 0o755)
    for words in (["sh", "-c", "exec date +%N"], ["bash", "-c", "exec date +%N"], ["env", "A=b", "date", "+%N"],
                  ["env", "-i", "/bin/date", "+%N"], ["nice", "-n", "1", "date", "+%N"], ["./wrapper", "date", "+%N"],
                  ["./wrapper", "env", "-u", "SET", "./wrapper", "stdbuf", "-oL", "date", "+%N"],
                  ["sh", "-c", "echo kept > file; exec cat file"], ["sh", "-c", "exec head -1 < wrapper"],
                  [sys.executable, "-c", "import os; os.execvp('date', ['date', '+%N'])"]):
        trace, recorded = record(place, "t", words)
        status, out, err = replay(trace, 0, cwd=place)
        tap.ok(recorded[0] == 0 and recorded[1] and (status, out) == (0, recorded[1]) and " images, " in err,
               "%s: followed, and the replay prints the same" % " ".join(words), "%s\n%s %s %s" % (recorded, status, out, err))


def not_recorded(tap, place):
    """What nothing can be preloaded into: said in one line, and the recording ends there."""
    static = os.path.join(PROGRAMS, "execs_static")
    trace, (status, out, err) = record(place, "t", ["sh", "-c", "exec %s after it" % static])
    tap.ok(status == 7 and err.count("\n") == 1 and "%s, which is statically linked" % static in err,
           "a static program: one line says that it is not recorded", err)
    status, out, err = replay(trace, 0)
    tap.ok(status == 123 and "exact, up to where it executes a program that is not recorded" in err,
           "... and the replay ends there", "%s %s" % (status, err))
    status, out, _ = run([SREPLAY, "info", trace], SECONDS)
    tap.ok(b"executed %s, which is not recorded" % static.encode() in out, "... as info says", out)


def compared(tap, place):
    """What is executed is compared, and not executed."""
    mapped = os.path.join(place, "mapped")
    write_old(mapped, "one")
    trace, recorded = record(place, "t", [PROGRAM, "mapped-argument"])
    with open(mapped, "w") as f:
        f.write("two")
    status, out, err = replay(trace, 0, cwd=place)
    tap.ok(recorded[0] == 7 and status == 124 and "exec with other arguments than recorded" in err and
           "execs after one" in err and "execs after two" in err and b"two" not in out,
           "an exec with another argument: a divergence that shows both", "%s %s %s" % (status, out, err))


def first_divergence_ends(tap, place):
    """The next image is not replayed where the one before did something else."""
    trace, recorded = record(place, "t", ["sh", "-c", "cat mapped 2>/dev/null; exec %s after it" % PROGRAM])
    os.unlink(os.path.join(trace, "rank-0", "thread-0.srs"))
    status, out, err = replay(trace, 0, cwd=place)
    tap.ok(recorded[0] == 7 and status not in (0, 7) and b"it in process" not in out,
           "without the first image the second is not replayed", "%s %s %s" % (status, out, err))
    status, out, err = run([SREPLAY, "verify", trace], SECONDS)
    tap.ok(status == 1 and "rank 0 image 0 thread 0: its file" in err, "verify says which image's stream is missing", err)


class Daemon:
    def __enter__(self):
        logd = os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd")
        self.process = subprocess.Popen([logd], stderr=subprocess.DEVNULL)
        # Its socket is there before it listens.
        while run([logd, "--status"], SECONDS)[0] and self.process.poll() is None:
            time.sleep(0.01)

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()


def settings(trace, **more):
    """For a program that is recorded without the command."""
    return environment(LD_PRELOAD=os.path.join(os.path.realpath(BUILD), "shim", "libsreplay_verbs.so"),
                       SREPLAY_TRACE=trace, SREPLAY_RANK="0", **more)


def foreign_image(tap, place):
    """A process that is told to be another's next image is none."""
    with Daemon():
        trace, _ = record(place, "t", [PROGRAM, "execv"])
        shutil.rmtree(os.path.join(trace, "rank-0", "image-1"))
        told = settings(trace, SREPLAY_IMAGE="1,%s,5,0" % ("0" * 32))
        status, out, err = run([PROGRAM, "after", "it"], SECONDS, env=told)
    tap.ok(status == 7 and "is not the process that executed this program" in err and
           not os.path.exists(os.path.join(trace, "rank-0", "image-1")), "an image of another process is refused", err)


def without_command(tap, place):
    """A process that switches address randomisation off itself executes its program again: that is no image."""
    trace = os.path.join(place, "t.srec")
    with Daemon():
        recorded = run([PROGRAM, "chain"], SECONDS, cwd=place, env=settings(trace, SREPLAY_FROM_START="on"))
    status, out, err = replay(trace, 0, cwd=place)
    tap.ok((status, out) == (7, recorded[1]) and "in 6 images" in err, "recorded by LD_PRELOAD alone",
           "%s\n%s %s %s" % (recorded, status, out, err))


def is_gone(pid):
    """With all of its threads, which share its sockets."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z" and len(os.listdir("/proc/%d/task" % pid)) == 1
    except OSError:
        return True


def daemon_dies(tap, place):
    """What the first image had in its rings is handed to the next daemon."""
    trace, logd = os.path.join(place, "t.srec"), os.path.join(os.path.realpath(BUILD), "logd", "sreplay-logd")
    process = subprocess.Popen([SREPLAY, "record", "--from-start", "-o", trace, "--", "sh", "-c",
                                "echo ready; read line; echo $line; exec %s execv" % PROGRAM],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
    ready = process.stdout.readline()
    told = run([logd, "--status"], SECONDS)[1].decode()
    daemon = int(re.search(r"process (\d+)", told).group(1))
    os.kill(daemon, signal.SIGKILL)
    while not is_gone(daemon):
        time.sleep(0.01)
    out, _ = process.communicate(b"go on\n", SECONDS)
    status, again, err = replay(trace, 0, cwd=place)
    tap.ok(b"go on" in out and (status, again) == (7, ready + out) and "in 3 images, 0 divergences: exact" in err,
           "the daemon is killed within the first image: all is recorded", "%s %s %s %s" % (out, status, again, err))


def as_another_user(tap, place):
    """The daemon serves one user; a program that another one's process executes goes on with the connection it has."""
    if os.geteuid():
        return
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "setpriv", "--no-new-privs", "id", "-u"]
    for what, within in ("", []), (", of which the daemon may see nothing", ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]):
        socket = os.path.join(place, "user%d.sock" % bool(within))
        trace, recorded = record(place, "user", command, within, SREPLAY_SOCKET=socket)
        status, out, err = replay(trace, 0)
        tap.ok(recorded[:2] == (0, b"65534\n") and (status, out) == recorded[:2] and "in 4 images, 0 divergences: exact" in err,
               "what a process executes when it has become another user" + what, "%s %s" % (recorded, err))


def collected(tap, place):
    trace, recorded = record(place, "t", [PROGRAM, "chain"])
    copy = os.path.join(place, "copy.srec")
    status, _, err = run([SREPLAY, "collect", "-o", copy, trace], SECONDS)
    tap.ok(not status and read(os.path.join(copy, "rank-0", "image-5", "thread-0.srs")) ==
           read(os.path.join(trace, "rank-0", "image-5", "thread-0.srs")), "collect takes the images along", err)
    status, out, err = replay(copy, 0, cwd=place)
    tap.ok((status, out) == (7, recorded[1]) and "sandbox" not in err, "... and the copy is replayed, without a sandbox", err)
    shutil.rmtree(os.path.join(copy, "rank-0", "image-3"))
    shutil.copytree(os.path.join(trace, "rank-0", "image-3"), os.path.join(copy, "rank-0", "image-3"))
    status, out, err = replay(copy, 0, cwd=place)
    tap.ok("sandbox" in err, "an image that was copied otherwise is a stranger's", err)


def debugged(tap, place):
    trace, _ = record(place, "t", [PROGRAM, "execv"])
    sn = numbers(trace)[1]["first"]
    status, out, err = run([SREPLAY, "replay", "--gdb", "0", trace, "--", "-batch", "-ex", "sreplay break %d" % (sn + 2),
                            "-ex", "continue", "-ex", "sreplay"], SECONDS)
    tap.ok(b"SN %d" % (sn + 2) in out, "gdb debugs the last image, at its SNs", out + err.encode())
    trace, recorded = record(place, "t", [PROGRAM, "chain"])
    sn = numbers(trace)[2]["first"]
    status, out, err = run([SREPLAY, "replay", "--gdb", "0", "--image", "2", trace, "--", "-batch", "-ex",
                            "sreplay break %d" % (sn + 1), "-ex", "continue", "-ex", "sreplay"], SECONDS)
    tap.ok(b"SN %d" % (sn + 1) in out, "... or the image that is named", out + err.encode())
    status, out, err = run([SREPLAY, "replay", "--image", "2", trace], SECONDS)
    tap.ok(status == 0 and recorded[1].startswith(out) and out.count(b"\n") == 3 and "image 2 replayed" in err,
           "--image ends the replay with that image", "%s %s %s" % (status, out, err))
    status, out, err = run([SREPLAY, "replay", "--image", "6", trace], SECONDS)
    tap.ok(status == 125 and "has no image 6, only 0 to 5" in err, "an image that is not there", err)


if __name__ == "__main__":
    run_functions([each_case, one_thread_at_a_time, numbers_go_on, by_other_programs, not_recorded, compared, first_divergence_ends,
                   foreign_image, without_command, daemon_dies, as_another_user, collected, debugged])
