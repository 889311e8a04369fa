# SPDX-License-Identifier: BSD-2-Clause
"""Commands for gdb on a replayed process; loaded by `sreplay replay --gdb RANK`.

    sreplay sn          where the current thread is: the number of its next recorded call, and what that is
    sreplay next [N]    the next N records of the recording (default 10)
    sreplay break SN    run until the current thread (or "thread T") makes its call SN
    sreplay explain     which rank produced what the last call brought (`sreplay explain`)

All of this is read from the memory that the process shares with the command that feeds it
(replay/abi/control.h); gdb has inherited its descriptor.
"""

import mmap
import os
import re
import struct
import subprocess

import gdb

MAGIC = 0x31796C7065725F73  # SR_REPLAY_MAGIC
HEAD = struct.Struct("=QIIII")  # struct sr_replay_control, up to thread_bytes; awaits_debugger follows
THREAD = struct.Struct("=QiB3xQQiIQ")  # struct sr_replay_thread
STOP_AT = 40  # offset of its stop_at


def control_fd():
    """The descriptor of the control page: its number depends on the limit on open files (logd/base/highfd.h)."""
    for fd in sorted(map(int, os.listdir("/proc/self/fd")), reverse=True):
        try:
            if os.pread(fd, 8, 0) == struct.pack("=Q", MAGIC):
                return fd
        except OSError:
            continue
    raise gdb.GdbError("this gdb was not started by `sreplay replay --gdb`")


class Control:
    """The control page of the replayed process."""

    def __init__(self):
        fd = control_fd()
        self.page = mmap.mmap(fd, os.fstat(fd).st_size)
        head = HEAD.unpack_from(self.page)
        self.threads, self.thread_at, self.thread_bytes = head[2], head[-2], head[-1]

    def let_go(self):
        """The process waits for a debugger; its system call begins again when it is continued, and sees this."""
        struct.pack_into("=I", self.page, HEAD.size, 0)

    def at(self, number):
        return self.thread_at + number * self.thread_bytes

    def calls(self, number):
        return THREAD.unpack_from(self.page, self.at(number))[0]

    def tid(self, number):
        return THREAD.unpack_from(self.page, self.at(number))[1]

    def stop_at(self, number):
        return struct.unpack_from("=Q", self.page, self.at(number) + STOP_AT)[0]

    def set_stop(self, number, sn):
        struct.pack_into("=Q", self.page, self.at(number) + STOP_AT, sn)

    def current(self):
        """The recorded number of the selected thread; 0 before it has made a call."""
        selected = gdb.selected_thread()
        tid = selected.ptid[1] if selected else 0
        for number in range(self.threads):
            if tid and self.tid(number) == tid:
                return number
        return 0


control = Control()
TRACE = os.environ["SREPLAY_GDB_TRACE"]
RANK = os.environ["SREPLAY_GDB_RANK"]
COMMAND = os.environ["SREPLAY_GDB_COMMAND"]


def run(*arguments):
    # Not into the descriptors of the replay: what a child of ours holds open stays open.
    result = subprocess.run([COMMAND] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            stdin=subprocess.DEVNULL, universal_newlines=True, errors="replace")
    return result.stdout


def records(thread, first, last):
    out = run("dump", "--rank", RANK, "--thread", str(thread), "--sn", "%d..%d" % (first, last), TRACE)
    return [line for line in out.splitlines() if not line.startswith(("rank ", "sreplay: "))]


def say_position(thread):
    sn = control.calls(thread) + 1
    print("rank %s thread %d SN %d; next in the recording:" % (RANK, thread, sn))
    lines = records(thread, sn, sn)[:1]
    if lines and 'record="repeat"' in lines[0]:
        # The call before it, repeated.
        lines = records(thread, int(lines[0].split()[0]) - 1, sn)[:2]
    print("\n".join(lines) or "  nothing: the thread's last call is over")


def select_program_frame():
    """The innermost frame that is not the recorder's own."""
    frame = gdb.newest_frame()
    while frame and is_ours(frame):
        frame = frame.older()
    if frame:
        frame.select()


