#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay confirm`: races of programs on the software device come in both orders; what is ordered does not.

    confirm.py [CASE...]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, IN_CHROOT, SREPLAY, fresh, run, run_functions, some

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")
SECONDS = 120


def has_namespaces():
    """May this user's runs have private files?"""
    return any(run(["unshare", option, "true"], 10)[0] == 0 for option in ("-m", "-Um"))


PRIVATE = has_namespaces()


def job(directory, words, ranks, trace):
    """The line that starts a job: each rank with a recorder of its own."""
    group = ",".join(str(i) for i in range(ranks))
    return [os.path.join(PROGRAMS, "pgasrun"), "-n", str(ranks), "-t", "60", "-o", directory, "-w", group,
            "%s record -q --clocks -o %s --rank %%r --group %s --" % (SREPLAY, trace, group),
            os.path.join(PROGRAMS, words[0])] + words[1:]


def find(directory, name, ranks, notes=False):
    """Records and searches; the trace and its races, but for notes (notes: with them)."""
    out, trace = fresh(os.path.join(directory, "out")), os.path.join(directory, "recorded.srec")
    shutil.rmtree(trace, ignore_errors=True)
    run([SOFTDEV, "--"] + job(out, name.split(), ranks, trace), SECONDS)
    status, _, err = run([SREPLAY, "races", "-q", trace], SECONDS)
    if status not in (0, 1):
        raise SystemExit(err)
    with open(os.path.join(trace, "races.json"), encoding="utf-8") as f:
        return trace, [r for r in json.load(f)["races"] if notes or r["severity"] != "note"]


def confirm(directory, trace, name, ranks, *options):
    """The exit status, what was found of each race, and the messages."""
    out = os.path.join(directory, "out")
    status, text, err = run([SOFTDEV, "--", SREPLAY, "confirm", "--json"] + ([] if PRIVATE else ["--live-files"]) + list(options) + [trace, "--"] +
                            job(out, name.split(), ranks, trace), SECONDS)
    return status, [json.loads(line) for line in text.decode().splitlines()], err


def replays(trace, *arguments):
    return run([SREPLAY, "replay", "-q"] + list(arguments) + [trace], SECONDS)


def is_forced(race):
    return [o["forced"] for o in race["confirmation"]["orders"]] == [True, True]


def check_confirmed(tap, directory, name, ranks, effects):
    trace, races = find(directory, name, ranks)
    status, found, err = confirm(directory, trace, name, ranks)
    right = status == 1 and len(found) == len(races) and all(r["evidence"] == "confirmed" and is_forced(r) for r in found)
    effect = found[0]["confirmation"]["effect"] if found else None
    tap.ok(right and effect in effects, name + ": confirmed in both orders",
           "%s of %d races, effect %s, status %s %s\n%s" % (len(found), len(races), effect, status, err, "\n".join(json.dumps(r["confirmation"]) for r in found)))
    return trace, found


def debug(tap, trace):
    status, out, err = run([SREPLAY, "replay", "--race", "1:ba", trace], SECONDS)
    tap.ok(status == 0 and b"-> " in out and b"steal.c:175" in out and b"order ba" in out, "replay --race prints both accesses", out + err.encode())
    status, _, err = run([SREPLAY, "replay", "--race", "1", "--gdb", "7", trace], SECONDS)
    tap.ok(status == 125 and "makes none of the two" in err, "--gdb of a rank without an access", err)
    if not shutil.which("gdb"):
        return
    for rank, line in ("1", b"steal.c:23"), ("0", b"steal.c:175"):
        status, out, err = run([SREPLAY, "replay", "--race", "1:ab", "--gdb", rank, trace, "--", "-batch", "-ex", "continue", "-ex", "bt"],
                               SECONDS)
        tap.ok(line in out, "gdb stops at the access of rank %s" % rank, out + err.encode())


def steal(tap, directory):
    """The write of the items and a load of them: it depends on their order, and on that of other accesses, whether the answer is right."""
    trace, found = check_confirmed(tap, directory, "steal racing 2", 2, {"result", "value"})
    orders = found[0]["confirmation"]["orders"] if found else []
    # In one order the load finds what was there before, in the other one what was written.
    values = [{a["value"] for a in o["accesses"]} for o in orders]
    tap.ok([len(v) for v in values] in ([1, 2], [2, 1]), "and the load finds the one or the other", values)
    for order in ("ab", "ba"):
        for rank in "0", "1":
            status, _, err = replays(os.path.join(trace, "races", "1-%s.srec" % order), "-r", rank)
            tap.ok(status in (0, 1) and "0 divergences" in err, "rank %s of the order %s replays" % (rank, order), err)
    debug(tap, trace)
    tap.ok(os.listdir(os.path.join(directory, "out")) != [], "the recording has written files", "")
    fresh(os.path.join(directory, "out"))
    status, found, err = confirm(directory, trace, "steal fenced 2", 2, "--tries", "2")
    tap.ok(status == 0 and found and not found[0]["confirmation"]["confirmed"],
           "steal fenced: the same accesses come in one order only", "%s %s\n%s" % (status, err, found))
    left = os.listdir(os.path.join(directory, "out"))
    tap.ok(not left or not PRIVATE, "what the runs wrote to files is gone", left)


