"""Run the command in a virtual machine; the other side is the init script next to this file."""

import contextlib
import os
import resource
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import tty

import cache
from failure import EXIT_TIMEOUT, Failure

BOOT_LIMIT = 120       # seconds; a loaded host needs 20
KVM_TRIAL_LIMIT = 10   # where KVM works it takes 2
CONSOLE_TAIL = 60      # lines shown when the guest fails

# Sockets and directories of the host's that are not in the guest.
HOST_ONLY_VARIABLES = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "SSH_AUTH_SOCK", "TMPDIR",
                       "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")
FRESH_IN_GUEST = ("/tmp", "/run", "/dev/shm")

PORTS = ("control", "out", "err", "in")  # /dev/vport0p1 and so on


def prepare(options):
    """Fill the cache, so that the first run takes no longer than the others."""
    accelerator(options, find_qemu(), cache.kernel())


def run(options):
    qemu, kernel = find_qemu(), cache.kernel()
    accel = accelerator(options, qemu, kernel)
    with Machine(options, qemu, kernel, accel) as machine:
        return machine.run(options.timeout)


def find_qemu():
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        raise Failure("no qemu-system-x86_64 on this host; "
                      f"run {cache.SETUP} (as root) to install qemu-system-x86")
    return qemu


def accelerator(options, qemu, kernel):
    if options.accel != "auto":
        return options.accel
    return "kvm" if cache.kvm_works(qemu, kernel, lambda: kvm_trial(qemu, kernel)) else "tcg"


def kvm_trial(qemu, kernel):
    """Where KVM hangs, it does so without a word: so boot with it once, with a hard time limit."""
    class Trial:
        command, devices, cpus, memory = ["true"], 1, 2, 1024
        bring, shell, verbose = [], False, False
    with Machine(Trial, qemu, kernel, "kvm", quiet=True) as machine:
        try:
            return machine.run(KVM_TRIAL_LIMIT) == 0
        except Failure:
            return False


