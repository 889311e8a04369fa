#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What sreplay says at its edges: what was recorded, why nothing was, what to do; and gdb at the end of a program.

    edge.py [CASE...]

Needs no RDMA.
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, replay_problem, run, run_functions  # noqa: E402

APPS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")
CASES = []


def case(function):
    CASES.append(function)
    return function


def record(*arguments, **options):
    env = dict(os.environ, SREPLAY_QUIET="off", **options.pop("variables", {}))
    status, out, err = run([SREPLAY, "record", *arguments], 60, env=env, **options)
    return status, out.decode(errors="replace"), err


@case
def python_imports(tap, place):
    """Scripts whose own modules name the library."""
    package = os.path.join(place, "stack", "transport")
    os.makedirs(package)
    code = "import ctypes\nn = ctypes.c_int()\nctypes.CDLL('libibverbs.so.1').ibv_get_device_list(ctypes.byref(n))\n"
    for path, text in (("transport/__init__.py", "from .base import count\n"), ("transport/base.py", "from . import (table, rdma)\ncount = rdma.n.value\n"),
                       ("transport/table.py", "from . import base  # a circle\n"), ("transport/rdma.py", code),
                       ("main.py", "import os, transport as t\nprint(t.count)\n"), ("transport/__main__.py", "from transport import count\nprint(count)\n")):
        with open(os.path.join(place, "stack", path), "w") as f:
            f.write(text)
    for name, arguments in (("script", ["stack/main.py"]), ("module", ["-m", "transport"])):
        trace = os.path.join(place, "imports-%s.srec" % name)
        status, out, err = record("-o", trace, "--", sys.executable, *arguments, variables={"LD_LIBRARY_PATH": SOFTDEV},
                                  cwd=place if name == "script" else os.path.join(place, "stack"))
        problem = replay_problem(trace, 0, out.encode())
        tap.ok(out == "1\n" and "late" not in err and not problem, "and one whose modules do: " + name, out + err + problem)


def the_end(tap, place):
    program = os.path.join(APPS, "environment")
    status, _, err = record("-o", "a.srec", "--", program, cwd=place)
    tap.ok(status == 7 and re.fullmatch(r"sreplay: recorded 1 rank to a\.srec \([\d.]+ kB\)\n", err), "a recording ends with what it has", err)
    status, _, err = record("-q", "-o", "b.srec", "--", program, cwd=place)
    tap.ok(status == 7 and not err, "... and with nothing, if it is to be quiet", err)
    script = "for r in 1 2 3; do SREPLAY_RANK=$r %s & done; wait" % program
    status, _, err = record("-o", "c.srec", "--", "sh", "-c", script, cwd=place)
    tap.ok(re.fullmatch(r"sreplay: recorded 3 ranks to c\.srec \([\d.]+ kB\)\n", err), "of three processes, three ranks", err)
    status, _, err = record("-o", "a.srec", "-r", "5", "--", program, cwd=place)
    tap.ok("recorded 1 rank to a.srec" in err, "of a trace that has others already, one's own", err)
    status, _, err = record("--from-start", "-o", "starts.srec", "--", "dash", "-c", "/bin/true; /bin/true; exit 4", cwd=place)
    tap.ok(status == 4 and "2 processes that it started are not in its recording" in err, "what is not recorded is said", err)
    late = os.path.join(APPS, "late")
    status, _, err = record("-o", "late.srec", "--", late, cwd=place, variables={"LD_LIBRARY_PATH": SOFTDEV})
    tap.ok(status == 0 and "recorded 1 rank" in err and "1 process loaded libibverbs late" in err and "--from-start" in err,
           "that a trace cannot be replayed is said at once, and the cure", err)
    trace = os.path.join(place, "plugin.srec")
    status, _, err = record("-o", trace, "--", late, late + "_module.so", cwd=place, variables={"LD_LIBRARY_PATH": SOFTDEV})
    problem = replay_problem(trace, 0, b"")
    tap.ok(status == 0 and "late" not in err and not problem, "a program that is told of its plugin is recorded from its start", err + problem)
    for name, arguments in (("names", []), ("unloads", [late + "_module.so"])):
        trace = os.path.join(place, name + ".srec")
        status, out, err = record("-o", trace, "--", os.path.join(APPS, "unloads"), *arguments, cwd=place, variables={"LD_LIBRARY_PATH": SOFTDEV})
        problem = replay_problem(trace, 0, out.encode())
        tap.ok(status == 0 and out.count("round") == 3 and "late" not in err and not problem,
               "one that loads %s and unloads it, again and again: the addresses are the same" % (arguments and "a plugin" or "libibverbs itself"),
               out + err + problem)
    python = os.path.join(place, "script.py")
    with open(python, "w") as f:
        f.write("import ctypes\nverbs = ctypes.CDLL('libibverbs.so.1')\nn = ctypes.c_int()\nverbs.ibv_get_device_list(ctypes.byref(n))\nprint(n.value)\n")
    trace = os.path.join(place, "script.srec")
    status, out, err = record("-o", trace, "--", sys.executable, python, cwd=place, variables={"LD_LIBRARY_PATH": SOFTDEV})
    problem = replay_problem(trace, 0, out.encode())
    tap.ok(out == "1\n" and "late" not in err and not problem, "so is Python whose script names the library", out + err + problem)
    python_imports(tap, place)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, names in os.walk(os.path.join(place, "c.srec")) for f in names if f.endswith(".srs"))
    said = float(re.search(r"\(([\d.]+) kB", record("-o", "d.srec", "--", "sh", "-c", script, cwd=place)[2])[1]) * 1000
    tap.ok(0.5 * size < said < 2 * size, "the size is that on disk", "%s %s" % (size, said))


