#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Builds and runs tests; ci/test calls it when ci/setup is done."""

import argparse
import os
import signal
import subprocess
import sys

import catalogue
import running
from machine import Machine
from report import Report
from schedule import Schedule

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PLAIN = ["-Dwerror=true", "--buildtype=debugoptimized"]
# Optimised less, and with line numbers only, since that compiles faster. A warning counts in the plain tree: there are others
# where less is optimised.
SANITIZED = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1", "-Ddebug=true", "-Dc_args=-g1", "-Dcpp_args=-g1"]
# What runs side by side, in quarters of a test. A start of the machine counts as two tests: its processors are emulated.
TEST_WEIGHT = 4
WAITING_TEST_WEIGHT = 2
SLEEPING_TEST_WEIGHT = 1
MACHINE_WEIGHT = 8


def parse():
    tiers = "".join("  %-10s %s\n" % pair for pair in catalogue.TIERS.items())
    parser = argparse.ArgumentParser(
        prog="ci/test", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Builds, and runs tests. The last line is \"N passed, N failed\".",
        epilog="tiers (without a word: %s):\n%s\nenvironment:\n  SREPLAY_BUILD  the build tree (default: build)" % (
            ", ".join(catalogue.USUAL), tiers))
    parser.add_argument("words", metavar="TIER|NAME", nargs="*",
                        help="a tier, a test's name (local/threads), its last part, a pattern ('unit/*'), or a suite of meson's")
    parser.add_argument("--list", action="store_true", help="print the chosen tests with their tiers; without words all")
    parser.add_argument("--cases", action="store_true", help="print every case, not only those that fail")
    parser.add_argument("--no-build", action="store_true", help="the build trees are up to date")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() + 1,
                        help="tests at a time (default: one more than processors, as some tests wait)")
    return parser.parse_args()


class Trees:
    """The two build trees: the plain one, and the one with sanitizers."""

    def __init__(self):
        self.plain = os.path.abspath(os.environ.get("SREPLAY_BUILD") or os.path.join(ROOT, "build"))
        self.sanitized = self.plain + "-sanitized"
        os.environ["SREPLAY_BUILD"] = self.plain

    def set_up(self):
        self.meson(self.plain, PLAIN)
        self.meson(self.sanitized, SANITIZED)

    @staticmethod
    def meson(tree, options):
        if os.path.exists(os.path.join(tree, "build.ninja")):
            quietly(["ninja", "-C", tree, "build.ninja"])  # a meson.build may have changed
        else:
            quietly(["meson", "setup", tree, ROOT] + options)

    def tests(self):
        return (catalogue.introspect(self.plain, catalogue.native)
                + catalogue.introspect(self.sanitized, catalogue.sanitized))

    def build(self, tests):
        """Those that these tests need."""
        if any("sanitized" not in test.tiers for test in tests):
            quietly(["ninja", "-C", self.plain])
        sanitized = [test for test in tests if "sanitized" in test.tiers]
        if sanitized:
            quietly(["ninja", "-C", self.sanitized] + catalogue.built_for(sanitized, self.sanitized))


def quietly(command):
    r = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode:
        print("\n".join(r.stdout.splitlines()[-60:]))
        print("%s ended with %d\n0 passed, 1 failed" % (" ".join(command), r.returncode))
        sys.exit(1)


def show_list(tests):
    for test in tests:
        print("%-32s %s" % (test.name, " ".join(tier for tier in catalogue.TIERS if tier in test.tiers)))


def run_alone(test):
    result = running.Result()
    running.run(result, test.command, test.environment, test.directory, test.seconds)
    return result


def weight_of(test):
    return SLEEPING_TEST_WEIGHT if test.sleeps else WAITING_TEST_WEIGHT if test.waits else TEST_WEIGHT


def run_all(tests, build, report, jobs):
    """First those that need the machine, in one start of it; their rest, on this one, when they are back."""
    schedule = Schedule(jobs * TEST_WEIGHT)

    def add(test, run):
        work = (run, lambda result: report.add(test.name, result))
        if test.alone and not test.stages:
            schedule.add_alone(*work)
        else:
            schedule.add(weight_of(test), *work)

    by_priority = sorted(tests, key=lambda test: -test.priority)
    there = [test for test in by_priority if test.stages]
    if there:
        machine = Machine(there, build)

        def came_back(_):
            for test in there:
                add(test, lambda test=test: machine.afterwards(test.name))

        schedule.add(MACHINE_WEIGHT, lambda: machine.run(lambda line: print("# there: " + line, flush=True)), came_back)
    for test in by_priority:
        if not test.stages:
            add(test, lambda test=test: run_alone(test))
    schedule.serve()
    if there:
        machine.finish()


def end_on_signal(number, _frame):
    running.end_all()
    sys.exit(128 + number)  # so that every finally runs


def main():
    options = parse()
    trees = Trees()
    trees.set_up()
    tests = trees.tests()
    twice = catalogue.names_twice(tests)
    if twice:
        sys.exit("ci/test: more than one test is called " + ", ".join(twice))
    if options.list and not options.words:
        show_list(tests)
        return 0
    chosen, unknown = catalogue.select(tests, options.words)
    if unknown:
        sys.exit("ci/test: no test is meant by %s; see ci/test --list" % ", ".join(unknown))
    if options.list:
        show_list(chosen)
        return 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_on_signal)
    report = Report(trees.plain, len(chosen), options.cases)
    if not options.no_build:
        report.heading("build")
        trees.build(chosen)
    report.heading("%d tests" % len(chosen))
    run_all(chosen, trees.plain, report, options.jobs)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
