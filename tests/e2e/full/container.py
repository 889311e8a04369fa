#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the tier local again, in a container as Docker and Podman make one by default (ci/container).

    container.py [NAME...]
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "lib"))
from harness import Tap

CONTAINER = os.path.join(HERE, "..", "..", "..", "ci", "container")
# What the addresses, the filter and the root's overlay may matter to.
NAMES = ["getting_in", "threads", "forks", "children", "execs", "confirm", "order", "extract", "random_programs", "stacks", "pack", "outputs"]
SECONDS = 900


def container_problem():
    """'' if there is one here."""
    r = subprocess.run([CONTAINER, "sh", "-c", "! setarch -R true"], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    return r.stderr.strip().replace("\n", "; ") or "its filter allows personality" if r.returncode else ""


def main():
    tap = Tap()
    problem = container_problem()
    if problem:
        tap.ok(True, "no container # SKIP %s" % problem)
        tap.finish()
    for name in sys.argv[1:] or NAMES:
        r = subprocess.run([CONTAINER, sys.executable, os.path.join(HERE, "..", "local", name + ".py")], stdout=subprocess.PIPE, text=True,
                           errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL)
        cases, said = 0, []
        for line in r.stdout.splitlines():
            case = re.match(r"(not )?ok \d+ - (.*)", line)
            if case:
                tap.ok(not case.group(1), "%s: %s" % (name, case.group(2)), "\n".join(said))
                cases += 1
            said = said + [line] if line.startswith("#") else []
        tap.ok(cases and r.returncode in (0, 1), "%s came to its end" % name, r.returncode)
    tap.finish()


if __name__ == "__main__":
    main()