@case
def launchers(tap, place):
    """Tools that print libibverbs's name, and sreplay itself, start the program, and are none."""
    softdev, trace = os.path.join(SOFTDEV, "softdev"), os.path.join(place, "driver.srec")
    program = os.path.join(APPS, "environment")
    status, out, err = record("-o", trace, "--", softdev, "-L", SOFTDEV, "--", program, cwd=place)
    problem = replay_problem(trace, 7, out.encode())
    tap.ok(status == 7 and "recorded 1 rank" in err and not problem, "the driver of the software device is not the rank", err + problem)
    trace = os.path.join(place, "nested.srec")
    status, out, err = record("-o", trace, "--", SREPLAY, "record", "-q", "-o", trace, "--", program, cwd=place)
    problem = replay_problem(trace, 7, out.encode())
    tap.ok(status == 7 and not problem, "nor is sreplay, where it starts a rank within a recorded job", err + problem)


@case
def nothing(tap, place):
    status, _, err = record("-o", "a.srec", "--", "true", cwd=place)
    tap.ok(status == 0 and "nothing was recorded" in err and "add --from-start" in err, "--from-start is named where it is the cure", err)
    source = os.path.join(place, "s.c")
    with open(source, "w") as f:
        f.write("int main(void) { return 3; }\n")
    subprocess.run(["cc", "-static", "-o", os.path.join(place, "still"), source], check=True)
    for options in ([], ["--from-start"]):
        status, _, err = record(*options, "-o", "b.srec", "--", "./still", cwd=place)
        tap.ok(status == 3 and "./still is statically linked" in err and "--from-start" not in err, "a static program is named as one %s" % options, err)
    status, _, err = record("-o", "c.srec", "--", "still", cwd=place, variables={"PATH": place + ":/usr/bin:/bin"})
    tap.ok("still is statically linked" in err, "... also where PATH leads to it", err)


@case
def small_stacks(tap, place):
    """As goroutines make them: system calls on a stack that has no room for the frames of trapped ones."""
    program = os.path.join(APPS, "small_stacks")
    for threads in ("serial", "parallel"):
        trace = os.path.join(place, threads + ".srec")
        status, out, err = record("-q", "--from-start", "--threads=" + threads, "-o", trace, "--", program, cwd=place)
        tap.ok(status == 3 and not err, "system calls on stacks of 2 KiB, interrupted by handlers that jump away", err)
        problem = replay_problem(trace, 3, out.encode())
        tap.ok(not problem, "... replay exactly", problem)


@case
def huge_pages(tap, place):
    """Memory of huge pages could not be protected, and its 2 MiB would be compared at each call.  Most machines have none."""
    program, trace = os.path.join(APPS, "huge_pages"), os.path.join(place, "huge.srec")
    bare, _, _ = run([program], 60)
    status, out, err = record("-q", "--from-start", "-o", trace, "--", program, cwd=place, variables={"LD_LIBRARY_PATH": SOFTDEV})
    found = 2 if bare == 3 else 0
    tap.ok(status == bare and out.count("1: a at") == found, "memory for which a program asks in huge pages is there if the machine has some",
           "%s %s %s%s" % (bare, status, out, err))
    _, dumped, _ = run([SREPLAY, "dump", trace], 60)
    regions = [line for line in dumped.decode().splitlines() if 'record="region"' in line]
    tap.ok(len(regions) == found and all('how="protected"' in line for line in regions), "... and is protected", regions)
    problem = replay_problem(trace, bare, out.encode())
    tap.ok(not problem, "... and is there in a replay, or is not", problem)


