#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replays on another processor than the recording's, which is made of the trace by editing it, and by who may have less memory, or
more.  Needs no RDMA."""

import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap, edit_process, replay, run

PROGRAMS = os.path.join(os.path.realpath(BUILD), "tests", "programs")
SOURCES, STRINGS = os.path.join(PROGRAMS, "sources"), os.path.join(PROGRAMS, "string_functions")
SECONDS = 60
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev"))


def record(trace, program, *arguments, options=()):
    return run([SREPLAY, "record", "-q", *options, "-o", trace, "--", program, *arguments], SECONDS, env=ENVIRONMENT)


def edit_processor(trace, change):
    """What the recorded processor said of itself becomes another's."""
    def change_table(process):
        table = [list(entry) for entry in struct.iter_unpack("<6I", bytes.fromhex(process["extra"]["cpuid"]))]
        for entry in table:
            change(entry)
        process["extra"]["cpuid"] = b"".join(struct.pack("<6I", *entry) for entry in table).hex()

    edit_process(trace, change_table)


def forget_tunables(trace):
    """libc has only the processor to go by."""
    def change(process):
        process["environment"] = [v.replace("GLIBC_TUNABLES=", "GLIBC_TUNABLEX=") for v in process["environment"]]

    edit_process(trace, change)


def another_vendor(entry):
    if entry[0] == 0:
        known = struct.pack("<3I", entry[3], entry[5], entry[4])
        other = b"GenuineIntel" if known == b"AuthenticAMD" else b"AuthenticAMD"
        entry[3], entry[5], entry[4] = struct.unpack("<3I", other)


def without_avx(entry):
    if entry[:2] == [7, 0]:
        entry[3] &= ~0xf0230020
    if entry[0] == 1:
        entry[4] &= ~(1 << 28 | 1 << 12)


def without_avx512(entry):
    if entry[:2] == [7, 0]:
        entry[3] &= ~0xf0230000


def with_fma4(entry):
    if entry[0] == 0x80000001:
        entry[4] |= 1 << 16


def replayed_now(err):
    """What the replayed program wrote where the recorded one wrote other bytes."""
    return "".join(line for line in err.splitlines() if line.startswith("sreplay:   now:      \""))


def test_told(tap, directory):
    """The program prints what it is told.  libc asks before its instructions can be replaced."""
    for what, source, change in (("another vendor", "processor", another_vendor), ("no AVX", "libc", without_avx)):
        trace = os.path.join(directory, "%s.srec" % source)
        printed = record(trace, SOURCES, source)[1].decode()
        edit_processor(trace, change)
        status, out, err = replay(trace, 0)
        intel = "756e6547" in printed
        told = ("68747541" if intel else "756e6547") if source == "processor" else "" # libc's other memcpy may begin like this one
        now = replayed_now(err)
        tap.ok(status == 124 and now and told in now, "%s: the replay is told so, and libc" % what,
               "%s\n%s\n%s" % (status, told, err))
    trace = os.path.join(directory, "daring.srec")
    recorded = record(trace, SOURCES, "daring")
    edit_processor(trace, with_fma4)
    status, out, err = replay(trace, 0)
    tap.ok(recorded[0] == 5 and status == 124 and err.count("(fma4)") == 2 and "SIGILL" in err,
           "an instruction that the recorded processor has and this one lacks: named when the program asks, and when "
           "it dies of it", "%s\n%s" % (status, err))


def test_functions(tap, directory):
    """A processor without AVX-512, as libc in the recording believed; the replay's may have it."""
    for options in ((), ("--clocks",)):
        trace = os.path.join(directory, "strings%s.srec" % "".join(options))
        recorded = record(trace, STRINGS, options=options)
        edit_processor(trace, without_avx512)
        forget_tunables(trace)
        status, out, err = replay(trace, 0)
        tap.ok((0, recorded[1]) == (status, out) == recorded[:2] and " 0 divergences: exact" in err,
               "libc's functions are the recorded ones %s" % " ".join(options), "%s\n%s %s %s" % (recorded, status, out, err))


def test_memory(tap, directory):
    """Without the right to lock memory (prlimit holds only for who has no CAP_IPC_LOCK), and without the recording's limit."""
    poor = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"] if os.geteuid() == 0 else []
    program = os.path.join(PROGRAMS, "given_memory")
    for what, limit, given, other in (("more", ["--as=%d" % (200 << 30)], b"much: Cannot allocate memory", []),
                                      ("less", [], b"\nlocked: given", poor + ["prlimit", "--memlock=65536"])):
        trace = os.path.join(directory, what + ".srec")
        recorded = run(["prlimit"] + limit + [SREPLAY, "record", "-q", "-o", trace, "--", program], SECONDS)
        status, out, err = run(other + [SREPLAY, "replay", "--rank", "0", trace], SECONDS)
        tap.ok(recorded[0] == 0 and given in recorded[1] and (status, out) == recorded[:2] and " 0 divergences: exact" in err,
               "a replay that may have %s memory is exact" % what, "%s\n%s %s %s" % (recorded, status, out, err))


def test_choice(tap, directory):
    """What libc chooses without AVX-512, and with --native-libc."""
    def printed(name, options=()):
        return record(os.path.join(directory, name + ".srec"), SOURCES, "libc", options=options)[1]

    tunables = "glibc.malloc.check=0"
    os.environ["GLIBC_TUNABLES"] = ENVIRONMENT["GLIBC_TUNABLES"] = tunables
    portable, native = printed("portable"), printed("native", ["--native-libc"])
    ENVIRONMENT["GLIBC_TUNABLES"] = tunables + ":glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-RTM"
    without = printed("without")
    del os.environ["GLIBC_TUNABLES"], ENVIRONMENT["GLIBC_TUNABLES"]
    tap.ok(portable == without, "libc does without AVX-512", "%s\n%s" % (portable, without))
    with open("/proc/cpuinfo") as f:
        has = " avx512vl" in f.read()
    tap.ok((native != portable) == has, "--native-libc lets it choose", "%s\n%s" % (portable, native))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = ENVIRONMENT["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        test_told(tap, directory)
        test_functions(tap, directory)
        test_choice(tap, directory)
        test_memory(tap, directory)
    tap.finish()


if __name__ == "__main__":
    main()
