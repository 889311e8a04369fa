#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What stands on libibverbs, unmodified, on the software device: its names, UCX, and rdma-core's own Python tests.

    softdev_stacks.py [names] [rates] [ucx] [pyverbs]
"""

import ctypes
import os
import re
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[0:0] = [os.path.join(HERE, "..", "..", "lib"), os.path.join(HERE, "..", "rxe")]
import pyverbs
from harness import BUILD, Tap, free_port, kill_group, run, start, wait_for_listener

ROOT = os.path.realpath(os.path.join(HERE, "..", "..", ".."))
SOFTDEV = [os.path.join(ROOT, "ci", "softdev"), "--"]
OURS = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev", "libibverbs.so.1")
SECONDS = 60

# (test, options): UCP's tests, and those of the transport itself.
UCX = {"UCX_TLS": "rc_verbs,ud_verbs", "UCX_NET_DEVICES": "soft0:1"}
TRANSPORT = ["-d", "soft0:1", "-x", "rc_verbs"]
UCX_TESTS = [("tag_lat", []), ("ucp_put_lat", []), ("ucp_get", []), ("ucp_fadd", []), ("ucp_cswap", []),
             ("am_lat", TRANSPORT), ("put_bw", TRANSPORT), ("get", TRANSPORT + ["-D", "bcopy"])]

# Of rdma-core's tests, those that pass; the others are skipped, for what the device does not have.
PYVERBS_PASS = 100


def versioned_names(library):
    status, out, err = run(["objdump", "-T", library], SECONDS)
    if status:
        raise RuntimeError(err)
    lines = [line.split() for line in out.decode().splitlines() if "IBVERBS" in line and "*UND*" not in line]
    return {(words[-2].strip("()"), words[-1]) for words in lines}


def distribution():
    """The path of the distribution's library."""
    status, out, _ = run(["ldconfig", "-p"], SECONDS)
    return re.search(r"libibverbs\.so\.1 .*=> (\S+)", out.decode()).group(1)


def check_names(tap):
    """Version 1.0 is the interface of 2006, with other structs; of it there is what today's libraries ask for."""
    theirs, ours = versioned_names(distribution()), versioned_names(OURS)
    today = {name for version, name in theirs if version != "IBVERBS_1.0"}
    missing = [n for n in theirs - ours if n[0] != "IBVERBS_1.0" or n[1] not in today]
    tap.ok(len(theirs) > 100 and not missing, "all names of the distribution's library are there", sorted(missing))


def check_rates(tap):
    theirs, ours = ctypes.CDLL(distribution()), ctypes.CDLL(OURS)
    differ = [(f, n) for f, numbers in (("ibv_rate_to_mult", range(40)), ("ibv_rate_to_mbps", range(40)), ("mult_to_ibv_rate", range(600)),
                                       ("mbps_to_ibv_rate", range(0, 1300000)[::125])) for n in numbers
              if getattr(theirs, f)(n) != getattr(ours, f)(n)]
    tap.ok(not differ, "rates are converted as the distribution's library does it", differ)


def check_ucx(tap):
    if not shutil.which("ucx_perftest"):
        print("ok %d - UCX # SKIP no ucx-utils here" % (tap.count + 1))
        tap.count += 1
        return
    status, out, err = run(SOFTDEV + ["ucx_info", "-d"], SECONDS)
    text = out.decode()
    wanted = [r"Transport: rc_verbs\n# *Device: soft0:1", r"Transport: ud_verbs\n# *Device: soft0:1", r"Connection manager: rdmacm"]
    tap.ok(status == 0 and all(re.search(w, text) for w in wanted), "ucx_info lists soft0 and its connection manager", err + text)
    for name, options in UCX_TESTS:
        status, out, err = run([sys.executable, os.path.realpath(__file__), "--ucx", name] + options, SECONDS)
        tap.ok(status == 0, " ".join(["ucx_perftest", name] + options), out.decode() + err)


def ucx_test(name, options):
    """Both sides, in one fabric."""
    port = free_port()
    command = SOFTDEV + [sys.executable, os.path.realpath(__file__), "--ucx-pair", str(port), name] + options
    status, out, err = run(command, SECONDS, env=dict(os.environ, **UCX))
    sys.stdout.write(out.decode() + err)
    sys.exit(0 if status == 0 and "Final:" in out.decode() else 1)


def ucx_pair(port, name, options):
    with tempfile.TemporaryFile() as log:
        server = start(["ucx_perftest", "-p", port], log, log)
        try:
            wait_for_listener(int(port), server, 20)
            client = ["ucx_perftest", "-p", port, "127.0.0.1", "-t", name, "-n", "30", "-w", "2"] + options
            status, out, err = run(client, SECONDS)
            end = time.monotonic() + 10
            while server.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            log.seek(0)
            print(out.decode() + err + log.read().decode())
            sys.exit(0 if status == 0 and server.poll() == 0 else 1)
        finally:
            kill_group(server)


def kernel_without_devices(directory):
    """The tests of rdma-core 46 and later ask the kernel for the devices' networks, by the command `rdma`: it has no device,
    and need not even know what RDMA is."""
    tools = os.path.join(directory, "tools")
    os.mkdir(tools)
    with open(os.path.join(tools, "rdma"), "w") as f:
        f.write("#!/bin/sh\necho '[]'\n")
    os.chmod(f.name, 0o755)
    os.environ["PATH"] = tools + ":" + os.environ["PATH"]


def check_pyverbs(tap):
    with tempfile.TemporaryDirectory() as directory:
        tests = os.path.join(directory, "tests")
        os.mkdir(tests)
        pyverbs.unpack(tests)
        os.environ["PYVERBS_DEVICE"] = "soft0"
        kernel_without_devices(directory)
        process = pyverbs.start(SOFTDEV, tests, directory, "bare", [])
        result = pyverbs.outcomes(process, os.path.join(directory, "bare"))
    wrong = ["%s: %s %s" % (name, outcome, reason[-300:]) for name, (outcome, reason) in sorted(result.items())
             if outcome not in ("ok", "skipped")]
    passed = sum(outcome == "ok" for outcome, _ in result.values())
    tap.ok(not wrong, "rdma-core's Python tests: none fails", "\n".join(wrong))
    tap.ok(passed >= PYVERBS_PASS, "rdma-core's Python tests: %d pass, %d are skipped" % (passed, len(result) - passed - len(wrong)))


def main():
    if sys.argv[1:2] == ["--ucx"]:
        ucx_test(sys.argv[2], sys.argv[3:])
    if sys.argv[1:2] == ["--ucx-pair"]:
        ucx_pair(sys.argv[2], sys.argv[3], sys.argv[4:])
    tap = Tap()
    checks = {"names": check_names, "rates": check_rates, "ucx": check_ucx, "pyverbs": check_pyverbs}
    for name in sys.argv[1:] or checks:
        checks[name](tap)
    tap.finish()


if __name__ == "__main__":
    main()
