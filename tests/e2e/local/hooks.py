#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay races --local=hooks`: programs compiled with -fsanitize=thread and linked with libsreplay_access.so.

    hooks.py [CASE...]

The cases of races.py, recorded from a program with hooks: what is found without a replay must be what the case has, but for what
code without hooks does.  Each recording replays, with the accesses that it has.  And a program of several threads, by gcc and by clang.
"""

import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, fresh, run, some
from races import LITMUS, NONE, PROGRAMS, SECONDS, SOFTDEV, find

HERE = os.path.dirname(os.path.realpath(__file__))
# The library of these programs has no hooks: that it waits is not seen.  A word that a CPU loads counts as a flag.
OTHERS = {"load-tail-flag": {"data"}, "load-tail-there": {"data"}, "inline-write": NONE, "load-twice-racing": NONE}
# What its READs are for is known by their stacks, which a replay finds.
BY_STACK = "store-read-once"
# These change what they send: their replays find that.
RACING = ("gather-racing", "gather-store-racing", "gather-write", "scatter-store-racing", "receive-store-racing")
THREADS = os.path.join(HERE, "..", "..", "programs", "verbs", "hooked_threads.c")


def record(directory, name):
    out, trace = fresh(os.path.join(directory, "out")), os.path.join(directory, name + ".srec")
    status, _, err = run([SOFTDEV, "--", os.path.join(PROGRAMS, "pgasrun"), "-n", "3", "-t", str(SECONDS), "-o", out, "-w", "0,1,2",
                          "%s record --clocks -o %s --rank %%r --group 0,1,2 --" % (SREPLAY, trace), os.path.join(PROGRAMS, "races_hooked"), name], SECONDS)
    said = [open(os.path.join(out, f), errors="replace").read() for f in sorted(os.listdir(out))] if status else []
    return trace, err + "\n".join(said) if status else None


def litmus(tap, directory, name):
    trace, failed = record(directory, name)
    expected = OTHERS.get(name, LITMUS[name])
    loud, notes, status = find(trace, "--local", "hooks") if failed is None else (None, None, failed)
    # Code without hooks may have stored what was read: such a race may be no more than possible.
    found, possible = {r["class"] for r in loud or []}, {r["class"] for r in notes or [] if r["evidence"] == "possible"}
    tap.ok(loud is not None and found <= expected <= found | possible, "%s: %s" % (name, ", ".join(expected) or "none"),
           "%s\n%s\n%s" % (status, loud, notes))
    if name not in RACING:
        status, _, err = run([SREPLAY, "replay", "--quiet", trace], SECONDS)
        tap.ok(status == 0, name + ": the replay is exact", err)


def threads(tap, directory, compiler):
    """Two threads store into registered memory between calls."""
    name = "threads, by " + compiler
    if not shutil.which(compiler):
        tap.ok(True, name + " # SKIP there is none")
        return
    path, trace, libs = os.path.join(directory, compiler), os.path.join(directory, compiler + ".srec"), os.path.join(os.path.realpath(BUILD), "shim", "access")
    status, _, err = run([compiler, "-O1", "-g", "-fno-builtin", "-fsanitize=thread", "-c", THREADS, "-o", path + ".o"], SECONDS)
    if not status:
        status, _, err = run(["cc", path + ".o", "-o", path, "-L" + libs, "-lsreplay_access", "-Wl,-rpath," + libs, "-libverbs",
                              "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset"], SECONDS)
    tap.ok(status == 0, name + ": it is linked without the sanitizer's runtime", err)
    status, out, err = run([SOFTDEV, "--", path], SECONDS)
    tap.ok(status == 0, name + ": it runs without a recording", err)
    status, _, err = run([SOFTDEV, "--", SREPLAY, "record", "--clocks", "-o", trace, "--", path], SECONDS)
    tap.ok(status == 0, name + ": it is recorded", err)
    _, out, err = run([SREPLAY, "races", "--local", "hooks", "--json", trace], SECONDS)
    first = json.loads(out.decode().splitlines()[0])
    # 64 words of one thread, that are one store as they lie behind each other; 64 every other one; memset; the load of each.
    tap.ok(first["collected"]["stores"] == 66 and first["collected"]["loads"] == 64, name + ": what it stores and loads", "%s %s" % (first, err))
    out = run([SREPLAY, "dump", "--json", trace], SECONDS)[1]
    kept = sum(call["in"]["n"] for call in map(json.loads, out.decode().splitlines()) if call.get("call") == "sreplay_on_accesses")
    tap.ok(0 < kept <= 4, name + ": those of an instruction that are equally far from each other are kept as one", kept)
    status, _, err = run([SREPLAY, "replay", "--quiet", trace], SECONDS)
    tap.ok(status == 0, name + ": the replay is exact", err)


def without(tap, directory):
    trace = os.path.join(directory, "without.srec")
    run([SOFTDEV, "--", SREPLAY, "record", "--clocks", "--from-start", "-o", trace, "--", "true"], SECONDS)
    status, _, err = run([SREPLAY, "races", "--local", "hooks", trace], SECONDS)
    tap.ok(status in (0, 1) and "0 of 1 ranks have hooks" in err, "a program without hooks: that is said", "%s %s" % (status, err))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in sys.argv[1:] or some([name for name in LITMUS if name != BY_STACK], 7):
            litmus(tap, directory, name)
        for compiler in ("gcc", "clang"):
            threads(tap, directory, compiler)
        without(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