def kinds(tap, directory):
    for name in some(("store-write-racing", "write-write-racing", "gather-store-racing", "receive-store-racing", "atomic-write"), 2):
        check_confirmed(tap, directory, "races " + name, 3, {"value"})
    # What the ranks tell each other before, numbers of queue pairs among it, is other in each run.
    check_confirmed(tap, directory, "races write-write-shown", 3, {"result"})


def instructions(tap, directory):
    """A store of the bytes that are there already, and a load from memory that peers cannot write: their instructions are seen."""
    for name in some(("scatter-load-racing", "gather-same-store-racing"), 2):
        trace, found = check_confirmed(tap, directory, "races " + name, 3, {"value", "same"})
        ranks = {a["rank"] for r in found for a in r["accesses"]}
        for order in ("ab", "ba"):
            for rank in ranks:
                status, _, err = replays(os.path.join(trace, "races", "1-%s.srec" % order), "-r", str(rank))
                tap.ok(status == 0 and "0 divergences" in err, "%s: rank %d of the order %s replays" % (name, rank, order), err)


def find_wrapped(directory):
    # One of them may be no more than possible: local/races says why.
    trace, races = find(directory, "knapsack race 6 40 100", 4, True)
    return trace, [r for r in races if {a["kind"] for a in r["accesses"]} == {"store", "read"} and
                   any(a["kind"] == "read" and "main (knapsack.c:67)" in a["frames"] for a in r["accesses"])]


def wrapped(tap, directory):
    """All READs are posted in one function: the two races of Park et al. are told apart by its callers."""
    trace, races = find_wrapped(directory)
    if not races:
        print("# the owner was overtaken (local/races); recorded again", flush=True)
        trace, races = find_wrapped(directory)
    reads = [a for r in races for a in r["accesses"] if a["kind"] == "read"]
    tap.ok(len(races) >= 2 and len({a["stack"] for a in reads}) == 2 and len({a["code"] for a in reads}) == 1,
           "knapsack race: two races", races)
    status, found, err = confirm(directory, trace, "knapsack race 6 40 100", 4, "--race", str(races[0]["id"]))
    tap.ok(status == 1 and is_forced(found[0]), "one of them is confirmed", "%s %s\n%s" % (status, err, json.dumps(found, indent=1)))
    status, text, err = run([SREPLAY, "races", "-q", "--json", trace], SECONDS)
    evidence = [json.loads(line)["evidence"] for line in text.decode().splitlines()[1:]]
    tap.ok(status == 1 and evidence.count("confirmed") == 1, "sreplay races says so from then on", evidence)


def ordered(tap, directory):
    """The accesses of a race, looked for in programs that order them."""
    trace, _ = find(directory, "races write-write-racing", 3)
    for name, tries in ("barrier", 1), ("flag", 2), ("lock", 4):
        status, found, err = confirm(directory, trace, "races write-write-" + name, 3, "--order", "ab", "--tries", str(tries))
        tap.ok(status == 0 and found and not found[0]["confirmation"]["confirmed"], "write-write-%s: nothing is confirmed" % name,
               "%s %s\n%s" % (status, err, found))


def failures(tap, directory):
    out, trace = fresh(os.path.join(directory, "out")), os.path.join(directory, "none.srec")
    run([SOFTDEV, "--"] + job(out, ["races", "write-write-racing"], 3, trace), SECONDS)
    touched = os.path.join(directory, "touched")
    status, _, err = run([SREPLAY, "confirm", "--live-files", trace, "--", "touch", touched], SECONDS)
    tap.ok(status == 125 and "first sreplay races" in err and not os.path.exists(touched), "without races.json nothing runs", err)
    run([SREPLAY, "races", "-q", trace], SECONDS)
    status, _, err = run([SREPLAY, "confirm", "--race", "77", trace, "--", "true"], SECONDS)
    tap.ok(status == 125 and "has no race 77" in err, "a race that is not there", err)
    status, _, err = run([SREPLAY, "confirm", trace], SECONDS)
    tap.ok(status == 125 and "which job?" in err, "without a command", err)
    shutil.rmtree(os.path.join(trace, "races"))
    with open(os.path.join(trace, "races"), "w", encoding="utf-8"):
        pass
    status, _, err = run([SREPLAY, "confirm", "--live-files", "--all", trace, "--", "touch", touched], SECONDS)
    tap.ok(status == 125 and not os.path.exists(touched), "a directory that cannot be written fails before anything starts", err)
    os.unlink(os.path.join(trace, "races"))
    status, _, err = run([SREPLAY, "confirm", "--live-files", trace, "--", "touch", touched], SECONDS)
    tap.ok(status == 125 and "recorded nothing" in err and os.path.exists(touched), "a command without verbs; --live-files", err)

