# SPDX-License-Identifier: BSD-2-Clause
"""What ci/test prints: a line for each test, the log of one that fails, the slowest, and the count at the end."""

import os
import sys
import time

SHOWN_LINES = 250
SLOWEST = 10


class Report:
    def __init__(self, build, count, all_cases):
        self.directory = os.path.join(build, "ci-test", "logs")
        self.count, self.all_cases = count, all_cases
        self.begin = time.monotonic()
        self.results = []  # (name, result)

    def heading(self, text):
        print("\n== %s (%.0f s, load %.1f)" % (text, time.monotonic() - self.begin, os.getloadavg()[0]), flush=True)

    def add(self, name, result):
        self.results.append((name, result))
        self.keep(name, result.log)
        print("%s %3d/%d - %-28s %4d cases %6.1f s, of CPU %5.1f s" % (
            "not ok" if result.failed else "ok", len(self.results), self.count, name, result.passed + result.failed,
            result.seconds, result.cpu), flush=True)
        if result.failed:
            self.show(name, result.log)
        elif self.all_cases:
            print(result.log.decode(errors="replace"), end="", flush=True)

    def path(self, name):
        return os.path.join(self.directory, name + ".log")

    def keep(self, name, log):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(log)

    def show(self, name, log):
        """All but the cases that passed."""
        lines = log.decode(errors="replace").splitlines()
        shown = [line for line in lines if not line.lstrip().startswith("ok ")]
        for line in shown[-SHOWN_LINES:]:
            print("    " + line)
        print("    (all of it: %s)" % self.path(name), flush=True)

    def finish(self):
        """Prints the end; the exit status."""
        self.heading("the end")
        print("%.0f s of CPU; the slowest:" % sum(result.cpu for _, result in self.results))
        for name, result in sorted(self.results, key=lambda r: -r[1].seconds)[:SLOWEST]:
            print("  %6.1f s, of CPU %6.1f s  %s" % (result.seconds, result.cpu, name))
        failed = [(name, result.failed) for name, result in self.results if result.failed]
        for name, cases in failed:
            print("failed: %s (%d), %s" % (name, cases, self.path(name)))
        total = sum(result.failed for _, result in self.results)
        print("%d passed, %d failed" % (sum(result.passed for _, result in self.results), total))
        sys.stdout.flush()
        return 1 if total or not self.results else 0
