#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The instructions under a jump (shim/exposed/x86/relocate.c) must be those that objdump finds.

    groups.py PROGRAM [FILE...]

PROGRAM is groups.c. The test treats each instruction of each file's code as one to replace.
"""

import re
import subprocess
import sys

FILES = ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libibverbs.so.1")
# Of those that a compiler makes, most can be copied; else the test would pass for want of any.
LEAST = 0.8


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def instructions(path):
    """Where they begin in the file, and what they are."""
    head = re.search(r"\.text\s+[0-9a-f]+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", output("objdump", "-h", "-j", ".text", path))
    shift = int(head.group(2), 16) - int(head.group(1), 16)
    text = output("objdump", "-d", "-w", "--no-show-raw-insn", "-j", ".text", path)
    return {int(at, 16) + shift: what for at, what in re.findall(r"^\s*([0-9a-f]+):\s+(\S.*)$", text, re.M)}


def differing(path, program):
    """(groups, instructions, those groups that are other instructions than objdump's)."""
    known = instructions(path)
    last = max(known)
    groups = [[int(at, 16) for at in line.split()]
              for line in output(program, path, input="\n".join("%x" % at for at in known)).splitlines()]
    wrong = [g for g in groups if g[-1] <= last and
             [at for at in range(g[0] + 1, g[-1] + 1) if at in known] != g[1:]]
    return len(groups), len(known), ["%s: %s" % (" ".join("%x" % at for at in g), known[g[0]]) for g in wrong]


def main():
    for number, path in enumerate(sys.argv[2:] or FILES, 1):
        groups, known, wrong = differing(path, sys.argv[1])
        for line in wrong[:20]:
            print("# " + line)
        good = not wrong and groups > LEAST * known
        print("%s %d - %s: %d of %d instructions can be replaced, as objdump sees them" % (
            "ok" if good else "not ok", number, path, groups, known))
    print("1..%d" % number)


main()