@case
def daemons(tap, place):
    """The daemon's own reason, and soon."""
    unsafe = os.path.join(place, "open")
    os.mkdir(unsafe)
    os.chmod(unsafe, 0o777)
    for socket, reason in ((os.path.join(unsafe, "logd.sock"), "is not safe for a socket"), ("/proc/none/logd.sock", "cannot make the directory")):
        status, _, err = record("-o", "a.srec", "--", "true", cwd=place, variables={"SREPLAY_SOCKET": socket})
        tap.ok(status == 125 and reason in err and "by hand" not in err and err.count("\n") == 1, "a daemon that cannot start says why", err)


@case
def user_namespace(tap, place):
    """As in Apptainer and Charliecloud: /tmp belongs to a user that has no number there."""
    as_another = [] if os.geteuid() else ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    within = as_another + ["unshare", "--user", "--map-current-user"]
    if run(within + ["true"], 10)[0]:
        print("# no user namespaces here")
        return
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        if not os.geteuid():
            os.chown(own, 12345, 12345)
        trace, environment = os.path.join(own, "t.srec"), {**os.environ, "HOME": own, "SREPLAY_SOCKET": os.path.join(own, "logd.sock")}
        environment.pop("TMPDIR", None)
        recorded = run(within + [SREPLAY, "record", "-q", "--from-start", "-o", trace, "--", "date", "+%N"], 60, cwd=own, env=environment)
        tap.ok(not recorded[0], "recorded in a user namespace that has no root", recorded)
        replayed = run(within + [SREPLAY, "replay", trace], 60, cwd=own, env=environment)
        tap.ok(replayed[:2] == recorded[:2] and "0 divergences: exact" in replayed[2], "... and replayed there", replayed)


@case
def no_proc(tap, place):
    """Each command says what it lacks."""
    trace, within = os.path.join(place, "t.srec"), ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if run(within + ["true"], 10)[0]:
        print("# no mounts here")
        return
    run([SREPLAY, "record", "-q", "--from-start", "-o", trace, "--", "true"], 60)
    for what in (["record", "-o", trace + ".2", "--", "true"], ["replay", trace]):
        status, _, err = run(within + [SREPLAY, *what], 60)
        tap.ok(status == 125 and "sreplay needs /proc" in err and err.count("\n") == 1, what[0] + " without /proc", err)
    status, out, _ = run(within + [SREPLAY, "record", "--or-run", "-o", trace + ".2", "--", "echo", "done"], 60)
    tap.ok(not status and out == b"done\n", "record --or-run runs the program", out)


def gdb(trace, *commands, arguments=()):
    words = ["-nx", "-batch"] + [w for c in commands for w in ("-ex", c)]
    return run([SREPLAY, "replay", "--gdb", *arguments, trace, "--", *words], 60)


def sreplay_lines(*arguments):
    return run([SREPLAY, *arguments], 60)[1].decode(errors="replace").splitlines()


@case
def debugger(tap, place):
    trace, source, program = (os.path.join(place, n) for n in ("t.srec", "fault.c", "fault"))
    with open(source, "w") as f:
        f.write("#include <stdio.h>\n#include <time.h>\nint *nowhere;\n"
                "int main(void)\n{\n\tprintf(\"%ld\\n\", (long)time(0));\n\tfflush(stdout);\n\t*nowhere = 5;\n\treturn 0;\n}\n")
    subprocess.run(["cc", "-g", "-O0", "-o", program, source], check=True)
    status, _, _ = record("--from-start", "-o", trace, "--", program)
    tap.ok(status == 128 + 11, "a program that faults is recorded", status)
    status, out, err = gdb(trace, "continue", "bt", "print nowhere")
    text = out.decode(errors="replace")
    tap.ok("SIGSEGV" in text and "fault.c:8" in text and re.search(r"#0 .*main \(\)", text),
           "gdb takes the only rank, and stops where the program faults", text + err)
    dumped = sreplay_lines("dump", trace)
    sn = next(line.split()[0] for line in dumped if " time() = " in line)
    status, out, err = gdb(trace, "sreplay break " + sn, "continue", "bt", "bt -no-filters")
    shown = [line for line in out.decode(errors="replace").splitlines() if line.startswith("#")]
    again = next((i for i, line in enumerate(shown) if i and line.startswith("#0")), len(shown))
    tap.ok(0 < again and any("main ()" in line for line in shown[:again]) and not any("sr_" in line for line in shown[:again])
           and any("sr_" in line for line in shown[again:]), "a backtrace is the program's; -no-filters has ours as well", "\n".join(shown) + err)


def main():
    run_functions(CASES)


if __name__ == "__main__":
    main()
