# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the end-to-end tests: runs sreplay and reports results in TAP."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("SREPLAY_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
SREPLAY = os.path.join(os.path.realpath(BUILD), "replay", "sreplay")

# The line at the end of each recording; tests look at what else is said.
os.environ.setdefault("SREPLAY_QUIET", "on")

# In the emulated machine a program runs about 13 times slower than natively.
RECORD_SECONDS = 120
REPLAY_SECONDS = 120


ENTER = """
cd "$1" && shift && mkdir root || exit
for name in /*; do
    if [ -h "$name" ]; then cp -P "$name" root/
    elif [ -d "$name" ]; then mkdir "root$name" && mount --rbind "$name" "root$name" || exit
    fi
done
exec chroot root "$@"
"""
# Before an empty directory and a command: runs it in a chroot there, whose root is no mount, with this system's files.  Takes root.
IN_CHROOT = ["unshare", "-m", "sh", "-c", ENTER, "sh"]


class Tap:
    """Prints `ok N - text` lines; the process's exit status says whether all were."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def ok(self, condition, text, detail=""):
        self.count += 1
        if not condition:
            self.failed += 1
            for line in str(detail).splitlines()[:40]:
                print("# " + line)
        print("%s %d - %s" % ("ok" if condition else "not ok", self.count, text), flush=True)
        return condition

    def finish(self):
        print("1..%d" % self.count)
        sys.exit(1 if self.failed else 0)


def start(arguments, stdout, stderr, **options):
    return subprocess.Popen(arguments, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL,
                            start_new_session=True, **options)


def listens(port):
    """Does something listen on the port, by TCP or by librdmacm on the software device? Looks at the kernel's tables and does not connect."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as f:
            for line in f.readlines()[1:]:
                fields = line.split()
                if fields[1].endswith(":%04X" % port) and fields[3] == "0A":
                    return True
    with open("/proc/net/unix") as f:
        return any(re.search(r" 00010000 .* @softdev-cm/\w+/\w+/%d/" % port, line) for line in f)


def wait_for_listener(port, process, seconds=RECORD_SECONDS):
    end = time.time() + seconds
    while time.time() < end and process.poll() is None:
        if listens(port):
            return True
        time.sleep(0.05)
    return False


def until_listens(port):
    """The same as a line of a shell script."""
    return '%s -c "import sys; sys.path.insert(0, \'%s\'); import harness, time\nwhile not harness.listens(%d): time.sleep(0.05)"' % (
        sys.executable, os.path.dirname(os.path.realpath(__file__)), port)


def free_port():
    """A TCP port for a server that is about to start; not one of those that the system gives to whoever asks for any."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("", port))
                return port
            except OSError:
                continue


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(arguments, seconds, **options):
    """(exit status, stdout, stderr), 'hang' as the status if it does not end."""
    try:
        r = subprocess.run(arguments, capture_output=True, stdin=subprocess.DEVNULL, timeout=seconds, **options)
        return r.returncode, r.stdout, r.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        return "hang", e.stdout or b"", (e.stderr or b"").decode(errors="replace")


def replay(trace, rank, timeout=REPLAY_SECONDS, **options):
    """Runs `sreplay replay`; as run()."""
    return run([SREPLAY, "replay", "--rank", str(rank), trace], timeout, **options)


def edit_process(trace, change, rank=0):
    """What the trace says of a rank becomes what change(process) makes of it."""
    path = os.path.join(trace, "rank-%d" % rank, "process.json")
    with open(path) as f:
        process = json.load(f)
    change(process)
    with open(path, "w") as f:
        json.dump(process, f)


def first_difference(got, expected):
    got, expected = got.decode(errors="replace").splitlines(), expected.decode(errors="replace").splitlines()
    for n, (g, e) in enumerate(zip(got, expected)):
        if g != e:
            return "line %d\n  before:   %s\n  got:      %s\n  expected: %s" % (n + 1, expected[n - 1] if n else "", g, e)
    return "%d lines instead of %d" % (len(got), len(expected))


def replay_problem(trace, status, output, **options):
    """'' if rank 0 replays with this exit status and output, or what is wrong."""
    return difference(replay(trace, 0, **options), status, output)


def difference(replayed, status, output):
    """'' if what run() returned has this exit status and output, or what is wrong."""
    got, out, err = replayed
    if got != status:
        return "replayed exit status %s, not %s\n%s" % (got, status, err)
    return "" if out == output else "replayed output\n" + first_difference(out, output)


def read(path):
    with open(path, "rb") as f:
        return f.read()


CLOCK_REALTIME_COARSE = 5 # clock_gettime(2); this module has no name for it


def write_old(path, text):
    """An input as old as most are: the trace keeps what was written in the minute before the program."""
    with open(path, "w") as f:
        f.write(text)
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))
    # The recorder's clock is that of the timer tick, up to 4 ms late: a program that starts within that would find it changed since.
    while time.clock_gettime(CLOCK_REALTIME_COARSE) <= os.stat(path).st_ctime:
        time.sleep(0.001)


def fresh(directory):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    return directory


# Set where a test of the full tier is an ordinary one without its limits: those run after each change, and have minutes.
FULL = os.environ.get("SREPLAY_TEST_FULL") == "1"


def some(items, one_in):
    """All of them in the full tier; else one in so many, the first one among them."""
    return list(items) if FULL else list(items)[::one_in]


def run_functions(functions):
    """Calls each, or those that the arguments name, with a Tap and a directory that has a daemon's socket to itself."""
    tap = Tap()
    for function in functions:
        if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as place:
            place = os.path.realpath(place)
            os.environ["SREPLAY_SOCKET"] = os.path.join(place, "logd.sock")
            function(tap, place)
    tap.finish()