def reasons(tap, directory):
    """An order that is not reached: the report says why, and what to do."""
    out, trace = fresh(os.path.join(directory, "out")), os.path.join(directory, "reasons.srec")
    words = ["races", "write-write-racing"]
    run([SOFTDEV, "--"] + job(out, words, 3, trace), SECONDS)
    run([SREPLAY, "races", "-q", trace], SECONDS)
    whole = job(out, words, 3, trace)
    bare = whole[:7] + whole[10:] # without the recorder of each rank
    for text, command, expected in (("no rank has a recorder", bare, "rank 1 was not recorded, only 1 of the 3 ranks"),
                                    ("too few ranks", job(out, words, 2, trace), "had 2 ranks, the recording 3"),
                                    ("another program", job(out, ["nqueens", "6", "2"], 3, trace), "never came to the place of a: run the same program"),
                                    ("no job", ["true"], "it has to be the line that starts the job")):
        status, found, err = run([SOFTDEV, "--", SREPLAY, "confirm", "--json", "--live-files", "--order", "ab", "--tries", "1", trace, "--"] + command, SECONDS)
        why = [w for line in found.decode().splitlines() for w in json.loads(line)["confirmation"]["orders"][0]["why_not"]]
        tap.ok(status in (0, 125) and expected in err + " ".join(why), "confirm says why: " + text, "%s %s %s" % (status, why, err))

def beside_chroot(tap, directory):
    """The /sys of a chroot is hidden from a run, and with it what is mounted below it, which has no place any more."""
    mounts = 'mount -t sysfs none "$0" && mount -t tmpfs none "$0/kernel" && exec "$@"'
    beside = ["unshare", "-m", "sh", "-c", mounts, fresh(os.path.join(directory, "sys"))]
    if run(beside + ["true"], 10)[0]:
        return  # this user may not mount
    trace, _ = find(directory, "steal racing 2", 2)
    status, _, err = run(beside + [SOFTDEV, "--", SREPLAY, "confirm", trace, "--"] +
                         job(fresh(os.path.join(directory, "out")), ["steal", "racing", "2"], 2, trace), SECONDS)
    tap.ok(status == 1, "a race is confirmed beside a chroot with a /sys of its own", "%s %s" % (status, err))


def inside_chroot(tap, directory):
    """A process with mounts of its own knows its executable by the path outside."""
    if run(IN_CHROOT + [fresh(os.path.join(directory, "chroot")), "true"], 10)[0]:
        return
    trace, _ = find(directory, "steal racing 2", 2)
    status, _, err = run(IN_CHROOT + [fresh(os.path.join(directory, "chroot")), SOFTDEV, "--", SREPLAY, "confirm", trace, "--"] +
                         job(fresh(os.path.join(directory, "out")), ["steal", "racing", "2"], 2, trace), SECONDS)
    tap.ok(status == 1, "a race is confirmed inside a chroot", "%s %s" % (status, err))


def with_mounts_in_it(tap, directory):
    """In a user namespace there is no overlay of a directory in which something is mounted, as in a container's /etc: it is copied."""
    mounted = fresh(os.path.join(directory, "mounted"))
    as_another = 'mount --bind "$0" "$0" && exec setpriv --reuid=65534 --regid=65534 --clear-groups env -u TMPDIR "$@"'
    within = ["unshare", "-m", "sh", "-c", as_another, mounted]
    if run(within + ["unshare", "-Um", "true"], 10)[0]:
        return
    # That user can go there.
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        within[-1] = fresh(os.path.join(place, "mounted"))
        trace, _ = find(place, "steal racing 2", 2)
        out = fresh(os.path.join(place, "out"))
        subprocess.run(["chown", "-R", "65534:65534", place], check=True)
        os.environ["SREPLAY_SOCKET"] = os.path.join(place, "other.sock")
        status, _, err = run(within + [SOFTDEV, "--", SREPLAY, "confirm", trace, "--"] + job(out, ["steal", "racing", "2"], 2, trace), SECONDS)
        tap.ok(status == 1, "a race is confirmed where something is mounted beside the files", "%s %s" % (status, err))
        tap.ok(not os.listdir(out), "... and what the runs wrote is gone", os.listdir(out))


def on_overlays(tap, directory):
    """The program's directory is an overlay, as a container's files are: on another one the kernel names files by their paths in the lower one."""
    within = ["unshare", "-m", "sh", "-c", 'mount -t overlay overlay -o "lowerdir=$0:$1" "$1" && shift && exec "$@"',
              fresh(os.path.join(directory, "nothing")), PROGRAMS]
    if run(within + ["true"], 10)[0]:
        return
    trace, _ = find(directory, "races scatter-load-racing", 3)
    status, _, err = run(within + [SOFTDEV, "--", SREPLAY, "confirm", trace, "--"] +
                         job(fresh(os.path.join(directory, "out")), ["races", "scatter-load-racing"], 3, trace), SECONDS)
    tap.ok(status == 1, "a race of a load is confirmed where overlays lie on each other", "%s %s" % (status, err))
    status, _, err = replays(os.path.join(trace, "races", "1-ab.srec"), "-r", "0")
    tap.ok(status == 0 and "0 divergences" in err, "... and replays", err)


if __name__ == "__main__":
    run_functions([beside_chroot, inside_chroot, with_mounts_in_it, on_overlays, steal, kinds, instructions, wrapped, ordered, failures, reasons])
