"""Run the command on this host, whose kernel has RDMA or can load rdma_rxe.

The devices are shared by all instances that run at once; the last one takes them away. Who uses
what stands in /run/sreplay-rxe, one directory a device, one file a process. A device that is there
without such a directory is somebody else's: it is used and left alone. Modules stay loaded.
"""

import contextlib
import fcntl
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import time

import cache
from failure import EXIT_TIMEOUT, Failure

STATE = "/run/sreplay-rxe"
GID_LIMIT = 5  # seconds for the kernel to give a new device its GIDs


def possible():
    """Has this kernel RDMA, and may we use it?"""
    return (rxe_loadable() or rdma_devices()) and (os.geteuid() == 0 or sudo_works())


def rxe_loadable():
    if os.path.isdir("/sys/module/rdma_rxe"):
        return True
    dry_run = ["modprobe", "--dry-run", "--quiet", "rdma_rxe"]
    # As root for real: in a container a module may be found and yet not be loadable.
    command = dry_run if os.geteuid() else ["modprobe", "--quiet", "rdma_rxe"]
    return silently(command)


def rdma_devices():
    with contextlib.suppress(FileNotFoundError):
        return os.listdir("/sys/class/infiniband")
    return []


def sudo_works():
    return silently(["sudo", "-n", "true"])


def silently(command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def run(options):
    if os.geteuid() != 0:
        run_again_as_root()
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    brought = [os.path.abspath(path) for path in options.bring]
    for path in brought:
        os.makedirs(path, exist_ok=True)
    with devices(options):
        try:
            return run_command(options)
        finally:
            give_to_caller(brought)


def run_again_as_root():
    """sudo drops most of the environment; env puts it back."""
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    os.execvp("sudo", ["sudo", "-n", "env", "-i", *environment, f"SREPLAY_RXE_UID={os.getuid()}",
                       sys.executable, *sys.argv])


def give_to_caller(directories):
    """What root wrote belongs to who called, as it does after a run in the virtual machine."""
    caller = os.environ.get("SREPLAY_RXE_UID")
    if caller and directories:
        group = pwd.getpwuid(int(caller)).pw_gid
        subprocess.run(["chown", "-R", f"{caller}:{group}", "--", *directories], check=True)


# The command.

def run_command(options):
    environment = dict(os.environ, SREPLAY_RXE="native")
    environment.pop("SREPLAY_RXE_UID", None)
    stdin = subprocess.DEVNULL if sys.stdin.isatty() and not options.shell else None
    say(options, "running " + " ".join(options.command))
    try:
        # A session of its own, so that at the limit all of it can be ended. Not a shell: it needs
        # the terminal.
        process = subprocess.Popen(options.command, stdin=stdin, env=environment,
                                   start_new_session=not options.shell)
    except FileNotFoundError:
        print(f"ci/rxe: {options.command[0]}: not found", file=sys.stderr)
        return 127
    except (PermissionError, OSError) as error:
        print(f"ci/rxe: {options.command[0]}: {error.strerror}", file=sys.stderr)
        return 126
    try:
        code = process.wait(options.timeout)
    except subprocess.TimeoutExpired:
        print(f"ci/rxe: time limit of {options.timeout} s passed; the command was ended",
              file=sys.stderr)
        return EXIT_TIMEOUT
    finally:
        end_session(process, options)
    return code if code >= 0 else 128 - code


def end_session(process, options):
    """Also what the command left behind: in the virtual machine nothing outlives it either."""
    with contextlib.suppress(ProcessLookupError):
        if options.shell:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# The devices.

@contextlib.contextmanager
def devices(options):
    if not rxe_loadable():
        say(options, "no rdma_rxe here; the command gets " + ", ".join(rdma_devices()))
        yield
        return
    for module in ("ib_uverbs", "rdma_ucm"):
        silently(["modprobe", "--quiet", module])
    taken = []
    try:
        with state_lock():
            for number in range(options.devices):
                taken.append(number)
                take(number, options)
        yield
    finally:
        with state_lock():
            for number in taken:
                release(number, options)


@contextlib.contextmanager
def state_lock():
    with open(STATE + ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def users(number):
    return os.path.join(STATE, f"rxe{number}")


def take(number, options):
    if f"rxe{number}" in rdma_devices() and not os.path.isdir(users(number)):
        say(options, f"rxe{number} was there before")
        return
    forget_dead_users(number)
    os.makedirs(users(number), exist_ok=True)
    with open(os.path.join(users(number), str(os.getpid())), "w"):
        pass
    if f"rxe{number}" not in rdma_devices():
        make(number)
        say(options, f"made rxe{number}")
    wait_for_gid(number)


def release(number, options):
    if not os.path.isdir(users(number)):
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(users(number), str(os.getpid())))
    forget_dead_users(number)
    if not os.listdir(users(number)):
        remove(number)
        os.rmdir(users(number))
        say(options, f"removed rxe{number}")


def forget_dead_users(number):
    """Those of an instance that was killed before it could say good-bye."""
    if not os.path.isdir(users(number)):
        return
    for pid in os.listdir(users(number)):
        if not os.path.isdir(f"/proc/{pid}"):
            os.unlink(os.path.join(users(number), pid))


def make(number):
    ours, peer = f"rxev{number}", f"rxep{number}"
    silently(["ip", "link", "delete", ours])  # left by an instance that was killed half-way
    command(["ip", "link", "add", ours, "type", "veth", "peer", "name", peer])
    command(["ip", "address", "add", f"198.18.{number}.1/24", "dev", ours])
    command(["ip", "link", "set", peer, "up"])
    command(["ip", "link", "set", ours, "up"])
    command(["rdma", "link", "add", f"rxe{number}", "type", "rxe", "netdev", ours])


def remove(number):
    silently(["rdma", "link", "delete", f"rxe{number}"])
    silently(["ip", "link", "delete", f"rxev{number}"])


def wait_for_gid(number):
    path = f"/sys/class/infiniband/rxe{number}/ports/1/gids/1"
    end = time.monotonic() + GID_LIMIT
    while not has_gid(path):
        if time.monotonic() > end:
            raise Failure(f"rxe{number} got no IPv4 GID within {GID_LIMIT} s ({path}); "
                          f"look at: ip address show dev rxev{number}")
        time.sleep(0.02)


def has_gid(path):
    with contextlib.suppress(OSError), open(path) as file:
        return bool(file.read().strip().strip("0:"))
    return False


def command(words):
    if not shutil.which(words[0]):
        raise Failure(f"no {words[0]} on this host; run {cache.SETUP} to install iproute2")
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stdout.strip()}; "
                      "try --vm to run in a virtual machine")


def say(options, text):
    if options.verbose:
        print(f"ci/rxe: {text}", file=sys.stderr)
