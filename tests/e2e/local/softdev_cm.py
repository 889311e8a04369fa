#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The connection manager of the software device (tests/lib/softdev/cm), under the distribution's librdmacm.

    softdev_cm.py [NAME...]

Each case of tests/programs/softdev_cm runs bare.  Then tests/programs/rdmacm, which calls all of librdmacm
with both ends in one process, and pairs of rdma-core's, libfabric's and perftest's programs run bare, and recorded;
both sides replay, alone and as a group, in which nothing that came over their connections is "from outside".
"""

import os
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from cases import names_of
from harness import BUILD, SREPLAY, Tap, first_difference, free_port, kill_group, read, replay, run, start, wait_for_listener

BUILD = os.path.realpath(BUILD)
PROGRAMS = os.path.join(BUILD, "tests", "programs")
CASES = os.path.join(PROGRAMS, "softdev_cm")
SOFTDEV = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "ci", "softdev")
ADDRESS = "127.0.0.1"
SECONDS = 30
# They meet by TCP first.
PORTS = {"fi_pingpong": free_port()}

# name: (server, client)
PAIRS = {
    "rping": ("rping -s -C 10 -V -a " + ADDRESS, "rping -c -C 10 -V -v -a " + ADDRESS),
    "rping-own-qp": ("rping -s -q -C 3 -a " + ADDRESS, "rping -c -q -C 3 -v -a " + ADDRESS),
    "udaddy": ("udaddy -b " + ADDRESS, "udaddy -s " + ADDRESS),
    "rdma-server": ("rdma_server", "rdma_client -s " + ADDRESS),
    "reconnects": (os.path.join(PROGRAMS, "reconnects"), os.path.join(PROGRAMS, "reconnects") + " " + ADDRESS),
    "ucmatose": ("ucmatose -C 4 -b " + ADDRESS, "ucmatose -C 4 -s " + ADDRESS),
    "fi-msg": ("fi_pingpong -B %(fi_pingpong)d -p verbs -e msg -I 20 -S 64" % PORTS,
               "fi_pingpong -P %(fi_pingpong)d -p verbs -e msg -I 20 -S 64 " % PORTS + ADDRESS),
    "perftest": ("ib_send_lat -R -d soft0 -x 1 -F -n 100", "ib_send_lat -R -d soft0 -x 1 -F -n 100 " + ADDRESS),
    "rstream": ("rstream -T b -T r -S 1000 -C 20 -I 10 -b " + ADDRESS, "rstream -T b -T r -S 1000 -C 20 -I 10 -s " + ADDRESS),
}


def fabric():
    """The name that the ports of this fabric begin with, as tests/lib/softdev/cm/address.c makes it."""
    n = 0xcbf29ce484222325
    for byte in os.environ["SOFTDEV_FABRIC"].encode():
        n = (n ^ byte) * 0x100000001b3 % (1 << 64)
    return "@softdev-cm/%016x/" % n


# In rsockets nothing is compared.
UNCOMPARED = ("rstream",)


def wait_for_server(name, process):
    """Until it listens: the kernel's table of UNIX sockets shows its port."""
    end = time.time() + SECONDS
    if name in PORTS:
        wait_for_listener(PORTS[name], process, SECONDS)
        return
    while time.time() < end and process.poll() is None:
        with open("/proc/net/unix") as f:
            if any(fabric() in line and line.split()[3] == "00010000" for line in f):
                return
        time.sleep(0.01)


def run_pair(program, commands, base):
    """The exit status of each, and '' or what they said."""
    processes, outputs = [], []
    for side, command in enumerate(commands):
        if side:
            wait_for_server(program, processes[0])
        outputs += ["%s.%d.out" % (base, side), "%s.%d.err" % (base, side)]
        processes.append(start(command, open(outputs[-2], "wb"), open(outputs[-1], "wb")))
    result = []
    for process in processes:
        try:
            result.append(process.wait(SECONDS))
        except Exception:
            kill_group(process)
            result.append("hang")
    return result, "\n".join("%s: %s" % (path, open(path, errors="replace").read()[-500:]) for path in outputs)


