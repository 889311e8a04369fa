# SPDX-License-Identifier: BSD-2-Clause
"""Runs one command of a test: its output goes to a log, its TAP is counted."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import time

PASSED = re.compile(rb"^ *ok ", re.M)
FAILED = re.compile(rb"^ *not ok ", re.M)
TIMED_OUT = "its time limit passed"

started = set()  # processes that run now


def disk_directory():
    """Where files are those of a disk: Debian 13 has /tmp in memory, and mapped files there count as memory that processes share."""
    usual = tempfile.gettempdir()
    with open("/proc/mounts") as mounts:
        kinds = {fields[1]: fields[2] for fields in map(str.split, mounts)}
    return "/var/tmp" if kinds.get(usual) == "tmpfs" and os.access("/var/tmp", os.W_OK) else usual


class Result:
    """What came of one command, or of several, added up."""

    def __init__(self):
        self.passed = self.failed = 0
        self.seconds = self.cpu = 0.0
        self.log = b""

    def add(self, output, status, command):
        """A command that fails, or that runs no case, without a "not ok" of its own counts as one failure."""
        passed, failed = len(PASSED.findall(output)), len(FAILED.findall(output))
        if not failed and (status or not passed):
            why = "ended with status %s" % status if status else "ran no case"
            output += b"not ok - %s %s\n" % (" ".join(command).encode(), why.encode())
            failed = 1
        self.passed += passed
        self.failed += failed
        self.log += output


def run(result, command, environment, directory, seconds):
    """Runs it in a session and a temporary directory of its own, and adds what came of it to result."""
    with tempfile.TemporaryDirectory(prefix="srt.", dir=disk_directory(), ignore_cleanup_errors=True) as scratch, \
            tempfile.TemporaryFile() as log:
        # Tests run side by side: each has its own daemon, and its own place for files.
        own = dict(os.environ, TMPDIR=scratch, XDG_RUNTIME_DIR=scratch, **environment)
        begin = time.monotonic()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=own,
                                       cwd=directory, start_new_session=True)
        except OSError as error:
            result.add(b"", error, command)
            return
        status, used = wait(process, seconds)
        end_left_behind(scratch)
        log.seek(0)
        output = log.read()
    result.seconds += time.monotonic() - begin
    result.cpu += used.ru_utime + used.ru_stime
    if output and not output.endswith(b"\n"):
        output += b"\n"
    result.add(output, status, command)


def wait(process, seconds):
    """(status or why it was ended, resources used)"""
    started.add(process.pid)
    late = threading.Event()
    limit = threading.Timer(seconds, lambda: (late.set(), end(process.pid)))
    limit.start()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    limit.cancel()
    started.discard(process.pid)
    return (TIMED_OUT if late.is_set() else process.returncode), used


def end(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def end_left_behind(scratch):
    """Daemons and the like, in sessions of their own: known by the temporary directory in their environment."""
    mark = b"\0TMPDIR=%s\0" % scratch.encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                if mark in b"\0" + f.read() + b"\0":
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass  # it is gone, or somebody else's


def end_all():
    for group in list(started):
        end(group)