def is_ours(frame):
    return "libsreplay_verbs" in (gdb.solib_name(frame.pc()) or "")


class Hide:
    """Backtraces are the program's: without the frames of the library that replays it (all of them: bt -no-filters)."""

    def __init__(self):
        self.name, self.priority, self.enabled = "sreplay", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        return (f for f in frames if not is_ours(f.inferior_frame()))


class Prefix(gdb.Command):
    """Commands for replayed processes: sn, next, break, explain."""

    def __init__(self):
        super(Prefix, self).__init__("sreplay", gdb.COMMAND_USER, gdb.COMPLETE_NONE, True)


class Sn(gdb.Command):
    """Where the current thread is: the number (SN) of its next recorded call, and what that is."""

    def __init__(self):
        super(Sn, self).__init__("sreplay sn", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        say_position(control.current())


class Next(gdb.Command):
    """The next records of the current thread: sreplay next [N]."""

    def __init__(self):
        super(Next, self).__init__("sreplay next", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        thread = control.current()
        sn, n = control.calls(thread) + 1, int(argument or "10", 0)
        print("\n".join(records(thread, sn, sn + n - 1)[:n]) or "no more calls of thread %d" % thread)


class Break(gdb.Command):
    """Stop before a call of the recording: sreplay break SN [thread T].

The program must run or be continued; it stops when the thread makes that call, before the call
does anything. Each thread has at most one such stop; SN 0 removes it."""

    def __init__(self):
        super(Break, self).__init__("sreplay break", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        match = re.match(r"\s*(\d+)(?:\s+thread\s+(\d+))?\s*$", argument)
        if not match:
            raise gdb.GdbError("sreplay break SN [thread T]")
        sn = int(match.group(1))
        thread = int(match.group(2)) if match.group(2) else control.current()
        if sn and sn <= control.calls(thread):
            raise gdb.GdbError("thread %d has made call %d already: it is at SN %d" %
                               (thread, sn, control.calls(thread) + 1))
        control.set_stop(thread, sn)
        if sn:
            waiting.add(thread)
            print("stops before rank %s thread %d SN %d" % (RANK, thread, sn))


OPERAND = re.compile(r"(-?0x[0-9a-f]+)?\((?:%(\w+))?(?:,%(\w+)(?:,(\d))?)?\)")


def operand():
    """The address of the memory operand of the instruction that comes next; None if it has none."""
    match = OPERAND.search(gdb.execute("x/i $pc", to_string=True).split(":", 1)[1])
    if not match:
        return None
    displacement, base, index, scale = match.groups()
    value = [int(gdb.parse_and_eval("(long) $" + r)) if r else 0 for r in (base, index)]
    if base == "rip":
        value[0] = next_pc()
    return (int(displacement or "0", 16) + value[0] + value[1] * int(scale or "1")) % 2 ** 64


def next_pc():
    """The address behind the instruction at $pc."""
    lines = gdb.execute("x/2i $pc", to_string=True).splitlines()
    return int(lines[1].split()[0].rstrip(":"), 16)


class Load(gdb.Breakpoint):
    """An instruction of a race that loads from this memory, after this call."""

    def __init__(self, thread, sn, pc, begin, end):
        super(Load, self).__init__("*%d" % pc)
        self.where = (thread, sn, begin, end)

    def stop(self):
        thread, sn, begin, end = self.where
        if control.current() != thread or control.calls(thread) != sn:
            return False
        address = operand()
        if address is not None and not begin - 64 < address < end:
            return False
        print("rank %s thread %d, after SN %d: the access of the race, at 0x%x" % (RANK, thread, sn, address or begin))
        return True


class Stops(gdb.Command):
    """Stop at the accesses of a race (`sreplay replay --race N` gives them): sreplay stops THREAD:SN:PC:BEGIN:END..."""

    def __init__(self):
        super(Stops, self).__init__("sreplay stops", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        for access in argument.split():
            thread, sn, pc, begin, end = (int(n, 0) for n in access.split(":"))
            if pc:
                Load(thread, sn, pc, begin, end)
                print("stops at the load of rank %s thread %d after SN %d" % (RANK, thread, sn))
            else:
                later.setdefault(thread, []).append(sn)
        for thread in later:
            later[thread].sort()
            stop_next(thread)


later = {}  # by thread: the SNs at which it is to stop, when it has reached the ones before


def stop_next(thread):
    if later.get(thread):
        sn = later[thread].pop(0)
        control.set_stop(thread, sn)
        waiting.add(thread)
        print("stops before rank %s thread %d SN %d" % (RANK, thread, sn))


class Explain(gdb.Command):
    """Which rank produced what a call brought: sreplay explain [SN] (default: the last call of this thread)."""

    def __init__(self):
        super(Explain, self).__init__("sreplay explain", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        thread = control.current()
        sn = int(argument, 0) if argument else control.calls(thread)
        place = "%s:%d" % (RANK, sn) if not thread else "%s.%d:%d" % (RANK, thread, sn)
        print(run("explain", TRACE, place).rstrip())


class Refused(gdb.Command):
    """Not in a replay: it would start the program itself, on the files of this machine."""

    def __init__(self, name):
        super(Refused, self).__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        raise gdb.GdbError("a replay runs once: \"continue\" goes on; to begin again, quit and start "
                           "`sreplay replay --gdb %s %s` again" % (RANK, TRACE))


waiting = set()  # threads that have not reached their stop yet


def stopped(event):
    """At a stop of `sreplay break`: selects the program's own frame and prints the position."""
    thread = control.current()
    if thread in waiting and not control.stop_at(thread):
        waiting.discard(thread)
        select_program_frame()
        say_position(thread)
        stop_next(thread)


class Fatal(gdb.Breakpoint):
    """The program is about to get a signal that ends it. Those that the replay itself uses are passed silently until then."""

    def __init__(self):
        super(Fatal, self).__init__("sr_signal_by_default", internal=True)
        self.silent = True

    def stop(self):
        name = {11: "SIGSEGV", 31: "SIGSYS"}.get(int(gdb.parse_and_eval("signo")))
        if name:
            gdb.execute("handle %s stop print pass" % name, to_string=True)
        return False


def quietly(command):
    """Without the report of a stop, which would be in our own code."""
    gdb.execute("set suppress-cli-notifications on")
    gdb.execute(command, to_string=True)
    gdb.execute("set suppress-cli-notifications off")


def first_stop():
    """Attaches to the program, which `sreplay replay` has started, and which waits for that."""
    for setting in ("breakpoint pending on", "follow-exec-mode same"):
        gdb.execute("set " + setting)
    # Exposed regions raise SIGSEGV and the system-call trap SIGSYS: the shim handles them.
    gdb.execute("handle SIGSEGV nostop noprint pass", to_string=True)
    gdb.execute("handle SIGSYS nostop noprint pass", to_string=True)
    gdb.execute("handle SIGTRAP stop print nopass", to_string=True)
    quietly("attach %s" % os.environ["SREPLAY_GDB_PROCESS"])
    control.let_go()
    Fatal()
    select_program_frame()
    # A replay forks only to go on as a child that was recorded.
    gdb.execute("set follow-fork-mode child")
    for name in ("run", "start", "starti", "detach", "attach"):
        Refused(name)
    # Whatever else starts a program, starts this instead.
    gdb.execute("set exec-wrapper /bin/false")
    gdb.events.gdb_exiting.connect(end)
    print("rank %s of %s, before its first instruction. \"help sreplay\" has commands for the recording;\n"
          "\"continue\" runs it." % (RANK, TRACE))


def end(event):
    """gdb would let it go on."""
    if gdb.selected_inferior().pid:
        gdb.execute("kill", to_string=True)


Hide()
Prefix()
Sn()
Next()
Break()
Stops()
Explain()
gdb.events.stop.connect(stopped)
first_stop()
