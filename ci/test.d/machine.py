# SPDX-License-Identifier: BSD-2-Clause
"""One start of ci/rxe for any number of tests: runs there.py in it, and collects what the tests left."""

import json
import os
import shutil
import subprocess
import tempfile

import running

HERE = os.path.dirname(os.path.realpath(__file__))
RXE = os.path.join(os.path.dirname(HERE), "rxe")
STARTING = 150  # seconds


class Machine:
    """tests: those to run, in their order. After run(), results has each test's Result."""

    def __init__(self, tests, build):
        self.tests = {test.name: test for test in tests}
        self.results = {name: running.Result() for name in self.tests}
        # Not below /tmp, which the machine has fresh.
        parent = os.path.join(build, "ci-test")
        os.makedirs(parent, exist_ok=True)
        self.directory = tempfile.mkdtemp(prefix="rxe.", dir=parent)

    def out(self, name):
        return os.path.join(self.directory, name.replace("/", "-"))

    def run(self, told=lambda line: None):
        """Starts the machine, again if it ends early, until each test had its turn. One that it ended in has failed."""
        waiting, spare_starts = list(self.tests), 1
        while waiting:
            begun, words = self.start(waiting, told)
            # One that does not come up says nothing of the tests.  Seen once, with an empty console.
            if not begun and spare_starts:
                spare_starts -= 1
                told("the machine did not start; once more: " + words.strip().replace("\n", " | "))
                continue
            for name in begun or waiting:
                self.collect(name, words)
            waiting = [name for name in waiting if name not in begun] if begun else []

    def start(self, names, told):
        """(the tests that were begun, the last words of ci/rxe)"""
        jobs = os.path.join(self.directory, "jobs.json")
        with open(jobs, "w") as f:
            json.dump([self.job(name) for name in names], f)
        limit = STARTING + sum(self.tests[name].seconds for name in names)
        command = [RXE, "--timeout", str(limit), "--bring", self.directory, "--",
                   "env", "PYTHONDONTWRITEBYTECODE=1", os.path.join(HERE, "there.py"), jobs]
        begun, words = [], []
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", start_new_session=True)
        running.started.add(process.pid)
        for line in process.stdout:
            what, *rest = line.split() or [""]
            if what == "begin":
                begun.append(rest[0])
            elif what == "end":
                self.results[rest[0]].seconds, self.results[rest[0]].cpu = float(rest[1]), float(rest[2])
                told(line.strip())
            else:
                words.append(line)
        status = process.wait()
        running.started.discard(process.pid)
        if status:
            words.append("ci/rxe ended with status %d\n" % status)
        return begun, "".join(words)

    def job(self, name):
        test = self.tests[name]
        os.makedirs(self.out(name), exist_ok=True)
        return {"name": name, "out": self.out(name), "environment": test.environment, "seconds": test.seconds,
                "commands": list(test.stages.commands(test.stages.there, self.out(name) + "/out", "TMP"))}

    def collect(self, name, words):
        """What the commands of a test said, and how they ended."""
        for n, line in enumerate(self.tests[name].stages.there):
            base = os.path.join(self.out(name), "there-%d" % n)
            output, status = b"", "the machine ended before it did:\n" + words
            if os.path.exists(base + ".log"):
                with open(base + ".log", "rb") as f:
                    output = f.read()
            if os.path.exists(base + ".status"):
                with open(base + ".status") as f:
                    status = json.load(f)
            self.results[name].add(output, status, line.split())

    def afterwards(self, name):
        """The commands of a test for this machine, run and added to its result. What a test that fails recorded is kept."""
        test, result = self.tests[name], self.results[name]
        for command in test.stages.commands(test.stages.here, self.out(name) + "/out"):
            running.run(result, command, test.environment, test.directory, test.seconds)
        if result.failed:
            result.log += b"# what it left: %s\n" % self.out(name).encode()
        else:
            shutil.rmtree(self.out(name), ignore_errors=True)
        return result

    def finish(self):
        """Nothing is left of tests that passed."""
        os.remove(os.path.join(self.directory, "jobs.json"))
        try:
            os.rmdir(self.directory)
        except OSError:
            pass  # of one that failed
