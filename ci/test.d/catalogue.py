# SPDX-License-Identifier: BSD-2-Clause
"""The tests that there are: meson's list (`meson introspect --tests`), and what a user's words select of it.

A test's suites say its tiers. A test of the machine with RDMA devices (rxe) names, in its arguments, the commands for
the machine and those for afterwards (case.py beside this file reads them); all others are one command each.
"""

import fnmatch
import json
import os
import subprocess

import case

TIERS = {
    "fast": "unit tests",
    "local": "end to end, without a device: software stands in for it",
    "sanitized": "the unit tests again, under AddressSanitizer and UndefinedBehaviorSanitizer",
    "rxe": "end to end over Soft-RoCE, in one start of ci/rxe: one case of each class",
    "full": "all that there is",
}
USUAL = ("fast", "local", "sanitized", "rxe")
# In a tier, but not in full: full has a longer one that covers it.
SHORT = "short"
# Reads the source tree or help texts only: with sanitizers, for which sreplay would be compiled again, it is the same test.
SOURCE = "source"
# Sleeps for most of its time; uses a processor for less than half of it.
SLEEPS = "sleeps"
WAITS = "waits"
# meson's limits are for a quiet machine.
PATIENCE = 4


class Test:
    """One test under its unique name. stages: None, or the commands of one that needs the machine."""

    def __init__(self, entry, build, name, tiers):
        self.name = name
        self.tiers = tiers
        self.subjects = suites_of(entry) - set(TIERS)
        self.sleeps = SLEEPS in self.subjects
        self.waits = WAITS in self.subjects
        self.command = entry["cmd"]
        self.environment = dict(entry["env"], SREPLAY_BUILD=build)
        self.directory = entry["workdir"] or build
        self.depends = entry["depends"]
        self.seconds = entry["timeout"] * PATIENCE
        self.priority = entry["priority"]
        self.alone = not entry["is_parallel"]
        self.stages = case.parse(self.command)


def suites_of(entry):
    return {suite.rpartition(":")[2] for suite in entry["suite"]}


def native(entry, build):
    suites = suites_of(entry)
    tiers = suites & set(TIERS)
    if SHORT not in suites:
        tiers.add("full")
    return Test(entry, build, entry["name"], tiers)


def sanitized(entry, build):
    """A unit test of the second build tree; None for all else."""
    suites = suites_of(entry)
    if "fast" not in suites or SOURCE in suites:
        return None
    return Test(entry, build, "sanitized/" + entry["name"].partition("/")[2], {"sanitized", "full"})


def introspect(build, make):
    text = subprocess.run(["meson", "introspect", "--tests", build], check=True, stdout=subprocess.PIPE).stdout
    return [test for test in (make(entry, build) for entry in json.loads(text)) if test]


def built_for(tests, build):
    """The files, relative to the build tree, that these tests need: their programs, and what those are said to depend on."""
    text = subprocess.run(["meson", "introspect", "--targets", build], check=True, stdout=subprocess.PIPE).stdout
    needed = {target for test in tests for target in test.depends}
    root = os.path.realpath(build)
    return sorted(os.path.relpath(os.path.realpath(path), root)
                  for target in json.loads(text) if target["id"] in needed for path in target["filename"])


def names_twice(tests):
    seen = set()
    return sorted({test.name for test in tests if test.name in seen or seen.add(test.name)})


def matches(test, word):
    """Is this test meant? A word is a tier, a name or a pattern, the last part of a name, or a suite that is no tier."""
    return (word in test.tiers or word in test.subjects or fnmatch.fnmatchcase(test.name, word)
            or fnmatch.fnmatchcase(test.name.rpartition("/")[2], word))


def select(tests, words):
    """(chosen tests, words that mean none)"""
    words = words or USUAL
    chosen = [test for test in tests if any(matches(test, word) for word in words)]
    return chosen, [word for word in words if not any(matches(test, word) for test in tests)]