class Machine:
    """One virtual machine, one command."""

    def __init__(self, options, qemu, kernel, accel, quiet=False):
        self.options, self.qemu, self.kernel, self.accel = options, qemu, kernel, accel
        self.quiet = quiet
        self.started = time.monotonic()
        self.process = None
        self.brought = [os.path.abspath(directory) for directory in options.bring]
        self.cleanup = contextlib.ExitStack()

    def __enter__(self):
        self.directory = self.cleanup.enter_context(tempfile.TemporaryDirectory(prefix="rxe."))
        self.console = os.path.join(self.directory, "console")
        self.sockets = {}
        for name in PORTS:
            self.sockets[name] = socket.socketpair()
            for end in self.sockets[name]:
                self.cleanup.enter_context(end)
        return self

    def __exit__(self, *_):
        self.kill()
        self.cleanup.close()

    def run(self, limit):
        self.deadline = self.started + limit if limit else None
        self.write_job()
        self.start()
        if self.options.shell and sys.stdin.isatty():
            self.cleanup.enter_context(raw_terminal())
        self.start_pumps()
        try:
            return self.follow()
        except TimeoutError:
            if not self.quiet:
                print(f"ci/rxe: time limit of {limit} s passed; the command was ended",
                      file=sys.stderr)
            return EXIT_TIMEOUT
        finally:
            if self.options.verbose:
                self.show_console()

    # What the guest is to do.

    def write_job(self):
        job = os.path.join(self.directory, "job")
        os.mkdir(job)
        for name, text in (("settings", self.settings()), ("mounts", self.mounts()),
                           ("command", command_script(self.options, self.accel))):
            with open(os.path.join(job, name), "wb") as file:
                file.write(os.fsencode(text))

    def settings(self):
        stdin = "port" if self.passes_stdin() else "null"
        hostname = shlex.quote(os.uname().nodename)
        return f"hostname={hostname}\ndevices={self.options.devices}\nstdin={stdin}\n"

    def passes_stdin(self):
        """A terminal only with --shell: a command in the background may not read it."""
        if self.quiet or sys.stdin is None or sys.stdin.closed:
            return False
        return self.options.shell or not sys.stdin.isatty()

    def mounts(self):
        lines = [f"show {number} {shlex.quote(path)}"
                 for number, path in enumerate(shown_directories())]
        lines += [f"bring bring{number} {shlex.quote(path)}"
                  for number, path in enumerate(self.brought)]
        return "".join(line + "\n" for line in lines)

    # The machine.

    def start(self):
        for path in self.brought:
            os.makedirs(path, exist_ok=True)
        ends = {name: pair[1] for name, pair in self.sockets.items()}
        command = self.qemu_command({name: end.fileno() for name, end in ends.items()})
        self.say("starting " + shlex.join(command))
        # setpriv: should this process be killed, the machine goes with it.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--"] + command,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.console, "ab"),
            pass_fds=[end.fileno() for end in ends.values()], start_new_session=True)
        for end in ends.values():
            end.close()

    def qemu_command(self, ports):
        job = os.path.join(self.directory, "job")
        command = [
            self.qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-machine", "q35", *accel_options(self.accel),
            "-smp", str(self.options.cpus), "-m", str(self.options.memory or default_memory()),
            "-kernel", os.path.join(self.kernel, "vmlinux"),
            "-initrd", cache.initramfs(self.kernel), "-append", kernel_arguments(),
            "-chardev", f"file,id=console,path={self.console},append=on",
            "-serial", "chardev:console",
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            *shared("hostroot", "/", "readonly=on"), *shared("job", job, "readonly=on"),
        ]
        for number, path in enumerate(self.brought):
            command += shared(f"bring{number}", path)
        for number, name in enumerate(PORTS, 1):
            command += ["-chardev", f"socket,id={name},fd={ports[name]}",
                        "-device", f"virtserialport,chardev={name},nr={number}"]
        return command

    def start_pumps(self):
        out, err = (None, None) if self.quiet else (1, 2)
        self.pumps = {"out": Pump(self.sockets["out"][0], out),
                      "err": Pump(self.sockets["err"][0], err)}
        if self.passes_stdin():
            threading.Thread(target=send_stdin, args=(self.sockets["in"][0],),
                             daemon=True).start()

    # Its course.

    def follow(self):
        """Wait for the command's end; returns its exit code."""
        control = Lines(self.sockets["control"][0])
        boot_end = self.started + BOOT_LIMIT
        try:
            line = control.next(min(boot_end, self.deadline or boot_end))
        except TimeoutError:
            if self.deadline and time.monotonic() >= self.deadline:
                raise
            line = f"failed to start the command within {BOOT_LIMIT} s"
        if line == "running":
            self.say("the command runs")
            line = control.next(self.deadline)
        if not line.startswith("exit "):
            raise Failure(self.crash(line))
        code, out, err = (int(word) for word in line.split()[1:])
        self.say(f"the command ended with {code}")
        self.pumps["out"].wait_for(out, self.deadline)
        self.pumps["err"].wait_for(err, self.deadline)
        return code

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    # Reports.

    def crash(self, line):
        end = self.end_of_qemu()
        for pump in self.pumps.values():
            pump.wait_for_end()  # what the command said last, before the reason
        if line.startswith("failed "):
            what = "the virtual machine " + line
        else:
            what = f"the virtual machine ended before the command did ({end})"
        tail = self.console_lines()[-CONSOLE_TAIL:]
        return "\n".join([what + "; its console ended so:"] + ["  | " + line for line in tail])

    def end_of_qemu(self):
        """How qemu ended by itself: a panic of the guest is exit code 0, because of -no-reboot."""
        try:
            code = self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.kill()
            return "qemu ran on"
        return f"qemu: signal {-code}" if code < 0 else f"qemu: exit code {code}"

    def say(self, text):
        if self.options.verbose:
            passed = time.monotonic() - self.started
            print(f"ci/rxe: {passed:.2f} s: {text}", file=sys.stderr)

    def console_lines(self):
        with open(self.console, "rb") as file:
            return [os.fsdecode(line) for line in file.read().splitlines()]

    def show_console(self):
        for line in self.console_lines():
            print("ci/rxe: console:", line, file=sys.stderr)


class Lines:
    """Lines from a socket, one at a time; "" once the other side is gone."""

    def __init__(self, source):
        self.source, self.pending = source, b""

    def next(self, deadline):
        while b"\n" not in self.pending:
            self.source.settimeout(remaining(deadline))
            chunk = self.source.recv(4096)
            if not chunk:
                return ""
            self.pending += chunk
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode()


