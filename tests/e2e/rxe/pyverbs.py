#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own Python tests on rxe, bare and recorded, outcomes compared (run it under ci/rxe).

    pyverbs.py [NAME...]

A test is one line of the TAP; NAMEs restrict to some (tests.test_cq, tests.test_cq.CQTest.test_resize_cq).
Both runs take place at the same time: they wait more than they compute.  What
passes or fails by chance is tried again, alone, bare and recorded.
"""

import glob
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

PYTHON = "/usr/bin/python3"  # the one that has pyverbs
RUN_SECONDS = 400
AGAIN = 3


def unpack(directory):
    """The tests are in a documentation folder, some of them gzipped; which folder differs."""
    folders = [os.path.dirname(p) for p in glob.glob("/usr/share/doc/*/tests/base_rdmacm.py*")]
    if not folders:
        sys.exit("rdma-core's tests are not there: ci/setup installs python3-pyverbs")
    for path in glob.glob(os.path.join(folders[0], "*.py*")):
        name = os.path.basename(path)
        with gzip.open(path) if name.endswith(".gz") else open(path, "rb") as f:
            with open(os.path.join(directory, name[:-3] if name.endswith(".gz") else name), "wb") as out:
                out.write(f.read())


# ------------------------------------------------------- in the process of the tests

class Outcomes(unittest.TestResult):
    """Writes a line for each test as soon as it is over: a hang or a crash shows where it was."""

    def __init__(self, path):
        super().__init__()
        self.file = open(path, "w")

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.reason = "ok", ""
        self.write({"started": test.id()})

    def write(self, line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def stopTest(self, test):
        super().stopTest(test)
        self.write({"test": test.id(), "outcome": self.outcome, "reason": self.reason})

    def addError(self, test, err):
        super().addError(test, err)
        self.outcome, self.reason = "error", self.errors[-1][1]

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcome, self.reason = "failure", self.failures[-1][1]

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome, self.reason = "skipped", reason


def run_inside(directory, out, names):
    # not this file's folder, where "pyverbs" is this file
    sys.path[0:1] = [directory, os.path.dirname(directory)]
    sys.argv[1:] = ["--dev", os.environ.get("PYVERBS_DEVICE", "rxe0"), "--gid", "1"]
    from args_parser import parser
    parser.parse_args()
    suite = unittest.TestSuite()
    if not names:
        names = sorted("tests." + os.path.basename(p)[:-3] for p in glob.glob(os.path.join(directory, "test_*.py")))
    for name in names:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(name))
    suite.run(Outcomes(out))


# ---------------------------------------------------------------------- around them

def start(prefix, tests, directory, name, names):
    with open(os.path.join(directory, name + ".err"), "wb") as err:
        return subprocess.Popen(prefix + [PYTHON, os.path.realpath(__file__), "--inside", tests,
                                          os.path.join(directory, name)] + names,
                                stdout=err, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)


def outcomes(process, path):
    """test -> (outcome, reason)"""
    result, running = {}, None
    try:
        status = process.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired:
        status = "hang"
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what the tests may have left behind
    except ProcessLookupError:
        pass
    with open(path) as f:
        for line in map(json.loads, f):
            if "started" in line:
                running = line["started"]
            else:
                result[line["test"]], running = (line["outcome"], line["reason"]), None
    if running:
        with open(path + ".err", errors="replace") as f:
            result[running] = ("ended the run with status %s" % status, f.read()[-2000:])
    return result


def run_both(tests, directory, names, together):
    from harness import SREPLAY
    trace = tempfile.mktemp(dir=directory, suffix=".srec")
    record = [SREPLAY, "record", "-o", trace, "--"]
    bare = start([], tests, directory, "bare", names)
    if not together:
        bare.wait(RUN_SECONDS)
    recorded = start(record, tests, directory, "recorded", names)
    return (outcomes(bare, os.path.join(directory, "bare")),
            outcomes(recorded, os.path.join(directory, "recorded")), trace)


def settled(tests, directory, name, bare, recorded):
    """The pair of outcomes, or, if they differ, one of the next in which they do not."""
    for _ in range(AGAIN):
        if bare[0] == recorded[0]:
            break
        print("# again, bare %s, recorded %s: %s" % (bare[0], recorded[0], name))
        b, r, _ = run_both(tests, directory, [name], False)
        bare, recorded = b.get(name, ("none", "")), r.get(name, ("none", ""))
    return bare, recorded


def main():
    from harness import Tap
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        tests = os.path.join(directory, "tests")
        os.mkdir(tests)
        unpack(tests)
        bare, recorded, trace = run_both(tests, directory, sys.argv[1:], True)
        count = {}
        for name in sorted(bare):
            b, r = settled(tests, directory, name, bare[name], recorded.get(name, ("none", "")))
            count[b[0]] = count.get(b[0], 0) + 1
            tap.ok(b[0] == r[0], "%s: %s" % (name, b[0]),
                   "bare %s, recorded %s\n%s\n%s" % (b[0], r[0], b[1], r[1]))
        tap.ok(count.get("ok"), "bare: %s" % ", ".join("%d %s" % (n, o) for o, n in sorted(count.items())))
        tap.ok(os.path.exists(os.path.join(trace, "manifest.json")), "there is a trace", os.listdir(directory))
    tap.finish()


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--inside":
        run_inside(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
        main()