def run_undisturbed(program, commands, base, trace=None):
    """perftest's server closes its listener and listens again after the first connection, and its client
    does not wait for that: a client that is rejected there says nothing of the device or of the recorder."""
    for _ in range(5):
        result, said = run_pair(program, commands, base)
        if not (program.startswith("ib_") and "RDMA_CM_EVENT_REJECTED" in said):
            break
        if trace:
            shutil.rmtree(trace, ignore_errors=True)
    return result, said


def recording(trace, rank, command):
    return [SREPLAY, "record", "-o", trace, "--rank", str(rank), "--group", "0,1", "--"] + command


def replay_problem(trace, rank, output):
    """'' if the rank replays with this output, or what is wrong."""
    status, out, err = replay(trace, rank, SECONDS)
    if status != 0 or out != output:
        return "exit status %s\n%s\n%s" % (status, err, first_difference(out, output))
    return ""


def group_problem(trace, compared):
    """'' if both ranks replay together, and what came from the other is known to."""
    status, out, err = run([SREPLAY, "replay", trace], SECONDS)
    entered = [tuple(map(int, n)) for n in re.findall(r"(\d+) bytes entered from the group, (\d+) from outside", err)]
    if status or "all 2 ranks ended as recorded" not in err:
        return "exit status %s\n%s" % (status, err)
    if compared and (len(entered) != 2 or any(not group or outside for group, outside in entered)):
        return "entered: %s\n%s" % (entered, err)
    return ""


def check_pair(tap, name, directory):
    commands = [command.split() for command in PAIRS[name]]
    if not shutil.which(commands[0][0]):
        tap.ok(True, "%s # SKIP it is not installed" % name)
        return
    base = os.path.join(directory, name)
    result, said = run_undisturbed(commands[0][0], commands, base)
    tap.ok(result == [0, 0], "%s: runs" % name, "%s\n%s" % (result, said))
    recorded = [recording(base + ".srec", rank, c) for rank, c in enumerate(commands)]
    result, said = run_undisturbed(commands[0][0], recorded, base, base + ".srec")
    tap.ok(result == [0, 0], "%s: is recorded" % name, "%s\n%s" % (result, said))
    for rank in range(2):
        problem = replay_problem(base + ".srec", rank, read("%s.%d.out" % (base, rank)))
        tap.ok(not problem, "%s: rank %d replays" % (name, rank), problem)
    problem = group_problem(base + ".srec", name not in UNCOMPARED)
    tap.ok(not problem, "%s: both replay together%s" % (name, "" if name in UNCOMPARED else ", and nothing is from outside"),
           problem)


def check_all_calls(tap, directory):
    trace = os.path.join(directory, "rdmacm.srec")
    command = [os.path.join(PROGRAMS, "rdmacm"), ADDRESS]
    # Without latency: the program unmaps memory that its own write is still on the way to.
    at_once = [SOFTDEV, "-t", "none", "--"]
    for what, words in ("runs", command), ("is recorded", recording(trace, 0, command)):
        status, out, err = run(at_once + words, SECONDS)
        tap.ok(status == 0 and out.endswith(b"done\n"), "all of librdmacm: %s" % what,
               "exit status %s\n%s\n%s" % (status, out.decode()[-1000:], err))
    problem = replay_problem(trace, 0, out)
    tap.ok(not problem, "all of librdmacm: replays", problem)


def main():
    if "SOFTDEV_FABRIC" not in os.environ:
        os.environ["SREPLAY_BUILD"] = BUILD
        os.execv(SOFTDEV, [SOFTDEV, "--", sys.executable, os.path.realpath(__file__)] + sys.argv[1:])
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for name in sys.argv[1:] or names_of(tap, CASES) + ["rdmacm"] + list(PAIRS):
            if name == "rdmacm":
                check_all_calls(tap, directory)
            elif name in PAIRS:
                check_pair(tap, name, directory)
            else:
                status, out, err = run([CASES, name], SECONDS)
                tap.ok(status == 0, name.replace("_", " "), "exit status %s\n%s%s" % (status, out.decode(), err))
    tap.finish()


if __name__ == "__main__":
    main()