class Pump:
    """Copies a socket to a file descriptor in a thread of its own, and counts."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.count, self.ended = 0, False
        self.changed = threading.Condition()
        threading.Thread(target=self.copy, daemon=True).start()

    def copy(self):
        while chunk := self.receive():
            self.write(chunk)
            with self.changed:
                self.count += len(chunk)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def receive(self):
        try:
            return self.source.recv(1 << 16)
        except ConnectionResetError:  # qemu was killed
            return b""

    def write(self, chunk):
        while chunk and self.target is not None:
            try:
                chunk = chunk[os.write(self.target, chunk):]
            except BlockingIOError:  # the caller gave us a non-blocking pipe
                select.select([], [self.target], [])
            except OSError:  # nobody reads any more: the command goes on unheard
                self.target = None

    def wait_for(self, count, deadline):
        with self.changed:
            self.wait_until(lambda: self.count >= count or self.ended, remaining(deadline))

    def wait_for_end(self):
        with self.changed:
            self.wait_until(lambda: self.ended, 5)

    def wait_until(self, condition, seconds):
        if not self.changed.wait_for(condition, seconds):
            raise TimeoutError


def remaining(deadline):
    """Seconds until then; None = for ever."""
    if deadline is None:
        return None
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def send_stdin(target):
    try:
        while chunk := os.read(0, 1 << 16):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # the machine is gone, or stdin cannot be read
        pass


@contextlib.contextmanager
def raw_terminal():
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # keeps what was typed ahead
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


# The command line of qemu.

def accel_options(accel):
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi", "-cpu", "max"]


def default_memory():
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return min(4096, host // 2)


def shared(tag, path, *more):
    """A directory of the host's as a 9p device. security_model=none: the guest's root reads and
    writes with this user's rights, and a refused chown is no error."""
    path = path.replace(",", ",,")
    backend = ["local", f"id={tag}", f"path={path}", "security_model=none", "multidevs=remap"]
    return ["-fsdev", ",".join([*backend, *more]),
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def kernel_arguments():
    return " ".join((
        "console=ttyS0", "quiet",
        "panic=-1", "oops=panic",  # a crash is reported at once, not waited out
        "mitigations=off",         # nobody to protect here, and they cost time
        "random.trust_cpu=1",      # else getrandom waits
        "tsc=reliable",            # else qemu's TSC is distrusted and each clock read costs an exit
    ))


# The command.

def shown_directories():
    """Those that the guest's fresh tmpfs would hide from the command: working directory, checkout."""
    checkout = os.path.dirname(os.path.dirname(cache.HERE))
    hidden = [path for path in (checkout, os.getcwd())
              if any(path.startswith(fresh + "/") for fresh in FRESH_IN_GUEST)]
    return [path for path in dict.fromkeys(hidden)
            if not any(path.startswith(other + "/") for other in hidden)]


def command_script(options, accel):
    """The shell script that becomes the command in the guest."""
    command = options.command
    if options.shell:
        command = in_terminal(command)
    environment = {name: value for name, value in os.environ.items()
                   if name not in HOST_ONLY_VARIABLES}
    environment["SREPLAY_RXE"] = accel
    words = [f"{name}={value}" for name, value in environment.items()] + command
    return "\n".join((
        "echo 0 >/sys/fs/cgroup/command/cgroup.procs",
        *limits(),
        f"cd {shlex.quote(os.getcwd())} || exit 125",
        "exec env -i -- " + shlex.join(words),
    )) + "\n"


def limits():
    """Locked memory is what RDMA needs; the rest as on the host."""
    yield "ulimit -l unlimited"
    for flag, kind, unit in (("c", resource.RLIMIT_CORE, 512), ("n", resource.RLIMIT_NOFILE, 1)):
        soft, hard = resource.getrlimit(kind)
        for which, value in (("H", hard), ("S", soft)):
            text = "unlimited" if value == resource.RLIM_INFINITY else value // unit
            yield f"ulimit -{which}{flag} {text}"


def in_terminal(command):
    """script(1) gives it a terminal of its own, of the size of ours."""
    columns, lines = shutil.get_terminal_size()
    inner = f"stty rows {lines} cols {columns}; exec {shlex.join(command)}"
    return ["script", "-q", "-e", "-c", inner, "/dev/null"]
