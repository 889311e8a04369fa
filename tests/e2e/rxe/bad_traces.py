#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `sreplay` makes of traces that are cut, damaged, killed, of another program or not there.

    bad_traces.py OUTDIR      (filled by record_pingpong.py and record_killed.py)
    bad_traces.py alone       recorded here, on the software device (tests/lib/softdev)
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, read, replay

CUT_REPLAYS = 12
LOOPBACK = os.path.join(os.path.realpath(BUILD), "tests", "programs", "loopback")


def sreplay(*arguments):
    r = subprocess.run([SREPLAY] + list(arguments), capture_output=True, text=True, timeout=60,
                       errors="replace")
    return r.returncode, r.stdout, r.stderr


def copy_of(trace, directory, name):
    target = os.path.join(directory, name + ".srec")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(trace, target)
    return target


def stream_of(trace, rank):
    return os.path.join(trace, "rank-%d" % rank, "thread-0.srs")


def last_frame(stream):
    """Offset of the stream's last frame, found by the frame's magic."""
    return stream.rfind(b"sfrm")


def cut_tails(tap, trace, directory, most=1 << 30):
    """At each byte of the last frame, or at so many places of it."""
    target = copy_of(trace, directory, "cut")
    path = stream_of(target, 1)
    whole = read(path)
    start = last_frame(whole)
    lines = len(sreplay("dump", "--rank", "1", trace)[1].splitlines())
    bad = []
    cuts = range(start + 1, len(whole), (len(whole) - start) // most + 1)
    for size in cuts:
        with open(path, "wb") as f:
            f.write(whole[:size])
        status, out, err = sreplay("dump", "--rank", "1", target)
        if status or path not in err or len(out.splitlines()) >= lines:
            bad.append("%d of %d bytes: status %d\n%s" % (size, len(whole), status, err))
            if len(bad) > 3:
                break
    where = "each of" if cuts.step == 1 else "%d places of" % len(cuts)
    tap.ok(not bad, "a tail cut at %s the last frame's %d bytes is read up to there, with a warning"
           % (where, len(whole) - start), "\n".join(bad))

    bad = []
    step = max(1, (len(whole) - start) // CUT_REPLAYS)
    for size in range(start + 1, len(whole), step):
        with open(path, "wb") as f:
            f.write(whole[:size])
        status, out, err = replay(target, 1)
        if status != 123 or "the trace ends here" not in err or "0 divergences" not in err:
            bad.append("%d bytes: status %s\n%s" % (size, status, err))
    tap.ok(not bad, "replays of cut traces stop at the cut and say so", "\n".join(bad))


def damaged(tap, trace, directory):
    target = copy_of(trace, directory, "damaged")
    path = stream_of(target, 1)
    data = bytearray(read(path))
    data[len(data) // 2] ^= 1
    with open(path, "wb") as f:
        f.write(data)
    status, _, err = sreplay("dump", "--rank", "1", target)
    tap.ok(status == 125 and path in err, "a flipped bit in the middle is an error that names the file", err)


def killed(tap, trace):
    status, _, err = replay(trace, 1, timeout=120)
    tap.ok(status == 123 and "0 divergences: exact, up to where the recorded program was killed" in err,
           "a program killed half-way replays up to there", "status %s\n%s" % (status, err))
    calls = int((re.search(r"(\d+) calls replayed", err) or [0, 0])[1])
    tap.ok(calls > 500, "it had got somewhere (%d calls)" % calls)


def wrong_executable(tap, trace, directory, recorded="/usr/bin/ibv_rc_pingpong"):
    target = copy_of(trace, directory, "wrong")
    path = os.path.join(target, "rank-1", "process.json")
    with open(path) as f:
        text = f.read()
    other = os.path.join(directory, os.path.basename(recorded))
    shutil.copy("/usr/bin/ibv_uc_pingpong", other)
    with open(path, "w") as f:
        f.write(text.replace(recorded, other))
    status, out, err = replay(target, 1)
    tap.ok(status == 125 and other in err and "build id" in err and not out,
           "another executable is refused before it runs, by name", "status %s\n%s" % (status, err))
    os.remove(other)
    status, out, err = replay(target, 1)
    tap.ok(status == 125 and other in err and not out, "a missing executable is named",
           "status %s\n%s" % (status, err))


def not_a_trace(tap, trace, directory):
    status, _, err = replay(os.path.join(directory, "nowhere.srec"), 0)
    tap.ok(status == 125 and "nowhere.srec" in err, "a missing trace is named", err)
    status, _, err = replay(trace, 7)
    tap.ok(status == 125 and "ranks 7" in err and "0 1" in err, "a wrong rank is answered with those there are", err)
    r = subprocess.run([SREPLAY, "replay", trace], capture_output=True, text=True, timeout=60)
    tap.ok(r.returncode == 0 and "all 2 ranks ended as recorded" in r.stderr,
           "without a choice all ranks are replayed", r.stderr)
    target = copy_of(trace, directory, "version")
    path = os.path.join(target, "manifest.json")
    with open(path) as f:
        manifest = json.load(f)
    manifest["version"] = 999
    with open(path, "w") as f:
        json.dump(manifest, f)
    status, _, err = replay(target, 0)
    tap.ok(status == 125 and "999" in err, "a trace of a later version is refused, with the version", err)
    manifest["version"] = 1
    with open(path, "w") as f:
        json.dump(manifest, f)
    for command in ("replay", "info", "dump", "verify", "process"):
        status, _, err = sreplay(command, target)
        tap.ok(status == 125 and path in err and "version 1" in err and "record the program again" in err,
               "%s refuses a trace of version 1, and says what to do" % command, "status %s\n%s" % (status, err))


def pingpong_shorter(argv):
    argv[argv.index("-n") + 1] = "099"


def loopback_shorter(argv):
    argv[-1] = "1"


def changed_arguments(tap, trace, directory, change=pingpong_shorter):
    """The program is told to do something else than it was recorded doing."""
    target = copy_of(trace, directory, "changed")
    path = os.path.join(target, "rank-1", "process.json")
    with open(path) as f:
        process = json.load(f)
    change(process["arguments"])
    with open(path, "w") as f:
        json.dump(process, f)
    status, _, err = replay(target, 1)
    tap.ok(status == 124 and re.search(r"rank 1 thread 0 SN \d+: the program called", err)
           and "1 divergences" in err, "a program that does otherwise is stopped at the first difference", err)


def tools(tap, trace):
    status, out, err = sreplay("info", trace)
    tap.ok(status == 0 and "2 ranks" in out and "poll_cq" in out and "ended with status 0" in out,
           "info tells ranks, calls and ends", out + err)
    status, out, err = sreplay("verify", trace)
    tap.ok(status == 0 and out.count(": whole,") == 2, "verify finds a good trace whole", out + err)
    status, out, err = sreplay("dump", "--rank", "0", "--sn", "3..5", trace)
    numbers = [int(line.split()[0]) for line in out.splitlines()[1:]]
    tap.ok(status == 0 and numbers and min(numbers) >= 3 and max(numbers) <= 5,
           "dump --sn keeps to the range", out + err)
    status, out, err = sreplay("dump", "--rank", "1", "--json", trace)
    records = [json.loads(line) for line in out.splitlines()]
    calls = [r.get("call") for r in records]
    tap.ok(status == 0 and "ibv_open_device" in calls and "post_send" in calls,
           "dump --json is an object per line", err)


def alone(tap):
    """Two ranks of one trace, each of which talks to itself."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ.update(SREPLAY_SOCKET=os.path.join(directory, "logd.sock"),
                          LD_LIBRARY_PATH=os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev"))
        trace = os.path.join(directory, "loopback.srec")
        for rank in (0, 1):
            sreplay("record", "-o", trace, "--rank", str(rank), "--", LOOPBACK, str(rank + 1), "2")
        tools(tap, trace)
        cut_tails(tap, trace, directory, 100)
        damaged(tap, trace, directory)
        wrong_executable(tap, trace, directory, LOOPBACK)
        not_a_trace(tap, trace, directory)
        changed_arguments(tap, trace, directory, loopback_shorter)


def main():
    tap = Tap()
    if sys.argv[1:] == ["alone"]:
        alone(tap)
        tap.finish()
    directory = sys.argv[1]
    work = fresh(os.path.join(directory, "bad"))
    trace = os.path.join(directory, "rc-poll-0.srec")
    tools(tap, trace)
    cut_tails(tap, trace, work)
    damaged(tap, trace, work)
    killed(tap, os.path.join(directory, "killed.srec"))
    wrong_executable(tap, trace, work)
    not_a_trace(tap, trace, work)
    changed_arguments(tap, trace, work)
    tap.finish()


if __name__ == "__main__":
    main()
