#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""record --order with communication libraries, which share memory with their launcher and receive into exposed memory:
what ranks send each other is left out all the same. MPICH and OpenMPI over UCX, and UCX, on the software device.

    order_stacks.py [RUNS [NAME...]]     of roster.py; the device's order is another one in each run
"""

import glob
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[0:0] = [os.path.join(HERE, "..", "..", "lib"), HERE]
import roster
from harness import SREPLAY, Tap, run, some

SECONDS = 90
# What each rank of mpi_data receives.
SENT = 60 * (500 + 2000) * 8


def record(directory, name, option, device=()):
    """(trace, '' or what went wrong)"""
    trace = os.path.join(directory, name + option + ".srec")
    command = roster.SOFTDEV[:-1] + list(device) + ["--", sys.executable, os.path.realpath(roster.__file__), "--inside", name, trace, "all", option]
    # perftest gives up where it cannot calibrate its clock, which other tests beside this one may cause: no recording of what is tested.
    for _ in range(3):
        shutil.rmtree(trace, ignore_errors=True)
        status, out, err = run(command, SECONDS, env=dict(os.environ, **roster.ROSTER[name].env))
        if b"Correlation coefficient" not in out:
            break
    return trace, "" if status == 0 else "recorded: %s\n%s%s" % (status, out.decode(errors="replace"), err)


def size(trace):
    return sum(map(os.path.getsize, glob.glob(trace + "/rank-*/thread-*.srs")))


def of_ranks(trace, pattern):
    """The numbers that `info` says of each rank."""
    out = subprocess.run([SREPLAY, "info", trace], capture_output=True, text=True).stdout
    return [int(n) for n in re.findall(pattern, out)]


def exact(trace, ranks, options):
    status, _, err = run([SREPLAY, "replay", "--timeout", "20"] + options + [trace], SECONDS)
    good = status == 0 and len(re.findall("0 divergences: exact", err)) == ranks
    return "" if good else "replayed %s: %s\n%s" % (options, status, err)


def extracted(directory, trace):
    """The whole job is replayed for that, and must be exact; then each rank alone."""
    detail = os.path.join(directory, "detail.srec")
    shutil.rmtree(detail, ignore_errors=True)
    return (exact(trace, 2, ["--record-ranks", "0,1", "-o", detail]) or exact(detail, 1, ["-r", "0"]) or
            exact(detail, 1, ["-r", "1"]))


def smaller(tap, directory, name, _):
    detailed, problem = record(directory, name, "--clocks")
    small, worse = record(directory, name, "--order")
    problem = problem or worse or extracted(directory, small)
    sent = of_ranks(small, r"(\d+) bytes\) that other recorded ranks sent")
    on_path = [sum(of_ranks(t, r"data path: .*; (\d+) bytes on disk")) for t in (detailed, small)]
    tap.ok(not problem and len(sent) == 2 and min(sent) > SENT * 0.9 and on_path[1] * 5 < on_path[0] and size(small) * 3 < size(detailed),
           "%s: %d bytes instead of %d, of the data path %d instead of %d; exact together, and each rank extracted" %
           (name, size(small), size(detailed), on_path[1], on_path[0]), "%s\nleft out: %s" % (problem, sent))


def without_loss(tap, directory, name, _):
    trace, problem = record(directory, name, "--order")
    problem = problem or extracted(directory, trace)
    shutil.rmtree(trace, ignore_errors=True)
    tap.ok(not problem, "%s: exact together, and each rank extracted" % name, problem)


def in_random_order(tap, directory, name, number):
    """On a device that executes requests in random order, with random pauses."""
    trace, problem = record(directory, name, "--order", ["-s", str(number + 1)])
    problem = problem or extracted(directory, trace)
    shutil.rmtree(trace, ignore_errors=True)
    tap.ok(not problem, "%s: exact together and extracted, on a device that executes requests in random order" % name, problem)


# OpenMPI's progress thread finds clocks, too.  The receives of ib_send_bw have buffers in common, with an SRQ those of
# several queue pairs.
JOBS = [("mpich-data", smaller), ("openmpi-data", smaller), ("openmpi-rma", in_random_order), ("ucx-tag_bw", without_loss), ("ib_send_bw-queues", without_loss),
        ("ib_send_bw-srq", without_loss)]


def main():
    tap = Tap()
    runs = int(sys.argv[1]) if sys.argv[1:] else 1
    jobs = [(name, without_loss) for name in sys.argv[2:]] or some(JOBS, 4)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        for number, (name, check) in itertools.product(range(runs), jobs):
            if shutil.which(roster.ROSTER[name].program):
                check(tap, directory, name, number)
            else:
                tap.count += 1
                print("ok %d - %s # SKIP no %s here" % (tap.count, name, roster.ROSTER[name].program))
    tap.finish()


if __name__ == "__main__":
    main()
